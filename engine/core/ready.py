"""Tasks that may start, kept so that those of a provider without room cost nothing."""

import heapq
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from types import MappingProxyType

from engine.core.ids import TaskId
from engine.core.limiter import Room

_NOBODY: Mapping[TaskId, str] = MappingProxyType({})


class ReadyTasks:
    """A set of tasks in the order in which they became ready, with one queue per provider."""

    def __init__(self) -> None:
        self._providers = _NOBODY
        # Each holds its tasks in the order of their numbers, which only ever grow. A plain
        # dictionary would not give up its first entry in constant time.
        self._queues: dict[str, OrderedDict[TaskId, int]] = {}
        self._next = 0

    def __contains__(self, task: TaskId) -> bool:
        return task in self._queues.get(self._provider(task), ())

    def __iter__(self) -> Iterator[TaskId]:
        return _merged(queue.items() for queue in self._queues.values())

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def providers(self) -> Collection[str]:
        """The providers that tasks are waiting for."""
        return self._queues.keys()

    def assign(self, providers: Mapping[TaskId, str]) -> None:
        """Say from now on whose model each task works with; who is ready keeps its place.

        Until then, and without an entry, tasks count as those of one nameless provider.
        """
        ready = list(self)
        self._providers, self._queues = providers, {}
        for task in ready:
            self.add(task)

    def add(self, task: TaskId) -> None:
        """Put a task that is not among them behind all others."""
        self._queues.setdefault(self._provider(task), OrderedDict())[task] = self._next
        self._next += 1

    def discard(self, task: TaskId) -> None:
        """Take a task out, if it is there."""
        provider = self._provider(task)
        queue = self._queues.get(provider)
        if queue is not None and queue.pop(task, None) is not None and not queue:
            del self._queues[provider]

    def first(self, most: int, room: Room) -> list[TaskId]:
        """Return the first tasks for which there is room, at most `most` of them.

        A task whose provider has none is passed over and holds up nobody else's. Takes time for
        what is returned and for each provider, not for the tasks that wait.
        """
        fitting = _merged(
            islice(queue.items(), room.free[provider])
            for provider, queue in self._queues.items()
            if room.free[provider]
        )
        return list(islice(fitting, min(most, room.total)))

    def _provider(self, task: TaskId) -> str:
        return self._providers.get(task, "")


def _merged(queues: Iterable[Iterable[tuple[TaskId, int]]]) -> Iterator[TaskId]:
    """Yield the tasks of all queues by their numbers, looking at no more of them than needed."""
    return (task for task, _ in heapq.merge(*queues, key=itemgetter(1)))
