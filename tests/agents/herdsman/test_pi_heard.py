"""What a Pi says, as far as it concerns a managed agent."""

import inspect
import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agents.backends import pi_fields
from agents.backends.pi_fields import PiProtocolError
from agents.herdsman import pi_heard
from agents.herdsman.pi_heard import (
    Answered,
    Asked,
    CallBegan,
    CallEnded,
    CompactionBegan,
    CompactionEnded,
    DialogOpened,
    Entered,
    ExtensionFailed,
    GotOn,
    Measured,
    Replied,
    RunBegan,
    Settled,
    decode_heard,
)
from agents.herdsman.record import ContextUsage

TEXT = {"type": "text", "text": "Half "}
CALL = {"type": "toolCall", "id": "c-1", "name": "bash"}
UI = {"type": "extension_ui_request", "id": "d"}
CUSTOM = {"customType": "k", "details": {"a": 1}, "data": {"b": 2}}


def heard(**record: Any) -> object:
    return decode_heard(json.dumps(record).encode())


def message(**fields: Any) -> object:
    return heard(type="message_end", message={"role": "assistant", **fields})


def usage(text: str) -> object:
    return heard(**UI, method="setStatus", statusKey="pinata:usage", statusText=text)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ({"type": "agent_start"}, RunBegan()),
        ({"type": "turn_start"}, GotOn()),
        ({"type": "turn_end"}, GotOn()),
        ({"type": "agent_settled", "aborted": True}, Settled(was_aborted=True)),
        ({"type": "agent_settled"}, Settled(was_aborted=False)),
        ({"type": "compaction_start", "reason": "manual"}, CompactionBegan(is_manual=True)),
        ({"type": "compaction_start", "reason": "threshold"}, CompactionBegan(is_manual=False)),
        ({"type": "compaction_end"}, CompactionEnded()),
        ({"type": "extension_error", "event": "e", "error": "f"}, ExtensionFailed("e", "f")),
        ({"type": "response", "id": "1", "success": False}, Replied("1", "it gave no reason")),
        ({"type": "response", "success": False, "error": "no"}, Replied("", "no")),
        (
            {"type": "tool_execution_start", "toolCallId": "c", "toolName": "t", "args": {"a": 1}},
            CallBegan("c", "t", {"a": 1}),
        ),
        (
            {
                "type": "tool_execution_end",
                "toolCallId": "c",
                "result": {"content": [TEXT, {"type": "image"}, TEXT]},
            },
            CallEnded("c", "Half Half "),
        ),
        (
            {"type": "entry_appended", "entry": {"type": "custom", **CUSTOM}},
            Entered("k", {"b": 2}, is_message=False),
        ),
        (
            {"type": "entry_appended", "entry": {"type": "custom_message", **CUSTOM}},
            Entered("k", {"a": 1}, is_message=True),
        ),
        (
            {"type": "message_end", "message": {"role": "custom", **CUSTOM}},
            Entered("k", {"a": 1}, is_message=True),
        ),
        ({**UI, "method": "confirm"}, DialogOpened("d", None)),
        ({**UI, "method": "input", "title": "t", "timeout": 500}, DialogOpened("d", 0.5)),
        (
            {**UI, "method": "input", "title": "pinata:ask", "placeholder": '{"ask": "x"}'},
            Asked("d", {"ask": "x"}),
        ),
    ],
    ids=lambda each: each["type"] if isinstance(each, dict) else "",
)
def test_a_record_is_what_it_says(record: dict[str, Any], what: object) -> None:
    assert heard(**record) == what


@pytest.mark.parametrize(
    "record",
    [
        {"type": "queue_update"},
        {"type": "entry_appended", "entry": {"type": "label"}},
        {"type": "message_end", "message": {"role": "toolResult"}},
        {**UI, "method": "notify"},
        {**UI, "method": "setStatus", "statusKey": "another"},
        {},
    ],
    ids=str,
)
def test_other_records_say_nothing(record: dict[str, Any]) -> None:
    assert heard(**record) is None


def test_of_a_growing_answer_only_the_text_is_visible() -> None:
    text = {"type": "text_delta", "delta": "a"}
    thought = {"type": "thinking_delta", "delta": "b"}
    assert heard(type="message_update", assistantMessageEvent=text) == GotOn("a")
    assert heard(type="message_update", assistantMessageEvent=thought) == GotOn("")


def test_an_answer_is_its_text_and_its_calls() -> None:
    content = [TEXT, {"type": "thinking", "text": "no"}, CALL, {**TEXT, "text": "done"}]
    assert message(content=content, stopReason="toolUse") == Answered("Half done", ("c-1",))
    assert message(content="odd") == Answered("")


def test_an_answer_that_broke_off_has_a_fault() -> None:
    assert message(stopReason="error", errorMessage="429") == Answered("", (), "429")
    assert message(stopReason="aborted") == Answered("", (), "aborted", is_aborted=True)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"tokens": 5, "contextWindow": 10, "percent": 50}', ContextUsage(5, 10, 50)),
        ('{"tokens": null, "contextWindow": 10, "percent": null}', ContextUsage(None, 10, None)),
        ('{"tokens": 5}', ContextUsage(5, None, 0)),
        ("null", None),
        ("{", None),
        ("[" * 9_999, None),
    ],
)
def test_the_usage_is_what_the_child_can_tell(text: str, what: ContextUsage | None) -> None:
    assert usage(text) == Measured(what)


@pytest.mark.parametrize("line", [b"", b"hello", b"[]", b"null", b"\xff", b"[" * 9_999])
def test_what_is_no_record_breaks_the_protocol(line: bytes) -> None:
    with pytest.raises(PiProtocolError):
        decode_heard(line)


# Every name that the reader of records knows, of fields and of types.
_SOURCE = inspect.getsource(pi_heard) + inspect.getsource(pi_fields)
_NAMED = st.sampled_from(sorted(set(re.findall(r'"(\w+)"', _SOURCE)) | {"pinata:usage"}))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _NAMED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMED, inner, max_size=4),
    max_leaves=8,
)


@given(_NAMED, st.dictionaries(_NAMED, _VALUES, max_size=6))
def test_whatever_a_child_says_is_a_value_or_a_sentence(
    type_: str, record: dict[str, object]
) -> None:
    with suppress(PiProtocolError):
        heard(**{**record, "type": type_})
