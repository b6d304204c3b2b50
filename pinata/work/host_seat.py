"""A client that is attached to a host: what it said about itself, and the way to it."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import trio

from pinata.work.frames import FrameError, send_frame

# A client may be busy for a while; one that takes nothing for so long is let go.
PATIENCE_S: Final = 30.0
_LAST_READ_S = 1.0

Send = Callable[[Mapping[str, Any]], Awaitable[bool]]


class Seat:
    """One attached client; what is sent to it after it has gone is dropped.

    All of the host's tasks may send to it, and a send can be cancelled: only the one task that
    writes ever touches the stream.

    Attributes:
        number: tells it from other clients of the host.
        cwd: where its calls stand.
        trust: see `pinata.work.context.Context.project_trust`.
        sent: keys of the deliveries that it was sent.
        noticed: the notices that it was told; None before it was welcomed.
    """

    def __init__(self, number: int, cwd: Path, *, trust: bool | None) -> None:
        """Begin with nothing sent; see the class for the arguments."""
        self.number = number
        self.cwd = cwd
        self.trust = trust
        self.sent: set[str] = set()
        self.noticed: set[str] | None = None
        # Without a buffer: whoever sends faster than the client takes waits.
        self._outbox, self._written = trio.open_memory_channel[Mapping[str, Any]](0)
        self._reading = trio.CancelScope()
        self._has_written = trio.Event()

    async def send(self, frame: Mapping[str, Any]) -> bool:
        """Hand a frame to the one that writes; return whether the client was still there."""
        try:
            await self._outbox.send(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def dismiss(self, last: Mapping[str, Any]) -> None:
        """Send a last frame and read no more of the client; return once it is written."""
        await self.send(last)
        self._reading.cancel()
        await self._has_written.wait()

    @property
    def reading(self) -> trio.CancelScope:
        """What ends when the client is dismissed, or cannot be written to."""
        return self._reading

    async def write(self, stream: trio.abc.SendStream) -> None:
        """Write what is sent, until `close`; a client that takes nothing is soon read no more."""
        async with self._written:
            try:
                async for frame in self._written:
                    await send_frame(stream, frame, patience_s=PATIENCE_S)
            except FrameError:
                # It may have said goodbye before it went, which decides what becomes of its runs.
                self._reading.deadline = trio.current_time() + _LAST_READ_S
            finally:
                self._has_written.set()

    def close(self) -> None:
        """Take nothing more to be sent; what was handed over is still written."""
        self._outbox.close()


async def show_nothing(_: Send) -> None:
    """Show a client nothing of the work; never returns."""
    await trio.sleep_forever()
