"""Models behind OpenAI's chat completions: OpenAI's own, and those of every compatible server."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import trio

from agents.models.catalog import ModelInfo
from agents.models.endpoint import Endpoint
from agents.models.events import EventDecoder
from agents.models.openai_answer import AnswerReader, ReportedError
from agents.models.openai_request import Body, request_body
from agents.models.port import AnswerFailed, AnswerPiece, Message, ToolDeclaration
from agents.models.price import Pricer
from agents.models.trouble import classify, tidy_message
from agents.models.wire import WireError, finish_stream
from engine.core.spec import Thinking
from engine.system.clock import Clock

if TYPE_CHECKING:
    from agents.models.http_client import ByteStream
    from agents.models.openai_client import OpenAiClient

# An answer is complete when the server says why it stopped; it may say more, and need not.
_TAIL_TIMEOUT_S = 2.0
_CLOSE_TIMEOUT_S = 1.0
_EVENT_STREAM = "text/event-stream"
_DONE = b"[DONE]"


@asynccontextmanager
async def open_client(endpoint: Endpoint) -> "AsyncIterator[OpenAiClient]":
    """Load the library and open a client for `endpoint`; it is closed when the context is left."""
    # Loading takes seconds on a busy machine, and a client that nobody uses holds nothing open.
    client = await trio.to_thread.run_sync(_build, endpoint, abandon_on_cancel=True)
    try:
        yield client
    finally:
        with trio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
            await client.close()


def _build(endpoint: Endpoint) -> "OpenAiClient":
    from agents.models.openai_client import (  # noqa: PLC0415 - half a second that others do not pay
        OpenAiClient,
    )

    return OpenAiClient(endpoint)


class OpenAiModel:
    """A model that continues conversations through chat completions."""

    def __init__(
        self,
        client: "OpenAiClient",
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
            thinking: how much it shall think, if it can be told.
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

    @asynccontextmanager
    async def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AsyncIterator[AsyncIterator[AnswerPiece]]:
        """Open the answer to `messages`; nothing is asked before its first piece is awaited."""
        pieces = self._pieces(request_body(self._info, self._thinking, system, messages, tools))
        try:
            yield pieces
        finally:
            await pieces.aclose()

    async def _pieces(self, body: Body) -> AsyncGenerator[AnswerPiece, None]:
        reader = AnswerReader(self._price)
        try:
            async with aclosing(self._chunks(body, reader)) as chunks:
                async for chunk in chunks:
                    for piece in reader.read(chunk):
                        yield piece
        except ReportedError as error:
            trouble = classify(None, error.code, error.message)
            yield self._failed(AnswerFailed(trouble, error.message), reader)
            return
        except self._client.failures as error:
            # What breaks after the reason to stop takes nothing away from the answer.
            if not reader.is_finished:
                failed = self._client.explain(error, self._clock.now_ms() / 1000)
                yield self._failed(failed, reader)
                return
        for piece in reader.end():
            yield piece

    def _failed(self, failed: AnswerFailed, reader: AnswerReader) -> AnswerFailed:
        message = tidy_message(failed.message, self._endpoint.secrets)
        return replace(failed, message=message, usage=reader.usage or failed.usage)

    async def _chunks(self, body: Body, reader: AnswerReader) -> AsyncGenerator[object, None]:
        """Yield the events of the answer until it is over or nothing more can be expected."""
        stream = await self._client.open_stream(body)
        decoder = EventDecoder()
        is_over, is_silent = False, True
        try:
            while (
                part := await _next_part(stream, has_tail=is_over or reader.is_finished)
            ) is not None:
                for data in decoder.feed(part):
                    # What follows is read all the same, so that the connection can be used again.
                    is_over = is_over or data.startswith(_DONE)
                    is_silent = False
                    if not is_over:
                        yield _decode(data)
        finally:
            await finish_stream(stream)
        if is_silent and not stream.kind.startswith(_EVENT_STREAM):
            raise WireError(f"the server answered with {stream.kind} and not with events")


async def _next_part(stream: "ByteStream", *, has_tail: bool) -> bytes | None:
    """Return the next part; None after the last one, or when an answer that is over stalls."""
    with trio.move_on_after(_TAIL_TIMEOUT_S if has_tail else inf):
        return await anext(stream, None)
    return None


def _decode(data: bytes) -> object:
    """Return an event's data.

    Raises:
        WireError: it is not JSON.
    """
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise WireError(f"the server sent an event that is not JSON: {error}") from error
