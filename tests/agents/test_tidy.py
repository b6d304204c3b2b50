import pytest
from hypothesis import given, strategies as st

from agents.models.characters import whole_characters
from agents.models.port import ToolCall
from agents.tidy import TextCollector, summarize_call, tidy_call


def test_an_ordinary_call_stays_as_it_is() -> None:
    call = ToolCall("call_1", "read", {"path": "a", "deep": [{"x": 1.5, "y": None}]})
    assert tidy_call(call, set(), 1) == call


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("submit.result", "submit_result"),
        ("read\n", "read_"),
        ("", "unnamed"),
        ("\x1b[2J", "__2J"),
        ("x" * 10_000_000, "x" * 64),
        ("rëad", "r_ad"),
    ],
)
def test_a_hostile_name_becomes_plain_and_is_never_called(name: str, kept: str) -> None:
    call = tidy_call(ToolCall("a", name, {"path": "x"}), set(), 1)
    assert call == ToolCall("a", kept, {}, "there is no tool of that name")


@pytest.mark.parametrize(
    ("sent", "taken", "kept"),
    [
        ("", set(), "call_3"),
        ("a b", set(), "call_3"),
        ("x" * 65, set(), "call_3"),
        ("again", {"again"}, "call_3"),
        ("", {"call_3"}, "call_3x"),
        ("fine", {"other"}, "fine"),
    ],
)
def test_ids_become_plain_and_unique(sent: str, taken: set[str], kept: str) -> None:
    assert tidy_call(ToolCall(sent, "ls", {}), taken, 3).id == kept


def endless() -> dict[str, object]:
    inner: dict[str, object] = {}
    inner["self"] = inner
    return inner


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"a": float("nan")}, "the arguments are not JSON: "),
        ({"a": {1, 2}}, "the arguments are not JSON: "),
        ({"a": b"x"}, "the arguments are not JSON: "),
        (endless(), "the arguments are not JSON: "),
        ({(1, 2): "a"}, "the arguments are not JSON: "),
        ([1], "the arguments must be a JSON object"),
        (None, "the arguments must be a JSON object"),
        ({"a": "x" * 10_000_000}, "the arguments are longer than 8,000,000 characters; send"),
    ],
)
def test_arguments_that_are_not_json_are_a_fault(arguments: object, fault: str) -> None:
    call = ToolCall("a", "read", arguments)  # type: ignore[arg-type] # what a hostile model sends
    tidied = tidy_call(call, set(), 1)
    assert tidied.arguments == {}
    assert (tidied.fault or "").startswith(fault)


def test_arguments_nested_too_deeply_are_a_fault() -> None:
    deep: object = 1
    for _ in range(5_000):
        deep = [deep]
    tidied = tidy_call(ToolCall("a", "read", {"a": deep}), set(), 1)
    assert (tidied.fault or "").startswith("the arguments are not JSON: ")


def test_keys_become_what_json_makes_of_them() -> None:
    call = ToolCall("a", "read", {1: (1, 2)})  # type: ignore[dict-item] # what a hostile model sends
    assert tidy_call(call, set(), 1).arguments == {"1": [1, 2]}


def test_a_fault_that_the_model_reported_is_kept() -> None:
    call = ToolCall("a", "read", {}, "the arguments are broken JSON")
    assert tidy_call(call, set(), 1) == call


def test_text_is_kept_up_to_a_limit_and_marked() -> None:
    text = TextCollector(limit_chars=5)
    assert list(text.add("abc")) == ["abc"]
    assert text.text == "abc"
    assert list(text.add("defg")) == ["de"]
    assert list(text.add("h")) == []
    assert text.text == "abcde\n[the answer was cut here]"


def test_long_text_comes_in_pieces() -> None:
    text = TextCollector()
    pieces = list(text.add("x" * 10_000_000))
    assert max(map(len, pieces)) <= 16_384
    assert "".join(pieces) == "x" * 1_000_000
    assert text.text.endswith("[the answer was cut here]")


@given(st.lists(st.text(st.characters(exclude_categories=[]))))
def test_collected_text_can_always_be_written(parts: list[str]) -> None:
    text = TextCollector(limit_chars=20)
    for part in parts:
        for piece in text.add(part):
            piece.encode()
    text.text.encode()


def test_halves_of_pairs_are_joined_or_replaced() -> None:
    assert whole_characters("a\ud83d\ude00b\ud83dc") == "a\U0001f600b\ufffdc"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"path": "a/b.py", "limit": 3}, "a/b.py"),
        ({"command": "ls\n  -la\t x"}, "ls -la x"),
        ({"pattern": "\x1b[2Jx"}, "\\x1b[2Jx"),
        ({"path": 3, "pattern": "p"}, "p"),
        ({}, ""),
        ({"command": "y" * 10_000_000}, "y" * 119 + "…"),
    ],
)
def test_a_call_is_summarized_on_one_safe_line(arguments: dict[str, object], line: str) -> None:
    assert summarize_call(ToolCall("a", "x", arguments)) == line
