"""The official `anthropic` library, and nothing else of ours beside it.

Importing this module takes as long as many a program, so `agents.models.anthropic` does it in a
thread.
"""

from collections.abc import Mapping
from typing import cast

import httpx2
from anthropic import (
    AnthropicError,
    APIConnectionError,
    APIStatusError,
    AsyncAnthropic,
    AsyncStream,
)

from agents.models.anthropic_answer import ShapeError
from agents.models.endpoint import Endpoint
from agents.models.http_client import ByteStream, open_http
from agents.models.port import AnswerFailed, Trouble
from agents.models.trouble import classify, read_retry_after
from agents.models.wire import WireError

_PATH = "/v1/messages"


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
        headers = {name: value.reveal() for name, value in endpoint.headers.items()}
        self._library._custom_headers = headers  # noqa: SLF001 - else the environment adds to them

    async def open_stream(self, body: Mapping[str, object]) -> ByteStream:
        """Send a request and return its answer as it comes over the wire.

        The library's own stream leaves its generators half way when an error is among the events,
        and guesses at wrong shapes, so it only sends the request and sees to its errors.
        """
        response = await self._library.post(
            _PATH,
            cast_to=httpx2.Response,
            body=body,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        return ByteStream(cast("httpx2.Response", response))

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
