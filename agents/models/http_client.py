"""The HTTP client under the providers' libraries.

Imported together with a library, in a thread, and not before: it takes as long as many a program.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import httpx2
import trio

from agents.models.wire import (
    CLOSE_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    DroppedError,
    MalformedError,
    Meter,
    WireError,
)

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

    async def read(self) -> bytes | None:
        """Return the next part; None after the last one.

        Raises:
            WireError: there is nothing more to be had.
        """
        with translated():
            return await anext(self._parts, None)

    async def finish(self) -> None:
        """Close the connection and bring the stream to its end, cancelled or not.

        A stream that is dropped half way leaves generators where they stand, which trio rightly
        complains about. After the connection they end by themselves, once they are asked.
        """
        with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            with suppress(Exception):  # the answer has been judged; how this dies is no news
                await self._response.aclose()
            with suppress(Exception):
                async for _ in self._parts:
                    pass


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
                    with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
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
    whose size shows only when it is too late. An answer that is too large raises `MalformedError`,
    and one without a byte for `IDLE_TIMEOUT_S` times out. Bytes that say nothing count: servers
    send them while a model thinks. Proxies and certificates are found as the machine's other
    programs find them.
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
        raise MalformedError(f"the server compressed its answer ({encoding}) without being asked")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _MeteredStream(response.stream)


_Kinds = tuple[type[Exception], ...]


@contextmanager
def translated(library: _Kinds = (), *, lost: _Kinds = ()) -> Iterator[None]:
    """Turn what is raised inside the block into errors of ours.

    Args:
        library: what a provider's library raises.
        lost: what it raises for a connection, whatever the cause.

    Raises:
        WireError: what was raised.
    """
    broken: _Kinds = (*library, httpx2.StreamError)
    try:
        yield
    except lost as error:
        if isinstance(error.__cause__, WireError):
            raise error.__cause__ from None
        cause = f" {error.__cause__}" if error.__cause__ else ""
        raise DroppedError(f"{error}{cause}") from error
    except httpx2.HTTPError as error:
        raise DroppedError(str(error) or type(error).__name__) from error
    except broken as error:
        raise MalformedError(str(error) or type(error).__name__) from error
