"""How those of one process learn that something in the herd has changed, without looking again.

A signal carries no facts: whoever hears it looks at the mailboxes. So none can be stale, and one
that nobody heard costs nothing but the time until the next look.
"""

from collections import defaultdict
from typing import Final

import trio

# Rung for every change, whoever it concerns.
ANYTHING: Final = "*"


class Listener:
    """One who waits for a signal."""

    def __init__(self) -> None:
        """Begin without having heard anything."""
        self._rung = trio.Event()

    def hear(self) -> None:
        """Note that the signal was given."""
        self._rung.set()

    async def wait(self) -> None:
        """Return once the signal was given since the last time that this returned."""
        await self._rung.wait()
        self._rung = trio.Event()


class Signals:
    """Signals by name: a session that owns agents, or a mailbox that was left something."""

    def __init__(self) -> None:
        """Begin without anybody who listens."""
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)

    def ring(self, *names: str) -> None:
        """Give signals; also the one for everything."""
        for name in {*names, ANYTHING}:
            for listener in self._listeners.get(name, ()):
                listener.hear()

    def listen(self, name: str) -> Listener:
        """Return a listener; what is rung from now on is heard. `leave` lets it go."""
        listener = Listener()
        self._listeners[name].append(listener)
        return listener

    def leave(self, name: str, listener: Listener) -> None:
        """Have a listener hear no more."""
        self._listeners[name].remove(listener)
        if not self._listeners[name]:
            del self._listeners[name]
