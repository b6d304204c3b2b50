"""The official `anthropic` library, and nothing else of ours beside it.

Importing this module takes as long as many a program, so `agents.models.stream` does it in a
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

from agents.models.endpoint import Endpoint
from agents.models.http_client import ByteStream, open_http, translated
from agents.models.wire import RefusedError

_PATH = "/v1/messages"


class AnthropicClient:
    """The connections to one endpoint."""

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

        Raises:
            WireError: there is none.
        """
        with translated((AnthropicError,), lost=(APIConnectionError,)):
            try:
                response = await self._library.post(
                    _PATH,
                    cast_to=httpx2.Response,
                    body=body,
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
            except APIStatusError as error:
                words = error.api_message or error.message
                headers = error.response.headers
                raise RefusedError(error.status_code, error.type or "", words, headers) from error
        return ByteStream(cast("httpx2.Response", response))

    async def close(self) -> None:
        """Close all connections."""
        await self._library.close()
