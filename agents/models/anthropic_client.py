"""The official `anthropic` library, and nothing else of ours beside it.

Importing this module takes as long as many a program, so `agents.models.anthropic` does it in a
thread.
"""

import codecs
import json
from collections.abc import AsyncIterator, Mapping

import httpx2
from anthropic import (
    AnthropicError,
    APIConnectionError,
    APIStatusError,
    AsyncAnthropic,
    AsyncStream,
)
from anthropic._streaming import ServerSentEvent, SSEDecoder

from agents.models.anthropic_answer import ShapeError
from agents.models.endpoint import Endpoint
from agents.models.http_client import open_http
from agents.models.port import AnswerFailed, Trouble
from agents.models.trouble import classify, read_retry_after
from agents.models.wire import WireError

_PATH = "/v1/messages"
_NOTHING = frozenset({"ping", None})


class EventStream:
    """The events of an answer, each as plain JSON.

    The library's stream is not asked for them: an error that it raises leaves generators behind it
    half way, where nobody can end them.
    """

    def __init__(self, stream: AsyncStream[object]) -> None:
        self._stream = stream
        self._events = SSEDecoder().aiter_bytes(_WholeText(stream.response.aiter_bytes()))

    async def __anext__(self) -> object:
        """Return the next event that says something.

        Raises:
            ShapeError: it is not a JSON object.
        """
        while True:
            event: ServerSentEvent = await anext(self._events)
            if event.event not in _NOTHING and event.data:
                return _decoded(event.data)

    async def close(self) -> None:
        """Close the connection."""
        await self._stream.close()


class AnthropicClient:
    """The connections to one endpoint.

    Attributes:
        failures: what a request, or the reading of its answer, raises when something outside fails.
    """

    failures = (AnthropicError, httpx2.HTTPError, httpx2.StreamError, WireError, ShapeError)

    def __init__(self, endpoint: Endpoint) -> None:
        """Prepare; blocks, so call it in a thread. Nothing is sent."""
        self._library = AsyncAnthropic(
            api_key=endpoint.key.reveal(),
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=open_http(),
            open_telemetry=False,
        )
        # The public way adds what ANTHROPIC_CUSTOM_HEADERS holds, which is for other programs.
        headers = {name: value.reveal() for name, value in endpoint.headers.items()}
        self._library._custom_headers = headers  # noqa: SLF001

    async def open_stream(self, body: Mapping[str, object]) -> EventStream:
        """Send a request and return its answer."""
        return EventStream(
            await self._library.post(
                _PATH,
                cast_to=object,
                body=body,
                stream=True,
                stream_cls=AsyncStream[object],
            )
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._library.close()

    def explain(self, error: Exception, now_s: float) -> AnswerFailed:
        """Return what one of `failures` means, in the provider's own words, secrets included.

        Args:
            error: as it was raised.
            now_s: seconds since 1970-01-01 UTC, to understand dates.
        """
        match error:
            case APIStatusError():
                words = error.api_message or error.message
                trouble = classify(error.status_code, error.type, words)
                retry_after_s = read_retry_after(error.response.headers, now_s)
                said = f"{error.type}: {words}" if error.type else words
                return AnswerFailed(trouble, said, retry_after_s=retry_after_s)
            case APIConnectionError() if isinstance(error.__cause__, WireError):
                return AnswerFailed(Trouble.MALFORMED, str(error.__cause__))
            case APIConnectionError():
                cause = f" {error.__cause__}" if error.__cause__ else ""
                return AnswerFailed(Trouble.DISCONNECT, error.message + cause)
            case httpx2.HTTPError():
                return AnswerFailed(Trouble.DISCONNECT, str(error) or type(error).__name__)
            case ShapeError():
                said = f"the server does not speak this API: it sent {error}"
                return AnswerFailed(Trouble.MALFORMED, said)
            case _:
                return AnswerFailed(Trouble.MALFORMED, str(error))


class _WholeText:
    """Passes bytes on as valid UTF-8, whatever a server sends, as event streams are to be read."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __aiter__(self) -> "_WholeText":
        return self

    async def __anext__(self) -> bytes:
        return self._decoder.decode(await anext(self._parts)).encode()


def _decoded(data: str) -> object:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ShapeError("an event that is not JSON") from error
    if not isinstance(event, dict):
        raise ShapeError("an event that is no JSON object")
    return event
