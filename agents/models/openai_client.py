"""The official `openai` library, and nothing else of ours beside it.

Importing this module takes more than half a second, so `agents.models.stream` does it in a thread.
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
from agents.models.http_client import ByteStream, open_http, translated
from agents.models.wire import RefusedError

_PATH = "/chat/completions"
# For servers that ask for no key; the library insists on one.
_NO_KEY = "none"


class OpenAiClient:
    """The connections to one endpoint."""

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

        Raises:
            WireError: there is none.
        """
        with translated((OpenAIError,), lost=(APIConnectionError,)):
            try:
                response = await self._library.post(
                    _PATH,
                    cast_to=httpx2.Response,
                    body=body,
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
            except APIStatusError as error:
                headers = error.response.headers
                code = error.code or ""
                raise RefusedError(error.status_code, code, _words(error), headers) from error
        return ByteStream(cast("httpx2.Response", response))

    async def close(self) -> None:
        """Close all connections."""
        await self._library.close()


def _words(error: APIError) -> str:
    """Return what the provider said; the library drops what it said in plain text."""
    said = error.body if isinstance(error.body, str) else ""
    return f"{error.message}: {said}" if said and said not in error.message else error.message
