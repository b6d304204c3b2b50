"""Models that stream their answers over HTTP, each through its provider's own library.

A library knows how to ask, and what a refusal says; its own streams leave generators half way and
guess at events of a wrong shape, so answers are read here from their bytes on. Nothing is asked
twice and nothing waits: what went wrong is a value at the end of the answer.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Protocol

import trio

from agents.models import anthropic_answer, anthropic_request, openai_answer, openai_request
from agents.models.catalog import ModelInfo
from agents.models.endpoint import Api, Endpoint
from agents.models.port import (
    UNENDED,
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    Message,
    ToolDeclaration,
    Trouble,
    Usage,
)
from agents.models.price import Pricer
from agents.models.server_sent_events import EventDecoder
from agents.models.trouble import classify, read_retry_after, tidy_message
from agents.models.wire import (
    CLOSE_TIMEOUT_S,
    DroppedError,
    MalformedError,
    RefusedError,
    ReportedError,
    ShapeError,
    WireError,
)
from engine.core.spec import Thinking
from engine.system.clock import Clock

if TYPE_CHECKING:
    from agents.models.http_client import ByteStream

# A complete answer has counts to follow, or the end of its body; neither need come.
_TAIL_TIMEOUT_S = 2.0
_EVENT_STREAM = "text/event-stream"
_DONE = b"[DONE]"


class Client(Protocol):
    """The connections to one endpoint, kept by a provider's library."""

    async def open_stream(self, body: Mapping[str, object]) -> "ByteStream":
        """Send a request and return its answer; raises `WireError` when there is none."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class AnswerReader(Protocol):
    """One answer while its events arrive."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer came to its end; only counts may follow."""
        ...

    @property
    def usage(self) -> Usage | None:
        """What was counted so far, not priced; None while nothing was."""
        ...

    def read(self, event: object) -> Iterator[AnswerPiece]:
        """Yield what an event brings; raises `WireError` when it is none, or an error."""
        ...

    def end(self) -> Iterator[AnswerPiece]:
        """Yield what is left of a complete answer, its end last."""
        ...


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What differs between two protocols.

    Attributes:
        build_request: returns the body of a request for the next answer.
        reader: returns a reader of one answer.
        client: module and class that hold the library.
    """

    build_request: Callable[
        [ModelInfo, Thinking, str, Sequence[Message], Sequence[ToolDeclaration]], dict[str, object]
    ]
    reader: Callable[[], AnswerReader]
    client: tuple[str, str]


_DIALECTS: Mapping[Api, _Dialect] = {
    Api.ANTHROPIC: _Dialect(
        anthropic_request.build_request,
        anthropic_answer.AnswerReader,
        ("agents.models.anthropic_client", "AnthropicClient"),
    ),
    Api.OPENAI: _Dialect(
        openai_request.build_request,
        openai_answer.AnswerReader,
        ("agents.models.openai_client", "OpenAiClient"),
    ),
}


@asynccontextmanager
async def open_client(endpoint: Endpoint) -> AsyncIterator[Client]:
    """Load a library and open a client for `endpoint`; it is closed when the context is left."""
    # Loading takes seconds on a busy machine, and a client that nobody uses holds nothing open.
    client = await trio.to_thread.run_sync(_load, endpoint, abandon_on_cancel=True)
    try:
        yield client
    finally:
        with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await client.close()


def _load(endpoint: Endpoint) -> Client:
    module, name = _DIALECTS[endpoint.api].client
    build: Callable[[Endpoint], Client] = getattr(import_module(module), name)
    return build(endpoint)


class StreamedModel:
    """A model behind an endpoint."""

    def __init__(
        self,
        client: Client,
        info: ModelInfo,
        thinking: Thinking,
        *,
        endpoint: Endpoint,
        price: Pricer,
        clock: Clock,
    ) -> None:
        """Prepare requests; none is sent yet.

        Args:
            client: open for as long as the model is used.
            info: which model, and what it can take.
            thinking: how much it shall think, as far as it can be told.
            endpoint: what `client` was opened for; its secrets are struck out of all messages.
            price: returns dollars, or None when the price is unknown.
            clock: to understand a date at which the provider wants to be asked again.
        """
        self._client = client
        self._info = info
        self._thinking = thinking
        self._endpoint = endpoint
        self._price = price
        self._clock = clock
        self._dialect = _DIALECTS[endpoint.api]

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._info.provider

    @property
    def id(self) -> str:
        """The model's name at its provider."""
        return self._info.id

    @property
    def context_tokens(self) -> int | None:
        """How many tokens a conversation and its next answer may have; None when unknown."""
        return self._info.context_tokens

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AbstractAsyncContextManager[AsyncIterator[AnswerPiece]]:
        """Open the answer to `messages`; nothing is asked before its first piece is awaited.

        Leaving the context early, or cancelling it, closes the connection at once.
        """
        body = self._dialect.build_request(self._info, self._thinking, system, messages, tools)
        return aclosing(self._pieces(body))

    async def _pieces(self, body: Mapping[str, object]) -> AsyncGenerator[AnswerPiece, None]:
        reader = self._dialect.reader()
        failed: AnswerFailed | None = None
        try:
            async with aclosing(self._events(body, reader)) as events:
                async for event in events:
                    for piece in reader.read(event):
                        yield piece
        except WireError as error:
            # What breaks after the end takes nothing away from the answer; only an error that the
            # provider reports does.
            if isinstance(error, ReportedError) or not reader.is_complete:
                failed = explain(error, self._clock.now_ms() / 1000)
        if failed is None and not reader.is_complete:
            failed = UNENDED
        for piece in (failed,) if failed else reader.end():
            yield self._settled(piece, reader.usage)

    def _settled(self, piece: AnswerPiece, usage: Usage | None) -> AnswerPiece:
        """Return `piece` with what the answer cost, if it is the last one."""
        match piece:
            case AnswerEnded():
                return replace(piece, usage=self._priced(usage) or Usage(cost_usd=None))
            case AnswerFailed():
                message = tidy_message(piece.message, self._endpoint.secrets)
                return replace(piece, message=message, usage=self._priced(usage) or Usage())
            case _:
                return piece

    def _priced(self, usage: Usage | None) -> Usage | None:
        return usage and replace(usage, cost_usd=self._price(usage))

    async def _events(
        self, body: Mapping[str, object], reader: AnswerReader
    ) -> AsyncGenerator[object, None]:
        """Yield the events as they come; `reader` is given each before it is asked for the next."""
        stream = await self._client.open_stream(body)
        decoder = EventDecoder()
        is_over, is_silent = False, True
        try:
            while (
                part := await _next_part(stream, has_tail=is_over or reader.is_complete)
            ) is not None:
                for data in decoder.feed(part):
                    # What follows is read all the same, so that the connection can be used again.
                    is_over = is_over or data.startswith(_DONE)
                    is_silent = False
                    if not is_over:
                        yield _decoded(data)
        finally:
            await stream.finish()
        if is_silent and not stream.kind.startswith(_EVENT_STREAM):
            raise MalformedError(f"the server answered with {stream.kind} and not with events")


def explain(error: WireError, now_s: float) -> AnswerFailed:
    """Return what an error means, in the provider's own words, secrets included.

    Args:
        error: as it was raised.
        now_s: seconds since 1970-01-01 UTC, to understand dates.
    """
    match error:
        case RefusedError():
            trouble = classify(error.status, error.code, error.words)
            retry_after_s = read_retry_after(error.headers, now_s)
            return AnswerFailed(trouble, str(error), retry_after_s=retry_after_s)
        case ReportedError():
            return AnswerFailed(classify(None, error.code, error.words), str(error))
        case DroppedError():
            return AnswerFailed(Trouble.DISCONNECT, str(error))
        case _:
            return AnswerFailed(Trouble.MALFORMED, str(error))


async def _next_part(stream: "ByteStream", *, has_tail: bool) -> bytes | None:
    """Return the next part; None after the last one, or when an answer that is over stalls."""
    with trio.move_on_after(_TAIL_TIMEOUT_S if has_tail else inf):
        return await stream.read()
    return None


def _decoded(data: bytes) -> object:
    try:
        return json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise ShapeError(f"an event is not JSON: {error}") from error
