"""The slots of a process's limiter that one run holds."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter


class Slots:
    """Takes a slot for each attempt of a run, and gives each back exactly once."""

    def __init__(self, limiter: Limiter, providers: Mapping[TaskId, str]) -> None:
        self._limiter = limiter
        self._providers = providers
        self._held: dict[AttemptId, str] = {}

    def take(self, attempt: AttemptId) -> None:
        """Hold a slot for `attempt`, which has none yet."""
        provider = self._providers[attempt.task]
        self._limiter.start(provider)
        self._held[attempt] = provider

    def give_back(self, attempt: AttemptId) -> None:
        """Let others have the slot of `attempt`, which holds one."""
        self._limiter.end(self._held.pop(attempt))

    def give_all_back(self) -> None:
        """Let others have every slot that is still held."""
        for attempt in tuple(self._held):
            self.give_back(attempt)


@contextmanager
def open_slots(
    limiter: Limiter, providers: Mapping[TaskId, str], room_appeared: Callable[[], None]
) -> Iterator[Slots]:
    """Take slots of `limiter` inside the block; whatever is still held is given back after it.

    Args:
        limiter: shared by the runs of this process.
        providers: whose model works on each task.
        room_appeared: called when it is worthwhile to ask for room again; see `Limiter.watch`.
    """
    slots, unwatch = Slots(limiter, providers), limiter.watch(room_appeared)
    try:
        yield slots
    finally:
        unwatch()
        slots.give_all_back()
