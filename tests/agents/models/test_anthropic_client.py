"""Models behind Anthropic's Messages API, asked over a real connection."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from agents.models.catalog import ModelInfo
from agents.models.endpoint import Api, Endpoint, Secret
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    AssistantMessage,
    CallReady,
    StopReason,
    TextPiece,
    ThinkingPiece,
    Thought,
    ThoughtEnded,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    Trouble,
    Usage,
    UserMessage,
)
from agents.models.stream import StreamedModel, open_client
from engine.core.spec import Thinking
from tests.support.clock import FakeClock
from tests.support.model_dialects import RawCall, Refusal
from tests.support.model_server import (
    After,
    Answer,
    ModelRequest,
    ModelServer,
    RawAnswer,
    Spoken,
    one_after_another,
    open_model_server,
)

KEY = "sk-ant-planted-0123456789"
HELLO = (UserMessage("hello"),)
READ = ToolDeclaration("read", "reads a file", {"type": "object"})


def ten_tokens_a_dollar(usage: Usage) -> float | None:
    return (usage.input_tokens + usage.output_tokens) / 10


@asynccontextmanager
async def model_at(
    url: str,
    *,
    thinking: Thinking = Thinking.OFF,
    price: Callable[[Usage], float | None] = ten_tokens_a_dollar,
) -> AsyncIterator[StreamedModel]:
    """Open a model that is served at `url`."""
    endpoint = Endpoint("loop", Api.ANTHROPIC, url, Secret(KEY), {"X-Team": Secret("blue team")})
    info = ModelInfo("loop", "claude-sonnet-4-5", Api.ANTHROPIC, url, context_tokens=200_000)
    async with open_client(endpoint) as client:
        yield StreamedModel(
            client, info, thinking, endpoint=endpoint, price=price, clock=FakeClock()
        )


@asynccontextmanager
async def model_that_hears(*answers: Answer) -> AsyncIterator[tuple[StreamedModel, ModelServer]]:
    """Open a model whose server gives `answers`."""
    async with (
        open_model_server(one_after_another(*answers)) as server,
        model_at(server.anthropic_url) as model,
    ):
        yield model, server


async def pieces_of(model: StreamedModel) -> list[AnswerPiece]:
    async with model.stream("be brief", HELLO, (READ,)) as stream:
        return [piece async for piece in stream]


async def failure_of(*answers: Answer) -> AnswerFailed:
    """Return how the first of `answers` fails."""
    async with model_that_hears(*answers) as (model, server):
        pieces = await pieces_of(model)
        assert len(server.requests) == 1
    failed = pieces[-1]
    assert isinstance(failed, AnswerFailed)
    return failed


def raw(*events: object, after: After = After.END) -> RawAnswer:
    """Return a stream of events, each sent by itself."""
    chunks = []
    for event in events:
        text = event if isinstance(event, str) else json.dumps(event)
        name = event["type"] if isinstance(event, dict) else "message_start"
        chunks.append(f"event: {name}\ndata: {text}\n\n".encode())
    return RawAnswer(chunks, after)


async def test_text_thoughts_and_parallel_calls_arrive_in_order() -> None:
    usage = Usage(100, 20, 0.0, cache_read_tokens=60, cache_write_tokens=30)
    calls = (ToolCall("c1", "read", {"path": "a"}), ToolCall("c2", "read", {"path": "ü"}))
    spoken: list[AnswerPiece] = [
        ThinkingPiece("hm"),
        ThoughtEnded("signed"),
        ThoughtEnded("hidden", is_redacted=True),
        TextPiece("I look"),
        *(CallReady(call) for call in calls),
        AnswerEnded(StopReason.TOOL_USE, usage),
    ]
    async with model_that_hears(Spoken(spoken)) as (model, _):
        pieces = await pieces_of(model)
    assert pieces == [
        *spoken[:-1],
        AnswerEnded(StopReason.TOOL_USE, Usage(100, 20, 12.0, 60, 30)),
    ]


async def test_the_request_carries_the_key_the_headers_and_the_conversation() -> None:
    async with model_that_hears() as (model, server):
        await pieces_of(model)
        (request,) = server.requests
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-team"] == "blue team"
    assert request.body["model"] == "claude-sonnet-4-5"
    assert request.body["stream"] is True


async def test_a_thought_goes_back_with_its_signature() -> None:
    async with model_that_hears() as (model, server):
        call = ToolCall("c1", "read", {"path": "a"})
        said = (
            *HELLO,
            AssistantMessage("", (call,), (Thought("hm", "signed"),)),
            ToolMessage("c1", "read", "text"),
        )
        async with model.stream("", said, (READ,)) as stream:
            assert isinstance([piece async for piece in stream][-1], AnswerEnded)
        messages = server.requests[0].body["messages"]
    assert isinstance(messages, list)
    thought = messages[1]["content"][0]
    assert thought == {"type": "thinking", "thinking": "hm", "signature": "signed"}


async def test_a_level_of_thinking_is_asked_for() -> None:
    async with (
        open_model_server(one_after_another()) as server,
        model_at(server.anthropic_url, thinking=Thinking.LOW) as model,
    ):
        await pieces_of(model)
        assert server.requests[0].body["thinking"] == {"type": "enabled", "budget_tokens": 4_096}


async def test_malformed_arguments_are_the_call_s_fault() -> None:
    async with model_that_hears(Spoken((RawCall("c1", "read", '{"path": '),))) as (model, _):
        pieces = await pieces_of(model)
    assert isinstance(pieces[0], CallReady)
    assert pieces[0].call.fault is not None
    assert isinstance(pieces[1], AnswerEnded)


async def test_an_unknown_price_stays_unknown() -> None:
    async with (
        open_model_server(one_after_another()) as server,
        model_at(server.anthropic_url, price=lambda _: None) as model,
    ):
        ended = (await pieces_of(model))[-1]
    assert isinstance(ended, AnswerEnded)
    assert ended.usage.cost_usd is None


@pytest.mark.parametrize(
    ("refusal", "trouble"),
    [
        (Refusal(429, "slow down"), Trouble.RATE_LIMIT),
        (Refusal(529, "Overloaded"), Trouble.OVERLOADED),
        (Refusal(503, "busy"), Trouble.OVERLOADED),
        (Refusal(500, "oops"), Trouble.DISCONNECT),
        (Refusal(401, "invalid x-api-key"), Trouble.AUTHENTICATION),
        (Refusal(400, "prompt is too long: 9 tokens > 8"), Trouble.CONTEXT_LENGTH),
        (Refusal(404, "model: nope"), Trouble.OTHER),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Refusal) else value.value,
)
async def test_an_http_error_is_asked_for_once_and_answered_as_a_value(
    refusal: Refusal, trouble: Trouble
) -> None:
    failed = await failure_of(refusal)
    assert failed.trouble is trouble
    assert refusal.message in failed.message
    assert failed.retry_after_s is None


async def test_no_redirect_takes_the_key_to_another_place() -> None:
    async with open_model_server(one_after_another()) as other:
        location = {"Location": f"{other.anthropic_url}/v1/messages"}
        failed = await failure_of(RawAnswer((), status=307, headers=location))
        assert other.requests == []
    assert failed.trouble is Trouble.OTHER


async def test_the_provider_says_when_to_come_back() -> None:
    failed = await failure_of(Refusal(429, headers={"Retry-After": "7"}))
    assert failed.retry_after_s == 7


async def test_an_overload_in_the_middle_of_an_answer_is_told_with_what_it_cost() -> None:
    failed = await failure_of(
        raw(
            {"type": "message_start", "message": {"usage": {"input_tokens": 30}}},
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        )
    )
    assert failed.trouble is Trouble.OVERLOADED
    assert failed.message == "overloaded_error: Overloaded"
    assert failed.usage == Usage(30, 0, 3.0)


async def test_an_error_event_without_its_name_is_understood_too() -> None:
    event = {"type": "error", "error": {"type": "api_error", "message": "oops"}}
    chunk = f"event: odd\ndata: {json.dumps(event)}\n\n".encode()
    failed = await failure_of(RawAnswer([chunk]))
    assert (failed.trouble, failed.message) == (Trouble.DISCONNECT, "api_error: oops")


@pytest.mark.parametrize("after", [After.CUT, After.END])
async def test_an_answer_without_an_end_counts_as_a_disconnect(after: After) -> None:
    failed = await failure_of(raw({"type": "message_start", "message": {}}, after=after))
    assert failed.trouble is Trouble.DISCONNECT


@pytest.mark.parametrize(
    "answer",
    [
        raw("{not json"),
        raw("[" * 100_000),
        raw("null"),
        raw("[1]"),
        raw({"type": "content_block_stop", "index": []}),
        RawAnswer([b"hello"], headers={"Content-Encoding": "gzip"}),
        RawAnswer([b"<html>log in here</html>"], headers={"Content-Type": "text/html"}),
    ],
    ids=["no json", "too deep", "null", "array", "odd block", "compressed", "a page"],
)
async def test_a_server_that_speaks_something_else_is_malformed(answer: RawAnswer) -> None:
    assert (await failure_of(answer)).trouble is Trouble.MALFORMED


async def test_bytes_that_are_no_text_are_replaced() -> None:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    delta = b'{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "'
    head, rest = "é".encode()[:1], "é".encode()[1:]
    answer = raw(block, {"type": "message_stop"})
    first, last = answer.chunks
    parts = [
        first,
        b"event: content_block_delta\ndata: " + delta + head,
        rest + b'\xff"}}\n\n',
        last,
    ]
    async with model_that_hears(RawAnswer(parts)) as (model, _):
        pieces = await pieces_of(model)
    assert pieces[0] == TextPiece("é\ufffd")
    assert isinstance(pieces[-1], AnswerEnded)


async def test_a_model_that_refuses_to_answer_has_failed() -> None:
    refused = {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {}}
    failed = await failure_of(raw(refused, {"type": "message_stop"}))
    assert (failed.trouble, failed.message) == (Trouble.OTHER, "the model refused to answer")


async def test_no_server_counts_as_a_disconnect() -> None:
    async with model_at("http://127.0.0.1:1") as model:
        (failed,) = await pieces_of(model)
    assert isinstance(failed, AnswerFailed)
    assert failed.trouble is Trouble.DISCONNECT


async def test_a_key_that_comes_back_in_a_message_is_struck_out() -> None:
    failed = await failure_of(Refusal(401, f"wrong key {KEY} of blue team" + "!" * 9_000))
    assert "wrong key [key] of [key]" in failed.message
    assert KEY not in repr(failed)
    assert len(failed.message) <= 2_000


async def test_cancelling_closes_the_connection_at_once() -> None:
    spoken = Spoken((TextPiece("so far"),), After.HANG)
    async with model_that_hears(spoken) as (model, server):
        with trio.CancelScope() as scope:
            async with model.stream("", HELLO, ()) as stream:
                async for piece in stream:
                    assert piece == TextPiece("so far")
                    scope.cancel()
        assert scope.cancelled_caught
        with trio.fail_after(5):
            await server.wait_disconnected()


async def test_leaving_early_closes_the_connection_at_once() -> None:
    spoken = Spoken((TextPiece("so far"), TextPiece("more")), After.HANG)
    async with model_that_hears(spoken) as (model, server):
        async with model.stream("", HELLO, ()) as stream:
            assert await anext(stream) == TextPiece("so far")
        with trio.fail_after(5):
            await server.wait_disconnected()


async def test_a_server_that_stays_on_the_line_does_not_keep_the_answer() -> None:
    stopped = raw({"type": "message_stop"}, after=After.HANG)
    async with model_that_hears(stopped) as (model, _):
        with trio.fail_after(5):
            assert isinstance((await pieces_of(model))[-1], AnswerEnded)


async def test_the_environment_of_other_programs_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("BASE_URL", "AUTH_TOKEN", "API_KEY"):
        monkeypatch.setenv(f"ANTHROPIC_{name}", "http://127.0.0.1:1")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "authorization: another")
    async with model_that_hears() as (model, server):
        await pieces_of(model)
        headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"


async def test_many_answers_at_once_are_not_mixed_up() -> None:
    def echo(request: ModelRequest) -> Answer:
        return Spoken((TextPiece(request.first_text),))

    heard: list[str] = []

    async def ask(model: StreamedModel, text: str) -> None:
        async with model.stream("", (UserMessage(text),), ()) as stream:
            parts = [piece.text async for piece in stream if isinstance(piece, TextPiece)]
        assert parts == [text]
        heard.append(text)

    async with (
        open_model_server(echo) as server,
        model_at(server.anthropic_url) as model,
        trio.open_nursery() as nursery,
    ):
        for number in range(20):
            nursery.start_soon(ask, model, f"number {number}")
    assert len(heard) == 20


async def test_it_says_who_it_is() -> None:
    async with model_at("http://127.0.0.1:1") as model:
        assert (model.provider, model.id, model.context_tokens) == (
            "loop",
            "claude-sonnet-4-5",
            200_000,
        )
