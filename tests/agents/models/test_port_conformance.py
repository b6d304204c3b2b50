"""What holds for every model, whoever it speaks through.

What a script can say is asked of the scripted model too; what only a server can do, of the others.
"""

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest
import trio
import trio.testing

from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    CallReady,
    Model,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ToolCall,
    ToolDeclaration,
    Trouble,
    Usage,
    UserMessage,
)
from agents.models.scripted import ScriptedModel
from agents.models.wire import IDLE_TIMEOUT_S
from tests.support.agents import script_of
from tests.support.model_dialects import RawCall, Refusal
from tests.support.model_server import (
    After,
    Answer,
    ModelServer,
    RawAnswer,
    Spoken,
    from_script,
    one_after_another,
    open_model_server,
)
from tests.support.models import OPENERS, PRICE, Setting, answer_of, joined

Play = Callable[[str], AbstractAsyncContextManager[Model]]
Serve = Callable[..., AbstractAsyncContextManager[tuple[Model, ModelServer]]]


@pytest.fixture(params=["scripted", *OPENERS])
def play(request: pytest.FixtureRequest) -> Play:
    """Return what opens a model that speaks the turns of `any` task in a script."""

    @asynccontextmanager
    async def opened(text: str) -> AsyncIterator[Model]:
        script = script_of(text)
        if request.param == "scripted":
            yield ScriptedModel(script, "test.yaml", "any", 1, {})
            return
        async with (
            open_model_server(from_script(script)) as server,
            OPENERS[request.param](server, Setting()) as model,
        ):
            yield model

    return opened


@pytest.fixture(params=list(OPENERS))
def serve(request: pytest.FixtureRequest) -> Serve:
    """Return what opens a model whose server gives prepared answers."""

    @asynccontextmanager
    async def opened(*answers: Answer) -> AsyncIterator[tuple[Model, ModelServer]]:
        async with (
            open_model_server(one_after_another(*answers)) as server,
            OPENERS[request.param](server, Setting()) as model,
        ):
            yield model, server

    return opened


def without_price(pieces: list[AnswerPiece]) -> list[AnswerPiece]:
    """Return `pieces` as the scripted model gives them, whose turns say what they cost."""
    return [
        replace(piece, usage=replace(piece.usage, cost_usd=0.0))
        if isinstance(piece, AnswerEnded | AnswerFailed)
        else piece
        for piece in pieces
    ]


def failure_of(pieces: list[AnswerPiece]) -> AnswerFailed:
    assert isinstance(pieces[-1], AnswerFailed)
    return pieces[-1]


async def test_an_answer_comes_in_the_order_in_which_it_was_said(play: Play) -> None:
    script = """
        any:
          - thinking: hm
            text: hello
            calls: [{tool: ls, arguments: {path: ., deep: [1, null, "ü"]}}, {tool: ls}]
            usage: {input: 7, output: 3}
          - text: bye
    """
    async with play(script) as model:
        assert without_price(await answer_of(model)) == [
            ThinkingPiece("hm"),
            TextPiece("hello"),
            CallReady(ToolCall("call_1_1", "ls", {"path": ".", "deep": [1, None, "ü"]})),
            CallReady(ToolCall("call_1_2", "ls", {})),
            AnswerEnded(StopReason.TOOL_USE, Usage(7, 3)),
        ]
        assert without_price(await answer_of(model)) == [
            TextPiece("bye"),
            AnswerEnded(StopReason.STOP, Usage()),
        ]


async def test_an_empty_answer_is_an_answer(play: Play) -> None:
    async with play("any: []") as model:
        assert without_price(await answer_of(model)) == [AnswerEnded(StopReason.STOP, Usage())]


@pytest.mark.parametrize(
    ("word", "trouble"),
    [
        ("rate_limit", Trouble.RATE_LIMIT),
        ("overloaded", Trouble.OVERLOADED),
        ("disconnect", Trouble.DISCONNECT),
    ],
)
async def test_troubles_are_told_apart_before_and_after_the_first_word(
    play: Play, word: str, trouble: Trouble
) -> None:
    script = f"any: [{{error: {word}}}, {{text: half, error: {word}}}, {{text: whole}}]"
    async with play(script) as model:
        first = await answer_of(model)
        second = await answer_of(model)
        assert failure_of(first).trouble is trouble
        assert failure_of(second).trouble is trouble
        assert (first[:-1], second[:-1]) == ([], [TextPiece("half")])
        assert (await answer_of(model))[0] == TextPiece("whole")


async def test_a_call_of_an_unknown_tool_is_passed_on(play: Play) -> None:
    async with play("any: [{calls: [{tool: fly, arguments: {to: moon}}]}]") as model:
        call = ToolCall("call_1_1", "fly", {"to": "moon"})
        assert (await answer_of(model))[0] == CallReady(call)


async def test_cancelling_leaves_a_hanging_answer_at_once(play: Play) -> None:
    heard: list[AnswerPiece] = []
    async with play("any: [{text: I think, hang: true}, {text: next}]") as model:
        with trio.fail_after(1), trio.CancelScope() as scope:
            async with model.stream("", (UserMessage("Hello."),), ()) as pieces:
                async for piece in pieces:
                    heard.append(piece)
                    scope.cancel()
        assert heard == [TextPiece("I think")]
        assert (await answer_of(model))[0] == TextPiece("next")


async def test_leaving_between_two_pieces_drops_the_rest(play: Play) -> None:
    async with play("any: [{thinking: hm, text: hello}, {text: next}]") as model:
        with trio.fail_after(1):
            async with model.stream("", (UserMessage("Hello."),), ()) as pieces:
                assert await anext(pieces) == ThinkingPiece("hm")
        assert (await answer_of(model))[0] == TextPiece("next")


async def test_an_abandoned_answer_closes_its_connection(serve: Serve) -> None:
    async with serve(Spoken((TextPiece("I think"),), After.HANG)) as (model, server):
        with trio.fail_after(1):
            async with model.stream("", (UserMessage("Hello."),), ()) as pieces:
                assert await anext(pieces) == TextPiece("I think")
            await server.wait_disconnected()


async def test_a_cancelled_request_closes_its_connection(serve: Serve) -> None:
    never = ScriptedModel(script_of("any: [{hang: true}]"), "test.yaml", "any", 1, {})
    async with serve(never) as (model, server):
        with trio.fail_after(1):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(answer_of, model)
                    while not server.requests:
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            await server.wait_disconnected()


async def test_an_answer_that_was_heard_to_its_end_keeps_its_connection(serve: Serve) -> None:
    async with serve(Spoken((TextPiece("one"),)), Spoken((TextPiece("two"),))) as (model, server):
        await answer_of(model)
        await answer_of(model)
        assert (len(server.requests), server.connections, server.disconnects) == (2, 1, 0)


async def test_tokens_are_counted_and_priced_with_the_cache(serve: Serve) -> None:
    usage = Usage(100, 10, cache_read_tokens=40)
    async with serve(Spoken((TextPiece("x"), AnswerEnded(StopReason.STOP, usage)))) as (model, _):
        expected = replace(usage, cost_usd=PRICE.of(usage))
        assert (await answer_of(model))[-1] == AnswerEnded(StopReason.STOP, expected)


async def test_an_answer_that_is_too_long_says_so(serve: Serve) -> None:
    async with serve(Spoken((TextPiece("x"), AnswerEnded(StopReason.LENGTH)))) as (model, _):
        end = (await answer_of(model))[-1]
        assert isinstance(end, AnswerEnded)
        assert end.stop_reason is StopReason.LENGTH


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a',
        "[1, 2]",
        "nonsense",
        '{"n": NaN}',
        "[" * 3_000,
        '{"n": ' + "9" * 5_000 + "}",
    ],
    ids=["torn", "list", "no json", "not a number", "deep", "huge number"],
)
async def test_arguments_that_cannot_be_understood_become_a_fault(serve: Serve, text: str) -> None:
    calls = (RawCall("c1", "ls", text), RawCall("c2", "ls", '{"path": "b"}'))
    async with serve(Spoken((*calls, AnswerEnded(StopReason.TOOL_USE)))) as (model, _):
        first, second, end = await answer_of(model)
        assert isinstance(first, CallReady)
        assert (first.call.id, first.call.name, first.call.arguments) == ("c1", "ls", {})
        assert first.call.fault
        assert second == CallReady(ToolCall("c2", "ls", {"path": "b"}))
        assert isinstance(end, AnswerEnded)


@pytest.mark.parametrize(
    ("refusal", "trouble", "delay_s"),
    [
        (Refusal(429, headers={"Retry-After": "7"}), Trouble.RATE_LIMIT, 7.0),
        (Refusal(429, headers={"retry-after-ms": "250"}), Trouble.RATE_LIMIT, 0.25),
        # The test's clock stands at 2023-11-14 22:13:20.
        (
            Refusal(429, headers={"Retry-After": "Tue, 14 Nov 2023 22:14:20 GMT"}),
            Trouble.RATE_LIMIT,
            60.0,
        ),
        (Refusal(429, headers={"Retry-After": "soon"}), Trouble.RATE_LIMIT, None),
        (Refusal(529), Trouble.OVERLOADED, None),
        (Refusal(503, headers={"Retry-After": "1"}), Trouble.OVERLOADED, 1.0),
        (Refusal(500), Trouble.DISCONNECT, None),
        (Refusal(502, "500 tokens per second is the rate limit"), Trouble.DISCONNECT, None),
        (Refusal(401), Trouble.AUTHENTICATION, None),
        (Refusal(403), Trouble.AUTHENTICATION, None),
        (Refusal(400, "prompt is too long: 9 tokens > 8 maximum"), Trouble.CONTEXT_LENGTH, None),
        (Refusal(400, "no such parameter, error 429"), Trouble.OTHER, None),
        (Refusal(404), Trouble.OTHER, None),
        (Refusal(307, headers={"Location": "/elsewhere"}), Trouble.OTHER, None),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Refusal) else None,
)
async def test_a_refusal_is_a_value_and_is_not_asked_again(
    serve: Serve, refusal: Refusal, trouble: Trouble, delay_s: float | None
) -> None:
    async with serve(refusal) as (model, server):
        failed = failure_of(await answer_of(model))
        assert (failed.trouble, failed.retry_after_s) == (trouble, delay_s)
        assert refusal.message in failed.message
        assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_a_disconnect(serve: Serve) -> None:
    async with serve() as (model, server):
        await server.stop_listening()
        assert failure_of(await answer_of(model)).trouble is Trouble.DISCONNECT


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (RawAnswer((b"event: x\ndata: {nonsense}\n\n",)), Trouble.MALFORMED),
        (RawAnswer((b"event: x\ndata: \xff\xfe\n\n",)), Trouble.MALFORMED),
        (RawAnswer((b"event: x\ndata: [1]\n\n",)), Trouble.MALFORMED),
        (
            RawAnswer((b"event: x\ndata: " + b"[" * 50_000 + b"]" * 50_000 + b"\n\n",)),
            Trouble.MALFORMED,
        ),
        (
            RawAnswer((b"<p>Welcome</p>",), headers={"Content-Type": "text/html"}),
            Trouble.MALFORMED,
        ),
        (RawAnswer((b"data: ",), After.CUT), Trouble.DISCONNECT),
        (RawAnswer(()), Trouble.DISCONNECT),
    ],
    ids=[
        "no json",
        "no utf-8",
        "a list",
        "deep",
        "a page",
        "cut in an event",
        "nothing",
    ],
)
async def test_what_is_no_answer_is_told_from_a_dropped_connection(
    serve: Serve, answer: RawAnswer, trouble: Trouble
) -> None:
    async with serve(answer) as (model, server):
        assert failure_of(await answer_of(model)).trouble is trouble
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 400])
async def test_a_compressed_answer_is_not_unpacked(serve: Serve, status: int) -> None:
    body = gzip.compress(b'{"error": {"message": "unpacked"}}')
    answer = RawAnswer((body,), status=status, headers={"Content-Encoding": "gzip"})
    async with serve(answer) as (model, _):
        failed = failure_of(await answer_of(model))
        assert failed.trouble is Trouble.MALFORMED
        assert "compressed its answer" in failed.message


async def test_an_answer_that_stops_without_an_end_has_failed(serve: Serve) -> None:
    async with serve(Spoken((TextPiece("half"),), After.CUT)) as (model, _):
        pieces = await answer_of(model)
        assert pieces[0] == TextPiece("half")
        assert failure_of(pieces).trouble is Trouble.DISCONNECT


async def test_a_stalled_answer_counts_as_dropped(
    serve: Serve, autojump_clock: trio.testing.MockClock
) -> None:
    async with serve(Spoken((TextPiece("half"),), After.HANG)) as (model, _):
        before = trio.current_time()
        failed = failure_of(await answer_of(model))
        assert failed.trouble is Trouble.DISCONNECT
        assert failed.message
        assert trio.current_time() - before == pytest.approx(IDLE_TIMEOUT_S, abs=5)


@pytest.mark.parametrize("after", [After.CUT, After.HANG])
async def test_what_becomes_of_the_connection_after_the_end_takes_nothing_away(
    serve: Serve, after: After, autojump_clock: trio.testing.MockClock
) -> None:
    async with serve(Spoken((TextPiece("x"), AnswerEnded(StopReason.STOP)), after)) as (model, _):
        before = trio.current_time()
        first, end = await answer_of(model)
        assert first == TextPiece("x")
        assert isinstance(end, AnswerEnded)
        assert trio.current_time() - before < 10


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_ten_megabytes_of_text_pass_through(serve: Serve) -> None:
    text = "0123456789abcdef" * 65_536
    async with serve(Spoken([TextPiece(text)] * 10)) as (model, _):
        size = 0
        async with model.stream("", (UserMessage("Hello."),), ()) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextPiece):
                    size += len(piece.text)
        assert size == 10 * len(text)
        assert isinstance(piece, AnswerEnded)


@pytest.mark.slow
async def test_a_line_without_an_end_is_cut_off(serve: Serve) -> None:
    line = RawAnswer([b"data: " + b"x" * (1 << 20)] * 64, After.HANG)
    async with serve(line) as (model, server):
        failed = failure_of(await answer_of(model))
        assert failed.trouble is Trouble.MALFORMED
        assert "larger than 16,777,216 bytes" in failed.message
        with trio.fail_after(1):
            await server.wait_disconnected()


async def test_tools_are_shown_only_if_there_are_any(serve: Serve) -> None:
    tool = ToolDeclaration("ls", "lists", {"type": "object", "properties": {}})
    async with serve() as (model, server):
        await answer_of(model)
        async with model.stream("", (UserMessage("Hello."),), (tool,)) as pieces:
            joined([piece async for piece in pieces])
        assert "tools" not in server.requests[0].body
        shown = server.requests[1].body["tools"]
        assert isinstance(shown, list)
        assert len(shown) == 1
