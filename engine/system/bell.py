"""Something that happens again and again, for those who wait for the next time."""

import trio


class Bell:
    """Wakes all who wait for it; a ring that nobody waits for is forgotten."""

    def __init__(self) -> None:
        """Begin before the first ring."""
        self._next = trio.Event()

    def ring(self) -> None:
        """Wake all who wait."""
        rung, self._next = self._next, trio.Event()
        rung.set()

    @property
    def next(self) -> trio.Event:
        """Set at the next ring; whoever looks at something takes it before, and misses none."""
        return self._next

    async def wait(self) -> None:
        """Return at the next ring."""
        await self._next.wait()
