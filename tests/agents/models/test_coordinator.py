from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from agents.models.arguments import CUT_ARGUMENTS
from agents.models.coordinator import GONE, CoordinatedModel, Listing
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    AssistantMessage,
    CallReady,
    Message,
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
from agents.models.price import Pricer
from agents.models.routes import unknown_price
from engine.core.spec import ModelChoice, Thinking
from engine.records.host_models import StreamRequest

Piece = dict[str, Any]
COUNTS = {"input": 100, "output": 10, "cacheRead": 20, "cacheWrite": 5, "cost": 0.5}
USAGE = Usage(125, 10, 0.5, 20, 5)
END: Piece = {"type": "end", "reason": "stop", "usage": COUNTS}


@dataclass
class Played:
    """A coordinator whose answers are written down; and an answer of its."""

    frames: list[list[Piece]]
    asked: list[StreamRequest] = field(default_factory=list)
    preferred: ModelChoice | None = None

    async def find(self, provider: str, id_: str) -> Listing | str:
        raise NotImplementedError

    @asynccontextmanager
    async def ask(self, request: StreamRequest) -> AsyncIterator["Played"]:
        self.asked.append(request)
        yield self

    async def receive(self) -> Sequence[Mapping[str, Any]]:
        await trio.lowlevel.checkpoint()
        return self.frames.pop(0) if self.frames else ()


def model_of(
    played: Played, *, has_price: bool = True, price: Pricer = unknown_price
) -> CoordinatedModel:
    listing = Listing(32_000, has_price)
    return CoordinatedModel(played, ("acme", "m1"), Thinking.HIGH, listing, price)


async def hear(model: CoordinatedModel, *messages: Message) -> list[AnswerPiece]:
    async with model.stream("be brief", messages, [TOOL]) as pieces:
        return [piece async for piece in pieces]


TOOL = ToolDeclaration("read", "reads", {"type": "object"})


async def test_answer_arrives_in_pieces_and_ends_with_what_it_cost() -> None:
    call = {"type": "call", "id": "c1", "name": "read", "arguments": {"path": "a"}}
    played = Played(
        [
            [{"type": "thinking", "text": "hm"}],
            [{"type": "thought", "signature": "s", "redacted": False}],
            [{"type": "text", "text": "so"}, {"type": "text", "text": "!"}, call],
            [END | {"reason": "toolUse"}],
        ]
    )
    assert await hear(model_of(played)) == [
        ThinkingPiece("hm"),
        ThoughtEnded("s"),
        TextPiece("so"),
        TextPiece("!"),
        CallReady(ToolCall("c1", "read", {"path": "a"})),
        AnswerEnded(StopReason.TOOL_USE, USAGE),
    ]


async def test_what_follows_the_end_is_not_read() -> None:
    played = Played([[END, {"type": "text", "text": "more"}]])
    assert await hear(model_of(played)) == [AnswerEnded(StopReason.STOP, USAGE)]


async def test_answer_whose_other_side_goes_away_is_a_disconnect() -> None:
    played = Played([[{"type": "text", "text": "so"}]])
    assert await hear(model_of(played)) == [TextPiece("so"), GONE]
    assert GONE.trouble is Trouble.DISCONNECT


async def test_last_call_of_an_answer_that_grew_too_long_is_not_carried_out() -> None:
    calls = [{"type": "call", "id": i, "name": "read", "arguments": {"n": 1}} for i in ("a", "b")]
    played = Played([[*calls, END | {"reason": "length"}]])
    assert await hear(model_of(played)) == [
        CallReady(ToolCall("a", "read", {"n": 1})),
        CallReady(ToolCall("b", "read", {}, CUT_ARGUMENTS)),
        AnswerEnded(StopReason.LENGTH, USAGE),
    ]


async def test_error_is_told_apart_by_its_words_and_costs_what_was_counted() -> None:
    played = Played([[{"type": "fault", "words": "429: slow\ndown", "usage": COUNTS}]])
    assert await hear(model_of(played)) == [
        AnswerFailed(Trouble.RATE_LIMIT, "429: slow down", USAGE)
    ]


async def test_error_without_counts_cost_nothing() -> None:
    played = Played([[{"type": "fault", "words": "401: nobody"}]])
    assert await hear(model_of(played)) == [
        AnswerFailed(Trouble.AUTHENTICATION, "401: nobody", Usage())
    ]


@pytest.mark.parametrize(
    "piece",
    [
        {},
        {"type": "text", "text": 7},
        {"type": "call", "id": "c"},
        {"type": "end", "reason": "deferred"},
        {"type": "end", "reason": "error"},
        {"type": "fly"},
    ],
)
async def test_piece_that_nobody_understands_ends_the_answer(piece: Piece) -> None:
    [failed] = await hear(model_of(Played([[piece]])))
    assert isinstance(failed, AnswerFailed)
    assert failed.trouble is Trouble.MALFORMED


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, Usage(cost_usd=None)),
        (COUNTS | {"input": -100, "output": True, "cost": "much"}, Usage(25, 0, 0.0, 20, 5)),
        (COUNTS | {"cost": float("nan"), "output": 1e300}, Usage(125, 0, 0.0, 20, 5)),
    ],
)
async def test_counts_that_make_no_sense_count_as_nothing(counts: object, usage: Usage) -> None:
    played = Played([[END | {"usage": counts}]])
    assert await hear(model_of(played)) == [AnswerEnded(StopReason.STOP, usage)]


@pytest.mark.parametrize(
    ("price", "cost"), [(unknown_price, None), (lambda usage: float(usage.input_tokens), 125.0)]
)
async def test_price_that_the_other_side_does_not_know_is_looked_up(
    price: Pricer, cost: float | None
) -> None:
    played = Played([[END | {"usage": COUNTS | {"cost": 0}}]])
    model = model_of(played, has_price=False, price=price)
    assert await hear(model) == [AnswerEnded(StopReason.STOP, Usage(125, 10, cost, 20, 5))]


async def test_error_before_anything_was_counted_is_free_at_any_price() -> None:
    nothing = dict.fromkeys(COUNTS, 0)
    played = Played([[{"type": "fault", "words": "500: oops", "usage": nothing}]])
    assert await hear(model_of(played, has_price=False)) == [
        AnswerFailed(Trouble.DISCONNECT, "500: oops", Usage())
    ]


async def test_conversation_goes_out_as_pi_keeps_it() -> None:
    played = Played([[END]])
    said = AssistantMessage(
        "so",
        (ToolCall("c1", "read", {"path": "a"}),),
        (Thought("hm", "s"), Thought("", "r", is_redacted=True)),
    )
    model = model_of(played)
    await hear(model, UserMessage("go"), said, ToolMessage("c1", "read", "text", is_error=True))
    [asked] = played.asked
    assert asked == StreamRequest(
        "acme",
        "m1",
        "high",
        "be brief",
        [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
                    {
                        "type": "thinking",
                        "thinking": "",
                        "thinkingSignature": "r",
                        "redacted": True,
                    },
                    {"type": "text", "text": "so"},
                    {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
                ],
            },
            {
                "role": "toolResult",
                "toolCallId": "c1",
                "toolName": "read",
                "content": [{"type": "text", "text": "text"}],
                "isError": True,
            },
        ],
        [{"name": "read", "description": "reads", "parameters": {"type": "object"}}],
    )
    assert (model.provider, model.id, model.context_tokens) == ("acme", "m1", 32_000)


@pytest.mark.parametrize(("id_", "signature"), [("call|item/1", ""), ("c1", "signed")])
async def test_names_and_proofs_of_calls_go_back_to_the_provider_as_they_came(
    id_: str, signature: str
) -> None:
    call = {"type": "call", "id": id_, "name": "read", "arguments": {}, "signature": signature}
    played = Played([[call, END], [END]])
    model = model_of(played)
    ready = (await hear(model, UserMessage("go")))[0]
    assert isinstance(ready, CallReady)
    ours = ready.call
    assert ours.id == "coordinated_1"
    await hear(model, AssistantMessage("", (ours,)), ToolMessage(ours.id, "read", "text"))
    answer, told = played.asked[1].messages
    block = {"type": "toolCall", "id": id_, "name": "read", "arguments": {}}
    proof = {"thoughtSignature": signature} if signature else {}
    assert answer == {"role": "assistant", "content": [block | proof]}
    assert told["toolCallId"] == id_


async def test_call_whose_arguments_are_no_object_has_none() -> None:
    call = {"type": "call", "id": "c1", "name": "read", "arguments": 7, "fault": "not JSON"}
    pieces = await hear(model_of(Played([[call, END]])))
    assert pieces[0] == CallReady(ToolCall("c1", "read", {}, "not JSON"))
