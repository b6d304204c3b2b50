import pytest

from agents.strict_yaml import StrictYamlError, decode_yaml


def test_words_and_numbers_are_those_of_json() -> None:
    text = """\
truth: true
lie: false
nothing: null
empty:
tilde: ~
whole: -12
zero: 0
part: 1.5
power: 1e3
list: [1, two]
"""
    assert decode_yaml(text) == {
        "truth": True,
        "lie": False,
        "nothing": None,
        "empty": None,
        "tilde": None,
        "whole": -12,
        "zero": 0,
        "part": 1.5,
        "power": 1000.0,
        "list": [1, "two"],
    }


@pytest.mark.parametrize(
    "word",
    [
        *("no", "yes", "on", "off", "True", "012", "0x1f", "1_000", "2026-01-31", "12:30", ".5"),
        *(".nan", ".inf", "1e999", "9" * 30, "<<", "="),
    ],
)
def test_what_other_readers_take_for_a_value_stays_text(word: str) -> None:
    assert decode_yaml(f"value: {word}") == {"value": word}


def test_a_number_of_many_digits_cannot_become_endless() -> None:
    assert decode_yaml("value: 1.0e99") == {"value": 1e99}
    assert decode_yaml("value: 1.0e999") == {"value": "1.0e999"}


def test_keys_are_text_whatever_they_look_like() -> None:
    assert decode_yaml("true: 1\n12: 2\n<<: {a: 1}") == {"true": 1, "12": 2, "<<": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", "line 4: the key 'c' stands here twice: remove one"),
        ("a: &x 1\nb: *x", "line 2: references such as *name are not read: repeat it"),
        ("a: !!python/name:os.system x", "line 1: the tag "),
        ("a: !!int 5", "line 1: the tag "),
        ("? [a, b]\n: 1", "line 1: a key must be plain text"),
        ("a: [1", "line 1: "),
        ("--- 1\n--- 2", "line 2: "),
        ("a: \x00", "a character that YAML does not allow"),
        ("[" * 1_000, "lists and mappings are nested too deeply"),
    ],
)
def test_a_fault_names_its_line_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(StrictYamlError) as caught:
        decode_yaml(text)
    assert str(caught.value).startswith(message)


def test_an_empty_document_is_null() -> None:
    assert decode_yaml("") is None
