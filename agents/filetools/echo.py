"""Passes on the end of what a running command writes, for people who watch."""

from collections.abc import Callable

import trio

# A few lines of a screen. With the pause it is at most 8 KiB a second for each running command.
TAIL_BYTES = 2 << 10
PAUSE_S = 0.25


class Echo:
    """The newest output of one command, passed on at most four times a second."""

    def __init__(self, update: Callable[[str], None]) -> None:
        """Have `update` told; it must neither block nor fail."""
        self._update = update
        self._tail = b""
        self._is_cut = False
        self._arrived = trio.Event()

    def take(self, data: bytes) -> None:
        """Take the next piece of output."""
        self._is_cut = self._is_cut or len(self._tail) + len(data) > TAIL_BYTES
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        self._arrived.set()

    async def pass_on(self) -> None:
        """Pass output on as it comes, until cancelled; wait without a timer while none does."""
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            self._update(self._text())
            await trio.sleep(PAUSE_S)

    def _text(self) -> str:
        """Return the tail, from the beginning of a line if it has one."""
        tail = self._tail
        if self._is_cut:
            tail = tail[tail.find(b"\n", 0, -1) + 1 :]
        return tail.decode("utf-8", "replace")
