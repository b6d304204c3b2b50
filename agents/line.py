"""A line of waiters: whoever is first passes when there is room, and the others after it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from engine.system.bell import Bell


class Line:
    """Lets its users through one after the other, in the order in which they came.

    Nobody polls: the first in line sleeps until the moment that it was told, or until something
    changed. A waiter that is cancelled leaves nothing behind.
    """

    def __init__(self, delay_s: Callable[[], float]) -> None:
        """Begin with nobody in line.

        Args:
            delay_s: how long the first in line still has to wait, as things stand: 0 when it may
                pass, `math.inf` when only a change can let it pass.
        """
        self._delay_s = delay_s
        self._door = trio.StrictFIFOLock()
        self._changed = Bell()
        self._inside = 0

    @property
    def inside(self) -> int:
        """How many have passed and not left yet."""
        return self._inside

    def wake(self) -> None:
        """Have the first in line look again: what its delay depends on has changed."""
        self._changed.ring()

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Wait in line, then be inside for as long as the context is open."""
        await self._door.acquire()
        try:
            while (delay_s := self._delay_s()) > 0:
                with trio.move_on_after(delay_s):
                    await self._changed.wait()
            self._inside += 1
        finally:
            self._door.release()
        try:
            yield
        finally:
            self._inside -= 1
            self.wake()
