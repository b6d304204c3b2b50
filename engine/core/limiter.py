"""How many agents may work at once, over all runs of a process and for each provider of models.

A limiter counts and never waits: whoever finds no room asks again once it is told that there may be
some. It has one owner, the process, and knows neither clock nor chance.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

_GLOBAL_CAP = 16
_FIRST_CAPACITY = 8
_ANSWERS_TO_GROW = 10


@dataclass(frozen=True, slots=True)
class Room:
    """How many more agents may start at one moment.

    Attributes:
        total: over all providers together.
        free: for each provider that was asked about.
    """

    total: int
    free: Mapping[str, int]


@dataclass(slots=True)
class _Provider:
    """What is known of one provider; `answers` counts towards the next growth."""

    capacity: int
    running: int = 0
    answers: int = 0


class Limiter:
    """Counts the agents at work, and adapts how many each provider gets to how it answers.

    A provider starts at 8. One that pushes back is halved, and grows again by one after every ten
    good answers. Nobody who works is ever stopped by a shrink: it takes effect as agents end.

    Every refusal counts by itself, also those of requests that were on their way together: eight
    of them bring a provider from 8 to 1. A provider that refuses many at once is further from
    having room than one that refuses one, and ten good answers undo a step, so the limiter rather
    errs on the slow side than asks who was on the way when.
    """

    def __init__(self, global_cap: int = _GLOBAL_CAP) -> None:
        """Return a limiter under which at least `global_cap` agents may work, from 1 up."""
        self._least_cap = self._cap = global_cap
        self._running = 0
        self._providers: dict[str, _Provider] = {}
        self._runs: list[int] = []
        self._watchers: dict[object, Callable[[], None]] = {}

    def room(self, providers: Iterable[str]) -> Room:
        """Return how many more agents may start in all, and how many of each of `providers`."""
        return Room(
            max(0, self._cap - self._running), {name: self._free(name) for name in providers}
        )

    def capacity(self, provider: str) -> int:
        """Return how many agents of `provider` may work at once, at least 1."""
        known = self._providers.get(provider)
        return min(_FIRST_CAPACITY, self._cap) if known is None else known.capacity

    def start(self, provider: str) -> None:
        """Count an agent of `provider` as working, whether or not there is room."""
        self._running += 1
        self._known(provider).running += 1

    def end(self, provider: str) -> None:
        """Count an agent of `provider` that was started as working no more."""
        known = self._known(provider)
        assert known.running > 0
        known.running -= 1
        self._running -= 1
        self._tell()

    def answered(self, provider: str) -> None:
        """Count a good answer; every tenth since the last refusal makes room for one agent."""
        known = self._known(provider)
        known.answers += 1
        if known.answers == _ANSWERS_TO_GROW:
            known.answers = 0
            if known.capacity < self._cap:
                known.capacity += 1
                self._tell()

    def throttled(self, provider: str) -> None:
        """Halve the room of a provider that refused a request because of its rate or its load."""
        known = self._known(provider)
        known.capacity = max(1, known.capacity // 2)
        known.answers = 0

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called whenever room may have appeared.

        It is called in the middle of whatever made the room, so it only takes note of that.

        Returns:
            What ends it; may be called more than once.
        """
        watcher = object()
        self._watchers[watcher] = callback

        def unwatch() -> None:
            self._watchers.pop(watcher, None)

        return unwatch

    @contextmanager
    def admit_run(self, concurrency: int) -> Iterator[None]:
        """Let as many agents work as the largest of the active runs may, but never fewer.

        Args:
            concurrency: how many agents of the run may work at once.
        """
        self._runs.append(concurrency)
        self._set_cap()
        try:
            yield
        finally:
            self._runs.remove(concurrency)
            self._set_cap()

    def _set_cap(self) -> None:
        old, self._cap = self._cap, max([self._least_cap, *self._runs])
        # What a provider grew to under a higher cap is forgotten: the next large run finds it out.
        for known in self._providers.values():
            known.capacity = min(known.capacity, self._cap)
        if self._cap > old:
            self._tell()

    def _known(self, provider: str) -> _Provider:
        if provider not in self._providers:
            self._providers[provider] = _Provider(self.capacity(provider))
        return self._providers[provider]

    def _free(self, provider: str) -> int:
        known = self._providers.get(provider)
        running = 0 if known is None else known.running
        return max(0, self.capacity(provider) - running)

    def _tell(self) -> None:
        for callback in tuple(self._watchers.values()):
            callback()
