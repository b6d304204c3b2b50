"""Stdin and stdout as a line of messages that nothing else in the process can write into.

Both are read and written on the loop, so a peer that is silent or does not read can always be left:
a thread that waits for it could not be called back.
"""

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import trio

LINE_LIMIT_BYTES = 128 << 20
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_CHUNK_BYTES = 1 << 16


class LineReader:
    """The lines that a peer sends, as text without their ends."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        """Begin where the stream stands."""
        self._stream = stream
        self._received = bytearray()

    def __aiter__(self) -> AsyncIterator[str]:
        """Yield lines until the peer has left, or sends one that is longer than any message."""
        return self._lines()

    async def _lines(self) -> AsyncIterator[str]:
        while (line := await self.receive()) is not None:
            yield line

    async def receive(self) -> str | None:
        """Return the next line; None where iterating would end."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            chunk = await self._receive()
            if not chunk or searched > LINE_LIMIT_BYTES:
                return None
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line.decode("utf-8", "replace")

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_CHUNK_BYTES))
        except trio.BrokenResourceError:
            return b""


class LineWriter:
    """Where lines for a peer go; what is written after it has left is dropped."""

    def __init__(self, stream: trio.abc.SendStream) -> None:
        """Begin where the stream stands."""
        self._stream = stream
        self._is_broken = False

    async def write(self, text: str) -> None:
        """Send all of `text`."""
        await self.write_bytes(text.encode())

    async def write_bytes(self, data: bytes) -> None:
        """Send all of `data`."""
        if self._is_broken:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            self._is_broken = True

    async def flush(self) -> None:
        """Do nothing: nothing is held back."""
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_wire() -> AsyncIterator[tuple[LineReader, LineWriter]]:
    """Have stdin and stdout for messages alone inside the block.

    Whoever else reads stdin meanwhile finds its end, and what is written to stdout goes to stderr.
    """
    async with AsyncExitStack() as held:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123, ASYNC230 - never blocks
            stdin = await held.enter_async_context(_taken(_STDIN, nothing.fileno()))
        stdout = await held.enter_async_context(_taken(_STDOUT, _STDERR))
        yield LineReader(stdin), LineWriter(stdout)


@asynccontextmanager
async def _taken(fd: int, instead: int) -> AsyncIterator[trio.lowlevel.FdStream]:
    """Have what `fd` refers to as a stream; `fd` refers to `instead` in the meantime."""
    kept = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
    os.dup2(instead, fd)
    async with trio.lowlevel.FdStream(os.dup(kept)) as stream:
        try:
            yield stream
        finally:
            os.dup2(kept, fd)
            os.close(kept)
