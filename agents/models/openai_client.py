"""The official `openai` library, and nothing else of ours beside it.

Importing this module takes more than half a second, so `agents.models.openai` does it in a thread.
"""

from collections.abc import Mapping
from typing import cast

import httpx2
from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AsyncStream,
    OpenAIError,
)

from agents.models.endpoint import Endpoint
from agents.models.http_client import ByteStream, open_http
from agents.models.port import AnswerFailed, Trouble
from agents.models.trouble import classify, read_retry_after
from agents.models.wire import WireError

# For servers that ask for no key; the library insists on one.
_NO_KEY = "none"


class OpenAiClient:
    """The connections to one endpoint.

    Attributes:
        failures: what a request, or the reading of its answer, raises when something outside fails.
    """

    failures = (OpenAIError, httpx2.HTTPError, httpx2.StreamError, WireError)

    def __init__(self, endpoint: Endpoint) -> None:
        """Prepare; blocks, so call it in a thread. Nothing is sent."""
        self._library = AsyncOpenAI(
            api_key=endpoint.key.reveal() or _NO_KEY,
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=open_http(),
        )
        # The library takes these from the environment, whichever server it is to speak to.
        self._library.organization = None
        self._library.project = None
        headers = {name: value.reveal() for name, value in endpoint.headers.items()}
        self._library._custom_headers = headers  # noqa: SLF001 - else OPENAI_CUSTOM_HEADERS is in it

    async def open_stream(self, body: Mapping[str, object]) -> ByteStream:
        """Send a request and return its answer as it comes over the wire.

        The library's own stream leaves its generators half way when an answer is done, and guesses
        at wrong shapes, so it only sends the request and sees to its errors.
        """
        response = await self._library.post(
            "/chat/completions",
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
                trouble = classify(error.status_code, error.code, _words(error))
                retry_after_s = read_retry_after(error.response.headers, now_s)
                return AnswerFailed(trouble, _words(error), retry_after_s=retry_after_s)
            case APIConnectionError():
                cause = f" {error.__cause__}" if error.__cause__ else ""
                return AnswerFailed(Trouble.DISCONNECT, error.message + cause)
            case httpx2.HTTPError():
                return AnswerFailed(Trouble.DISCONNECT, str(error))
            case _:
                return AnswerFailed(Trouble.MALFORMED, str(error))


def _words(error: APIError) -> str:
    """Return what the provider said; the library drops what it said in plain text."""
    said = error.body if isinstance(error.body, str) else ""
    return f"{error.message}: {said}" if said and said not in error.message else error.message
