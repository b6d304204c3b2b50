from collections.abc import Iterable

import pytest

from agents.models.arguments import MAX_ARGUMENTS_CHARS, MAX_CALLS
from agents.models.openai_answer import AnswerReader
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

STOP: dict[str, object] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
ENDED = AnswerEnded(StopReason.TOOL_USE)


def said(**delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def call(
    name: str | None = None,
    arguments: object = None,
    *,
    index: int | None = None,
    call_id: str | None = None,
) -> dict[str, object]:
    """Return a chunk with a piece of a call; what is None is left out."""
    function = _given(name=name, arguments=arguments)
    return said(tool_calls=[_given(index=index, id=call_id, function=function)])


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def read(*chunks: object) -> tuple[list[AnswerPiece], AnswerReader]:
    reader = AnswerReader()
    return [piece for chunk in chunks for piece in reader.read(chunk)], reader


def pieces_of(chunks: Iterable[object]) -> list[AnswerPiece]:
    """Return a whole answer, its end included."""
    pieces, reader = read(*chunks)
    return [*pieces, *reader.end()]


def usage_of(*chunks: object) -> Usage | None:
    return read(*chunks)[1].usage


def calls_of(chunks: Iterable[object]) -> list[ToolCall]:
    return [piece.call for piece in pieces_of(chunks) if isinstance(piece, CallReady)]


def test_calls_that_arrive_side_by_side_are_told_apart_by_index() -> None:
    chunks = [
        call("ls", "", index=0, call_id="a"),
        call("read", "", index=1, call_id="b"),
        call(arguments='{"path"', index=0),
        call(arguments='{"path": "y"}', index=1),
        call(arguments=': "x"}', index=0),
        STOP,
    ]
    assert pieces_of(chunks) == [
        CallReady(ToolCall("a", "ls", {"path": "x"})),
        CallReady(ToolCall("b", "read", {"path": "y"})),
        ENDED,
    ]


@pytest.mark.parametrize(
    "chunks",
    [
        [call("ls", '{"n": 1}', call_id="a"), call("ls", '{"n": 2}', call_id="b")],
        [
            call("ls", '{"n":', call_id="a"),
            call(arguments=" 1}"),
            call("ls", '{"n": 2}', call_id="b"),
        ],
        [
            call("ls", '{"n":', index=0, call_id="a"),
            call(arguments=" 1}", index=0, call_id="a"),
            call("ls", '{"n": 2}', index=0, call_id="b"),
        ],
        [call("ls", {"n": 1}, index=0, call_id="a"), call("ls", {"n": 2}, index=1, call_id="b")],
        [
            call("ls", "", call_id="a"),
            call("ls", "", call_id="b"),
            call(None, '{"n": 2}', call_id="b"),
            call(None, '{"n": 1}', call_id="a"),
        ],
        [
            call(None, '{"n":', index=5, call_id="a"),
            call("ls", " 1}", index=5),
            call("ls", '{"n": 2}', index=2, call_id="b"),
        ],
    ],
    ids=["whole", "no index", "one index", "objects", "by id", "late name"],
)
def test_calls_are_told_apart_however_a_server_numbers_them(chunks: list[object]) -> None:
    expected = [ToolCall("a", "ls", {"n": 1}), ToolCall("b", "ls", {"n": 2})]
    assert calls_of([*chunks, STOP]) == expected


def test_calls_without_ids_and_numbers_begin_with_a_name() -> None:
    chunks = [call("ls", '{"n":'), call(None, " 1}"), call("ls", '{"n": 2}'), STOP]
    assert [each.arguments for each in calls_of(chunks)] == [{"n": 1}, {"n": 2}]


def test_thoughts_end_where_something_else_begins_and_remember_their_field() -> None:
    chunks = [
        said(reasoning_content="a", reasoning="a"),
        said(reasoning="b", content=""),
        said(reasoning="c", content="x"),
        said(content=[{"type": "text", "text": "y"}, {"type": "text", "text": "z"}]),
        said(refusal="no"),
        said(reasoning="d"),
        STOP,
    ]
    assert pieces_of(chunks) == [
        ThinkingPiece("a"),
        ThinkingPiece("b"),
        ThinkingPiece("c"),
        ThoughtEnded("reasoning"),
        TextPiece("x"),
        TextPiece("yz"),
        TextPiece("no"),
        ThinkingPiece("d"),
        ThoughtEnded("reasoning"),
        AnswerEnded(StopReason.STOP),
    ]


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
    ],
)
def test_tokens_are_counted_wherever_a_server_puts_them(usage: dict[str, object]) -> None:
    expected = Usage(9, 2, cache_read_tokens=4)
    assert usage_of(STOP, {"choices": [], "usage": usage}) == expected
    choice = {"delta": {}, "finish_reason": "stop", "usage": usage}
    assert usage_of({"choices": [choice]}) == expected


def test_counts_that_are_none_are_zero_and_no_counts_are_unknown() -> None:
    odd = {"prompt_tokens": -1, "completion_tokens": "many", "prompt_tokens_details": None}
    assert usage_of(STOP, {"choices": None, "usage": odd}) == Usage()
    assert usage_of(STOP) is None


def test_a_call_that_was_cut_is_not_carried_out_but_those_before_it_are() -> None:
    chunks = [
        call("ls", "{}", index=0, call_id="a"),
        call("write", "", index=1, call_id="b"),
        {"choices": [{"delta": {}, "finish_reason": "length"}]},
    ]
    first, second, end = pieces_of(chunks)
    assert first == CallReady(ToolCall("a", "ls", {}))
    assert isinstance(second, CallReady)
    assert "length limit inside this call" in (second.call.fault or "")
    assert isinstance(end, AnswerEnded)
    assert end.stop_reason is StopReason.LENGTH


def test_arguments_are_kept_up_to_a_limit_and_then_called_too_long() -> None:
    part = "x" * (MAX_ARGUMENTS_CHARS // 2)
    first, second, third = calls_of(
        [
            call("write", part, index=0, call_id="a"),
            call("write", part, index=1, call_id="b"),
            call("ls", "{}", index=2, call_id="c"),
            STOP,
        ]
    )
    assert "not JSON" in (first.fault or "")
    assert "not JSON" in (second.fault or "")
    assert "longer than 8,000,000 characters" in (third.fault or "")


def test_calls_are_kept_up_to_one_more_than_any_budget_allows() -> None:
    chunks = (call("ls", "{}", index=number) for number in range(MAX_CALLS + 9))
    assert len(calls_of([*chunks, STOP])) == MAX_CALLS + 1


@pytest.mark.parametrize(
    ("finish", "trouble"),
    [
        ("content_filter", Trouble.OTHER),
        ("error", Trouble.DISCONNECT),
    ],
)
def test_an_answer_without_a_good_end_has_failed_and_was_counted(
    finish: str, trouble: Trouble
) -> None:
    counts = {"prompt_tokens": 9, "completion_tokens": 2}
    choice = {"delta": {"content": "half"}, "finish_reason": finish}
    _, reader = read({"choices": [choice], "usage": counts})
    assert reader.usage == Usage(9, 2)
    (failed,) = reader.end()
    assert failed == AnswerFailed(trouble, f"the provider ended the answer: {finish}")


def test_an_answer_is_complete_when_it_says_why_it_stopped() -> None:
    assert not read(said(content="half"))[1].is_complete
    assert read(said(content="half"), STOP)[1].is_complete


def test_an_unknown_finish_reason_is_an_end() -> None:
    choice = {"delta": {"content": "x"}, "finish_reason": "eos"}
    assert pieces_of([{"choices": [choice]}])[-1] == AnswerEnded(StopReason.STOP)


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        [],
        "text",
        {"choices": {}},
        {"choices": ["x"]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {}, "finish_reason": 7}]},
        said(content=7),
        said(content=["x"]),
        said(reasoning=7),
        said(tool_calls={}),
        said(tool_calls=["x"]),
        said(tool_calls=[{"index": "0"}]),
        said(tool_calls=[{"id": 7}]),
        said(tool_calls=[{"function": []}, {"function": "x"}]),
        said(tool_calls=[{"function": {"name": 7}}]),
        said(tool_calls=[{"function": {"arguments": 7}}]),
    ],
)
def test_what_is_no_chunk_is_malformed(chunk: object) -> None:
    with pytest.raises(ShapeError):
        pieces_of([chunk])


@pytest.mark.parametrize(
    "chunk",
    [{}, {"choices": []}, {"choices": [{}]}, {"choices": [{"delta": None}]}, said(tool_calls=None)],
)
def test_a_chunk_may_say_nothing(chunk: object) -> None:
    assert len(pieces_of([chunk, STOP])) == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": 429, "message": "slow down"}, "429", "slow down"),
        ({"type": "overloaded_error", "message": "busy"}, "overloaded_error", "busy"),
        ({"odd": 1}, "", "{'odd': 1}"),
        ("gone", "", "gone"),
    ],
)
def test_an_error_in_the_stream_keeps_its_words(error: object, code: str, message: str) -> None:
    with pytest.raises(ReportedError) as caught:
        pieces_of([{"error": error}])
    assert (caught.value.code, caught.value.words) == (code, message)
