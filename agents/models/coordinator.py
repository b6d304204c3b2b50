"""Models that the program of a session asks for us, with the logins that only it has.

How a request comes to it and its answer back is somebody else's; what they hold is understood here.
Messages go out in the form that Pi keeps them in, and no credential passes in either direction.
"""

import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, assert_never

from agents.models.arguments import CUT_ARGUMENTS
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
from agents.models.trouble import tidy_message
from agents.models.words import classify_words
from engine.core.spec import ModelChoice, Thinking
from engine.records.host_models import StreamRequest

GONE: Final = AnswerFailed(Trouble.DISCONNECT, "the session's program went away within the answer")
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# No count of tokens and no price is larger; what claims to be counts as nothing.
_LARGEST = 1e12
_ENDS = {each.value: each for each in (StopReason.STOP, StopReason.TOOL_USE, StopReason.LENGTH)}


@dataclass(frozen=True, slots=True)
class Listing:
    """What the session's program says of a model that it can ask.

    Attributes:
        context_tokens: how much a conversation and its next answer may have; None when unknown.
        has_price: whether it reports what answers cost.
    """

    context_tokens: int | None
    has_price: bool


class Pieces(Protocol):
    """An answer under way."""

    async def receive(self) -> Sequence[Mapping[str, Any]]:
        """Return what has come since, in order; nothing when the other side is gone."""
        ...


class Coordinator(Protocol):
    """The way to the program of a session."""

    @property
    def preferred(self) -> ModelChoice | None:
        """The model that the session itself works with; None when it is not known."""
        ...

    async def find(self, provider: str, id_: str) -> Listing | str:
        """Return what is known of a model, or why it cannot be asked, as a phrase."""
        ...

    def ask(self, request: StreamRequest) -> AbstractAsyncContextManager[Pieces]:
        """Open an answer; leaving the block early drops the rest of it.

        While no program is attached, it waits for the next one.
        """
        ...


class CoordinatedModel:
    """A model that is asked through a coordinator; for one attempt."""

    def __init__(
        self,
        coordinator: Coordinator,
        name: tuple[str, str],
        thinking: Thinking,
        listing: Listing,
        price: Pricer,
    ) -> None:
        """Prepare requests; none is sent yet.

        Args:
            coordinator: asks.
            name: the provider and the id of the model.
            thinking: how much it shall think, as far as it can be told.
            listing: what is known of it.
            price: returns dollars where the coordinator reports none.
        """
        self._coordinator = coordinator
        self._provider, self._id = name
        self._thinking = thinking
        self._listing = listing
        self._price = price
        self._sent = _SentCalls()

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._provider

    @property
    def id(self) -> str:
        """The model's name at its provider."""
        return self._id

    @property
    def context_tokens(self) -> int | None:
        """How many tokens a conversation and its next answer may have; None when unknown."""
        return self._listing.context_tokens

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AbstractAsyncContextManager[AsyncIterator[AnswerPiece]]:
        """Open the answer to `messages`; nothing is asked before its first piece is awaited.

        Leaving the context early, or cancelling it, has the provider's connection closed.
        """
        request = StreamRequest(
            self._provider,
            self._id,
            self._thinking.value,
            system,
            [self._said(message) for message in messages],
            [_declared(tool) for tool in tools],
        )
        return aclosing(self._pieces(request))

    async def _pieces(self, request: StreamRequest) -> AsyncGenerator[AnswerPiece, None]:
        held: CallReady | None = None
        async with self._coordinator.ask(request) as answer:
            while received := await answer.receive():
                for each in received:
                    piece = self._read(each)
                    if held is not None:
                        yield _cut(held) if _is_cut_off(piece) else held
                    held = piece if isinstance(piece, CallReady) else None
                    if held is None:
                        yield piece
                    if isinstance(piece, AnswerEnded | AnswerFailed):
                        return
        yield GONE

    def _said(self, message: Message) -> Mapping[str, object]:
        match message:
            case UserMessage():
                return {"role": "user", "content": message.text}
            case AssistantMessage():
                content: list[object] = [_thinking(each) for each in message.thoughts]
                if message.text:
                    content.append({"type": "text", "text": message.text})
                content += [self._called(call) for call in message.calls]
                return {"role": "assistant", "content": content}
            case ToolMessage():
                return {
                    "role": "toolResult",
                    "toolCallId": self._sent.of(message.call).id,
                    "toolName": message.tool,
                    "content": [{"type": "text", "text": message.text}],
                    "isError": message.is_error,
                }
            case _:
                assert_never(message)

    def _called(self, call: ToolCall) -> Mapping[str, object]:
        sent = self._sent.of(call.id)
        block: dict[str, object] = {
            "type": "toolCall",
            "id": sent.id,
            "name": call.name,
            "arguments": dict(call.arguments),
        }
        if sent.signature:
            block["thoughtSignature"] = sent.signature
        return block

    def _read(self, piece: Mapping[str, Any]) -> AnswerPiece:
        """Return what a piece brings; one that nobody understands ends the answer."""
        match piece:
            case {"type": "text", "text": str(text)}:
                return TextPiece(text)
            case {"type": "thinking", "text": str(text)}:
                return ThinkingPiece(text)
            case {"type": "thought"}:
                signature, is_redacted = _text(piece, "signature"), piece.get("redacted") is True
                return ThoughtEnded(signature, is_redacted)
            case {"type": "call", "id": str(id_), "name": str(name)}:
                arguments = piece.get("arguments")
                known = arguments if isinstance(arguments, dict) else {}
                id_ = self._sent.remember(_Sent(id_, _text(piece, "signature")))
                return CallReady(ToolCall(id_, name, known, _text(piece, "fault") or None))
            case {"type": "end", "reason": str(reason)} if reason in _ENDS:
                return AnswerEnded(_ENDS[reason], self._usage(piece))
            case {"type": "fault", "words": str(words)}:
                message = tidy_message(words, ())
                return AnswerFailed(classify_words(words), message, self._usage(piece))
        shown = tidy_message(json.dumps(piece), ())
        return AnswerFailed(Trouble.MALFORMED, f"the session's program sent no piece: {shown}")

    def _usage(self, piece: Mapping[str, Any]) -> Usage:
        reported = piece.get("usage")
        if not isinstance(reported, dict):
            is_free = piece.get("type") == "fault"
            return Usage() if is_free else Usage(cost_usd=None)
        read, written = _number(reported, "cacheRead"), _number(reported, "cacheWrite")
        usage = Usage(
            input_tokens=int(_number(reported, "input") + read + written),
            output_tokens=int(_number(reported, "output")),
            cost_usd=_number(reported, "cost"),
            cache_read_tokens=int(read),
            cache_write_tokens=int(written),
        )
        if self._listing.has_price or usage == Usage():
            return usage
        return replace(usage, cost_usd=usage.cost_usd or self._price(usage))


@dataclass(frozen=True, slots=True)
class _Sent:
    """How the provider names a call, and its proof that the call is its own."""

    id: str
    signature: str = ""


class _SentCalls:
    """The names that a provider has for calls, where our conversations cannot keep them."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Sent] = {}

    def remember(self, sent: _Sent) -> str:
        """Return the id that the call has in our conversation."""
        if not sent.signature and _PLAIN_ID.fullmatch(sent.id):
            return sent.id
        id_ = f"coordinated_{len(self._by_id) + 1}"
        self._by_id[id_] = sent
        return id_

    def of(self, id_: str) -> _Sent:
        """Return what the provider calls the call that is `id_` in our conversation."""
        return self._by_id.get(id_, _Sent(id_))


def _is_cut_off(piece: AnswerPiece) -> bool:
    return isinstance(piece, AnswerEnded) and piece.stop_reason is StopReason.LENGTH


def _cut(ready: CallReady) -> CallReady:
    """Return the last call of an answer that grew too long: nobody knows whether it is whole."""
    return CallReady(replace(ready.call, arguments={}, fault=CUT_ARGUMENTS))


def _thinking(thought: Thought) -> Mapping[str, object]:
    block: dict[str, object] = {"type": "thinking", "thinking": thought.text}
    if thought.signature:
        block["thinkingSignature"] = thought.signature
    if thought.is_redacted:
        block["redacted"] = True
    return block


def _declared(tool: ToolDeclaration) -> Mapping[str, object]:
    parameters = dict(tool.parameters)
    return {"name": tool.name, "description": tool.description, "parameters": parameters}


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def _number(fields: Mapping[str, Any], name: str) -> float:
    found = fields.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    return float(found) if math.isfinite(found) and 0 <= found <= _LARGEST else 0.0
