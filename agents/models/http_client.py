"""The HTTP client under the providers' libraries.

Imported together with a library, in a thread, and not before: it takes as long as many a program.
"""

from collections.abc import AsyncIterator

import httpx2
import trio

from agents.models.wire import IDLE_TIMEOUT_S, Meter, WireError

CONNECT_TIMEOUT_S = 30.0
_MAX_IDLE_CONNECTIONS = 16


class ByteStream:
    """The body of an answer, in parts of any size."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._parts = response.aiter_raw()

    @property
    def kind(self) -> str:
        """What the server says that it is."""
        return self._response.headers.get("content-type", "no content type")

    async def __anext__(self) -> bytes:
        """Return the next part."""
        return await anext(self._parts)

    async def close(self) -> None:
        """Close its connection."""
        await self._response.aclose()


class _MeteredStream(httpx2.AsyncByteStream):
    """Passes on what another stream gives, as long as it is within bounds and not closed."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream
        self._meter = Meter()
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        excess: WireError | None = None
        try:
            async for part in self._stream:
                # Goes on when it is closed: the streams below must come to their ends too.
                if self._is_closed:
                    continue
                try:
                    self._meter.count(part)
                except WireError as error:
                    excess = error
                    with trio.CancelScope(shield=True):
                        await self.aclose()
                    continue
                yield part
        except httpx2.TransportError:
            if not self._is_closed:
                raise
        if excess is not None:
            raise excess

    async def aclose(self) -> None:
        self._is_closed = True
        await self._stream.aclose()


def open_http() -> httpx2.AsyncClient:
    """Return a client for a provider's library; blocks, so call it in a thread.

    It follows no redirect, which would take keys to another host, and reads no compressed answer,
    whose size shows only when it is too late. An answer that is too large raises `WireError`, and
    one without a byte for `IDLE_TIMEOUT_S` times out. Bytes that say nothing count: servers send
    them while a model thinks. Proxies and certificates are found as the machine's other programs
    find them.
    """
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(IDLE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=_MAX_IDLE_CONNECTIONS),
        follow_redirects=False,
        event_hooks={"response": [_meter]},
    )


async def _meter(response: httpx2.Response) -> None:
    await trio.lowlevel.checkpoint()
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise WireError(f"the server compressed its answer ({encoding}) without being asked")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _MeteredStream(response.stream)
