"""Models that speak Anthropic's Messages API, through Anthropic's own library.

The library takes long to load, so `open_client` does it in a thread. It neither retries nor waits:
what went wrong is a value at the end of the answer.
"""

import importlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import trio

from agents.models.anthropic_answer import AnswerReader, ReportedError, ShapeError
from agents.models.anthropic_request import build_request
from agents.models.catalog import ModelInfo
from agents.models.endpoint import Endpoint
from agents.models.events import EventDecoder
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    Message,
    ToolDeclaration,
    Trouble,
    Usage,
)
from agents.models.price import Pricer
from agents.models.trouble import classify, tidy_message
from agents.models.wire import WireError, finish_stream
from engine.core.spec import Thinking
from engine.system.clock import Clock

if TYPE_CHECKING:
    from agents.models.anthropic_client import AnthropicClient
    from agents.models.http_client import ByteStream

_CLOSE_TIMEOUT_S = 1.0
# A complete answer has nothing to follow but the end of its body, which need not come.
_TAIL_TIMEOUT_S = 1.0
_EVENT_STREAM = "text/event-stream"


@asynccontextmanager
async def open_client(endpoint: Endpoint) -> "AsyncIterator[AnthropicClient]":
    """Load the library and open a client for `endpoint`; it is closed when the context is left."""
    client = await trio.to_thread.run_sync(_load, endpoint)
    try:
        yield client
    finally:
        with trio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
            await client.close()


def _load(endpoint: Endpoint) -> "AnthropicClient":
    module = importlib.import_module("agents.models.anthropic_client")
    client: AnthropicClient = module.AnthropicClient(endpoint)
    return client


class AnthropicModel:
    """A model behind Anthropic's Messages API."""

    def __init__(
        self,
        client: "AnthropicClient",
        info: ModelInfo,
        thinking: Thinking,
        *,
        endpoint: Endpoint,
        price: Pricer,
        clock: Clock,
    ) -> None:
        """Prepare requests.

        Args:
            client: open for as long as the model is used.
            info: the model.
            thinking: how much it shall think, as far as it can.
            endpoint: what `client` was opened for; its secrets are struck out of all messages.
            price: returns dollars, or None for what is unknown.
            clock: for what a provider says about when to come back.
        """
        self._client = client
        self._info = info
        self._thinking = thinking
        self._endpoint = endpoint
        self._price = price
        self._clock = clock

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
        """Open the answer to `messages`: pieces, then one `AnswerEnded` or `AnswerFailed`.

        Leaving the context early, or cancelling it, closes the connection at once.
        """
        body = build_request(self._info, self._thinking, system, messages, tools)
        return aclosing(self._pieces(body))

    async def _pieces(self, body: dict[str, object]) -> AsyncGenerator[AnswerPiece, None]:
        reader = AnswerReader()
        try:
            async with aclosing(self._events(body, reader)) as events:
                async for event in events:
                    for piece in reader.read(event):
                        yield piece
            end = self._end(reader)
        except ReportedError as error:
            trouble = classify(None, error.code, error.message)
            end = AnswerFailed(trouble, f"{error.code}: {error.message}")
        except self._client.failures as error:
            end = self._client.explain(error, self._clock.now_ms() / 1000)
        if isinstance(end, AnswerFailed):
            end = replace(end, message=tidy_message(end.message, self._endpoint.secrets))
        yield replace(end, usage=self._priced(reader.usage))

    async def _events(
        self, body: dict[str, object], reader: AnswerReader
    ) -> AsyncGenerator[object, None]:
        """Yield the events as they come; `reader` is given each before it is asked for the next."""
        stream = await self._client.open_stream(body)
        decoder = EventDecoder()
        is_silent = True
        try:
            while (part := await _next_part(stream, reader)) is not None:
                for data in decoder.feed(part):
                    is_silent = False
                    # What follows the end is read all the same: the connection is used again.
                    if not reader.is_complete:
                        yield _decoded(data)
        finally:
            await finish_stream(stream)
        if is_silent and not stream.kind.startswith(_EVENT_STREAM):
            raise WireError(f"the server answered with {stream.kind} and not with events")

    def _end(self, reader: AnswerReader) -> AnswerEnded | AnswerFailed:
        if not reader.is_complete:
            return AnswerFailed(Trouble.DISCONNECT, "the answer stopped without an end")
        if reader.is_refused:
            return AnswerFailed(Trouble.OTHER, "the model refused to answer")
        return AnswerEnded(reader.stop_reason)

    def _priced(self, usage: Usage) -> Usage:
        return replace(usage, cost_usd=self._price(usage))


async def _next_part(stream: "ByteStream", reader: AnswerReader) -> bytes | None:
    """Return the next part; None after the last one, or when an answer that is over stalls."""
    with trio.move_on_after(_TAIL_TIMEOUT_S if reader.is_complete else inf):
        return await anext(stream, None)
    return None


def _decoded(data: bytes) -> object:
    try:
        return json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise ShapeError("an event that is not JSON") from error
