import json

import pytest
from hypothesis import given, strategies as st

from engine.core.quote import (
    QUOTE_LIMIT_CHARS,
    escape,
    escape_json,
    middle_out,
    name_list,
    one_line,
    quote_value,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", '"plain"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("é", '"é"'),
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (5.0, "5.0"),
        (float("nan"), "NaN"),
        ([1, "a"], '[1, "a"]'),
        ({"a": [None]}, '{"a": [null]}'),
        ([], "[]"),
        ({}, "{}"),
        (b"x", "a value of type bytes"),
    ],
)
def test_values_are_shown_as_json_shows_them(value: object, shown: str) -> None:
    assert quote_value(value) == shown


@pytest.mark.parametrize("char", ["\x00", "\n", "\x1b", "\x9b", "\u202e", "\ud800", "\U000e0001"])
def test_what_a_terminal_would_act_on_is_escaped(char: str) -> None:
    shown = quote_value(f"a{char}b")
    assert shown.isprintable()
    assert json.loads(shown) == f"a{char}b"


def test_a_long_text_is_cut_after_two_hundred_characters() -> None:
    assert quote_value("x" * QUOTE_LIMIT_CHARS) == '"' + "x" * (QUOTE_LIMIT_CHARS - 1) + "…"
    assert quote_value("x" * 10_000_000) == '"' + "x" * (QUOTE_LIMIT_CHARS - 1) + "…"


def test_a_text_that_just_fits_is_whole() -> None:
    text = "x" * (QUOTE_LIMIT_CHARS - 2)
    assert quote_value(text) == f'"{text}"'


def test_a_value_nested_beyond_all_bounds_is_cut() -> None:
    deep: object = "core"
    for _ in range(10_000):
        deep = [deep]
    assert quote_value(deep) == "[" * QUOTE_LIMIT_CHARS + "…"


def test_keys_are_not_followed_into_their_depth() -> None:
    assert quote_value({(1, 2): 3}) == "{a value of type tuple: 3}"


def test_a_number_too_long_to_write_is_described() -> None:
    assert quote_value(10**5_000) == "a number with more digits than fit here"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_any_value_is_short_printable_and_whole_when_it_is_short(value: object) -> None:
    shown = quote_value(value)
    assert shown.isprintable()
    assert len(shown) <= QUOTE_LIMIT_CHARS + 1
    if not shown.endswith("…"):
        assert repr(json.loads(shown)) == repr(value)


def test_names_are_enumerated_in_english() -> None:
    assert name_list([]) == ""
    assert name_list(["a"]) == "a"
    assert name_list(["a", "b"]) == "a and b"
    assert name_list(["a", "b", "c"], last="or") == "a, b or c"
    assert name_list(["a", "b", "c", "d"], most=2) == "a, b and 2 more"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext ü \U0001f600", "plain\n\ttext ü \U0001f600"),
        ("\x1b[2J\x07\r", "\\x1b[2J\\x07\\r"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("\ud800", "\\ud800"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
    ],
)
def test_what_a_terminal_acts_upon_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown


@pytest.mark.parametrize("is_ascii", [True, False])
def test_json_says_the_same_with_nothing_in_it_that_a_terminal_acts_upon(*, is_ascii: bool) -> None:
    said = ["".join(map(chr, range(0x3000))), "\ud800 \U0001f600"]
    shown = escape_json(json.dumps(said, indent=1, ensure_ascii=is_ascii))
    assert json.loads(shown) == said
    assert escape(shown) == shown
    assert ("ü" in shown) is not is_ascii


def test_one_line_is_short_and_blanks_are_single() -> None:
    assert one_line(" a\r\n\tb\u2028\x1b[0m ", 40) == r"a b \x1b[0m"
    assert one_line("x" * 40, 40) == "x" * 40
    assert one_line("x" * 10_000_000, 40) == "x" * 39 + "…"


@pytest.mark.parametrize("limit_chars", [0, 30, 100, 101])
def test_the_middle_of_a_long_text_is_left_out(limit_chars: int) -> None:
    text = "a" * 500 + "b" * 500
    shown = middle_out(text, limit_chars)
    assert f" [... {1_000 - shown.count('b') * 2} characters ...] " in shown
    assert len(shown) <= max(limit_chars, 40)
    assert middle_out(text, 1_000) == text
