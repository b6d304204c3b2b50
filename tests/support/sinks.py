"""Event sinks that keep everything in memory."""

from collections.abc import Sequence

import trio

from engine.core.errors import ExternalError
from engine.core.events import Event, Trace


class MemorySink:
    """Keeps events as a log does: traces before the decisions that follow them.

    Attributes:
        events: everything that is durable, in order.
        appends: the decisions of each append.
        fail_at: the append, counted from 1, that fails and takes nothing.
    """

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.events: list[Event] = []
        self.appends: list[list[Event]] = []
        self.fail_at = fail_at
        self._buffer: list[Event] = []

    async def append(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()
        if self.fail_at is not None and len(self.appends) + 1 >= self.fail_at:
            raise ExternalError("the disk is full")
        self.events += [*self._buffer, *events]
        self._buffer = []
        self.appends.append(list(events))

    def note(self, event: Trace) -> None:
        self._buffer.append(event)
