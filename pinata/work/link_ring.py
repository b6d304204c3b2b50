"""What happened lately in a run, encoded once for all who watch it."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.core.events import AttemptSettled, Event, Trace, UsageReported
from engine.core.ids import AttemptId

_MOST_ENTRIES = 4_096
_MOST_BYTES = 4 << 20
_Aspect = tuple[AttemptId, bool]


@dataclass(frozen=True, slots=True)
class Entry:
    """One event as JSON; `is_note` when it has no place in the log, or not yet."""

    data: bytes
    is_note: bool


class Ring:
    """The newest entries; each viewer knows the place of the next one that it needs.

    Attributes:
        start: place of the oldest entry that is still there.
        end: place of the next one.
    """

    def __init__(self, *, most_entries: int = _MOST_ENTRIES, most_bytes: int = _MOST_BYTES) -> None:
        """Begin empty; the oldest entries go when there are more."""
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self.start = self.end = 0

    def append(self, entry: Entry) -> None:
        """Add the newest entry."""
        self._entries.append(entry)
        self._bytes += len(entry.data)
        self.end += 1
        while len(self._entries) > self._most_entries or self._bytes > self._most_bytes:
            self._bytes -= len(self._entries.popleft().data)
            self.start += 1

    def clear(self) -> None:
        """Drop all entries; places stay what they are."""
        self._entries.clear()
        self._bytes, self.start = 0, self.end

    def since(self, place: int, most_bytes: int) -> Sequence[Entry]:
        """Return the entries from `place` on, as many as `most_bytes` hold but at least one.

        Args:
            place: from `start` to `end`.
            most_bytes: of all of them together.
        """
        found: list[Entry] = []
        room = most_bytes
        # Counted from the end, where a viewer that keeps up is.
        for index in range(place - self.end, 0):
            entry = self._entries[index]
            room -= len(entry.data)
            if found and room < 0:
                break
            found.append(entry)
        return found


class Doings:
    """What each running attempt does and has used, as its newest notes say.

    A view that is folded from a lean log lacks that.
    """

    def __init__(self) -> None:
        self._newest: dict[_Aspect, Trace] = {}

    def __iter__(self) -> Iterator[Trace]:
        """Give the notes that tell it."""
        return iter(tuple(self._newest.values()))

    def noted(self, event: Trace) -> None:
        """Remember what an attempt does, or has used."""
        self._newest[event.attempt, isinstance(event, UsageReported)] = event

    def happened(self, event: Event) -> None:
        """Forget an attempt that has ended."""
        if isinstance(event, AttemptSettled):
            for is_usage in (False, True):
                self._newest.pop((event.attempt, is_usage), None)
