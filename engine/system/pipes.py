"""Both ends of a running program's standard streams.

The reading side cannot be hung by a stranger who holds the writing end, and loses nothing that was
written before it stopped; the feeding side does not mind a program that stops reading.
"""

import os
from collections.abc import Callable

import trio

from engine.system.output import Sink

# As much as a pipe holds by default; a larger buffer is never filled by one read.
_CHUNK_BYTES = 1 << 16
# A pipe can be told to hold this much, so this ends every drain of one that is still written to.
_DRAIN_LIMIT_BYTES = 1 << 20


class OutputPipe:
    """The reading end of a program's stdout or stderr."""

    def __init__(self, fd: int, sink: Sink) -> None:
        os.set_blocking(fd, False)
        self.sink = sink
        self._fd = fd
        self._reading = trio.CancelScope(shield=True)
        self._done = trio.Event()
        self._at_end = False

    async def pump(self) -> None:
        """Read to the end, or until `finish`; cancelling the caller does not stop it."""
        with self._reading:
            while not self._at_end:
                await trio.lowlevel.wait_readable(self._fd)
                await self._read_some()
        self._done.set()

    async def wait_end(self) -> None:
        """Return when nobody holds the writing end any more and everything was read."""
        await self._done.wait()

    async def finish(self) -> bool:
        """Stop reading; return whether somebody still holds the writing end.

        What is already in the pipe is kept. To be called under a shield.
        """
        self._reading.cancel()
        await self._done.wait()
        drained = 0
        while not self._at_end and drained < _DRAIN_LIMIT_BYTES:
            read = await self._read_some()
            if read == 0:
                break
            drained += read
        return not self._at_end

    async def _read_some(self) -> int:
        """Read what is there, at most a chunk; return its size."""
        try:
            data = os.read(self._fd, _CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if data:
            # What was read must reach the sink even if reading is being stopped.
            with trio.CancelScope(shield=True):
                await self.sink.take(data)
        else:
            self._at_end = True
        return len(data)


class InputPipe:
    """The writing end of a program's stdin."""

    def __init__(self, fd: int, data: bytes, close: Callable[[], None]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._rest = memoryview(data)
        self._close = close
        self._writing = trio.CancelScope(shield=True)

    async def pump(self) -> None:
        """Write everything and close; a program that has stopped reading is no error."""
        with self._writing:
            while self.write_some():
                await trio.lowlevel.wait_writable(self._fd)

    def write_some(self) -> bool:
        """Write as much as fits; return whether something is left. Closes the pipe if not."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._rest = self._rest[:0]
        self._close()
        return False

    def stop(self) -> None:
        """End `pump` with whatever it has written."""
        self._writing.cancel()
