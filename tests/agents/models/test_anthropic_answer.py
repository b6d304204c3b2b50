"""Answers of Anthropic's Messages API, event by event."""

from typing import Any

import pytest

from agents.models.anthropic_answer import AnswerReader
from agents.models.arguments import CUT_ARGUMENTS, LONG_ARGUMENTS, MAX_ARGUMENTS_CHARS
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    CallReady,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ThoughtEnded,
    ToolCall,
    Trouble,
    Usage,
)
from agents.models.wire import ReportedError, ShapeError

Event = dict[str, Any]


def start(index: int, **block: object) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: object) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def ended(reason: object, **usage: object) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def read(*events: object) -> tuple[list[AnswerPiece], AnswerReader]:
    reader = AnswerReader()
    return [piece for event in events for piece in reader.read(event)], reader


def test_text_comes_as_it_arrives() -> None:
    pieces, _ = read(start(0, type="text", text="He"), delta(0, "text_delta", text="llo"), stop(0))
    assert pieces == [TextPiece("He"), TextPiece("llo")]


def test_a_thought_ends_with_its_signature() -> None:
    pieces, _ = read(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="si"),
        delta(0, "signature_delta", signature="g"),
        stop(0),
    )
    assert pieces == [ThinkingPiece("hm"), ThoughtEnded("sig")]


def test_a_redacted_thought_keeps_its_content_and_shows_nothing() -> None:
    pieces, _ = read(start(0, type="redacted_thinking", data="hidden"), stop(0))
    assert pieces == [ThoughtEnded("hidden", is_redacted=True)]


def test_parallel_calls_are_told_apart_by_their_index() -> None:
    pieces, _ = read(
        start(0, type="tool_use", id="c1", name="read", input={}),
        start(1, type="tool_use", id="c2", name="grep", input={}),
        delta(0, "input_json_delta", partial_json='{"path"'),
        delta(1, "input_json_delta", partial_json='{"pattern": "x"}'),
        delta(0, "input_json_delta", partial_json=': "a"}'),
        stop(1),
        stop(0),
    )
    assert pieces == [
        CallReady(ToolCall("c2", "grep", {"pattern": "x"})),
        CallReady(ToolCall("c1", "read", {"path": "a"})),
    ]


def test_arguments_may_come_whole_with_the_beginning() -> None:
    pieces, _ = read(start(0, type="tool_use", id="c1", name="read", input={"path": "a"}), stop(0))
    assert pieces == [CallReady(ToolCall("c1", "read", {"path": "a"}))]


def test_arguments_that_are_no_json_are_the_call_s_fault() -> None:
    (piece,), _ = read(
        start(0, type="tool_use", id="c1", name="read", input={}),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
        stop(0),
        ended("tool_use"),
    )
    assert isinstance(piece, CallReady)
    assert piece.call.fault is not None
    assert piece.call.fault.startswith("the arguments are not JSON")


def test_a_call_that_the_length_limit_cuts_off_is_told_so() -> None:
    pieces, _ = read(
        start(0, type="tool_use", id="c1", name="read", input={}),
        delta(0, "input_json_delta", partial_json="no JSON"),
        stop(0),
        start(1, type="tool_use", id="c2", name="read", input={}),
        delta(1, "input_json_delta", partial_json='{"path": "a'),
        stop(1),
        ended("max_tokens"),
        {"type": "message_stop"},
    )
    faults = [piece.call.fault or "" for piece in pieces if isinstance(piece, CallReady)]
    assert len(faults) == len(pieces) == 2
    assert faults[0].startswith("the arguments are not JSON")
    assert faults[1] == CUT_ARGUMENTS


def test_what_a_server_leaves_open_ends_with_the_answer() -> None:
    pieces, _ = read(
        start(0, type="thinking", thinking="hm", signature="sig"),
        start(1, type="tool_use", id="c1", name="read", input={"path": "a"}),
        {"type": "message_stop"},
    )
    assert pieces == [
        ThinkingPiece("hm"),
        ThoughtEnded("sig"),
        CallReady(ToolCall("c1", "read", {"path": "a"})),
    ]


def test_more_arguments_than_an_answer_may_have_are_the_call_s_fault() -> None:
    part = delta(0, "input_json_delta", partial_json='"' + "x" * (MAX_ARGUMENTS_CHARS // 2))
    pieces, _ = read(
        start(0, type="tool_use", id="c1", name="write", input={}),
        *(part, part, part),
        stop(0),
        start(1, type="tool_use", id="c2", name="ls", input={}),
        stop(1),
        ended("tool_use"),
    )
    assert pieces == [
        CallReady(ToolCall("c1", "write", {}, LONG_ARGUMENTS)),
        CallReady(ToolCall("c2", "ls", {})),
    ]


def test_usage_counts_the_cache_as_input_and_takes_the_newest_numbers() -> None:
    counts = {
        "input_tokens": 10,
        "cache_read_input_tokens": 70,
        "cache_creation_input_tokens": 20,
        "output_tokens": 1,
        "service_tier": "standard",
    }
    _, reader = read(
        {"type": "message_start", "message": {"usage": counts}}, ended("end_turn", output_tokens=33)
    )
    assert reader.usage == Usage(
        input_tokens=100, output_tokens=33, cache_read_tokens=70, cache_write_tokens=20
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", StopReason.STOP),
        ("stop_sequence", StopReason.STOP),
        ("pause_turn", StopReason.STOP),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("a word from the future", StopReason.STOP),
        (None, StopReason.STOP),
    ],
)
def test_every_reason_to_stop_means_something(word: object, reason: StopReason) -> None:
    _, reader = read(ended(word), {"type": "message_stop"})
    assert reader.is_complete
    assert list(reader.end()) == [AnswerEnded(reason)]


def test_a_refusal_is_told_apart() -> None:
    _, reader = read(ended("refusal"))
    assert not reader.is_complete
    failed = AnswerFailed(Trouble.OTHER, "the model refused to answer")
    assert list(reader.end()) == [failed]


def test_what_follows_the_end_adds_nothing() -> None:
    pieces, _ = read({"type": "message_stop"}, delta(3, "text_delta", text="x"), None)
    assert pieces == []


def test_what_is_unknown_adds_nothing() -> None:
    pieces, _ = read(
        {"type": "ping"},
        {"type": "an event of the future"},
        start(0, type="server_tool_use", id="s", input={"a": 1}),
        delta(0, "a delta of the future"),
        stop(0),
        stop(9),
    )
    assert pieces == []


def test_an_error_of_the_provider_is_reported_in_its_words() -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ReportedError) as caught:
        read(event)
    assert (caught.value.code, caught.value.words) == ("overloaded_error", "Overloaded")


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        {"type": 5},
        {"type": "content_block_start", "content_block": {"type": "text"}},
        {"type": "content_block_start", "index": {}, "content_block": {"type": "text"}},
        delta(3, "text_delta", text="x"),
    ],
    ids=["null", "array", "empty", "number", "no index", "odd index", "not begun"],
)
def test_what_is_no_event_of_this_api_is_refused(event: object) -> None:
    with pytest.raises(ShapeError):
        read(event)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start"},
        {"type": "message_start", "message": {"usage": {"input_tokens": "many"}}},
        {"type": "message_delta", "delta": 5, "usage": [1]},
        start(0, type="text", text=None),
        start(0, type=None),
    ],
)
def test_missing_and_odd_members_do_no_harm(event: object) -> None:
    pieces, reader = read(event)
    assert pieces == []
    assert reader.usage is None
