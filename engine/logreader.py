"""Reading a run's event log: all of it, or what was added since the last time."""

import os
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import CorruptionError
from engine.core.ids import RunId
from engine.records.event import Logged, decode_event
from engine.system import files

# No more than a live log can grow while it is read.
_GROWTH_LIMIT_BYTES = 64 << 20
# Enough of what was read to know it again: the end of its last line has the time and what happened.
_KNOWN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class NewEvents:
    """What one look at a log showed.

    Attributes:
        is_afresh: these are all events of the log; whatever was read of it before is void.
        events: in order.
    """

    is_afresh: bool
    events: list[Logged]


class LogReader:
    """Reads one log as often as it is asked to, and each time only what is new of it.

    A torn last line is left for the next time. A log that became shorter, that is another file, or
    that does not hold any more what was read last, is read from its beginning.
    """

    def __init__(self, path: Path, run: RunId) -> None:
        self._path = path
        self._run = run
        self._forget()

    @property
    def size(self) -> int:
        """How many bytes of the file hold the events that were read."""
        return self._size

    def _forget(self) -> None:
        self._size = self._next_seq = 0
        self._known = b""
        self._file: tuple[int, int] | None = None

    def read(self) -> NewEvents:
        """Return what is new; blocks.

        A log that is not there is empty: the run died before its first event.

        Raises:
            CorruptionError: a line is damaged, named by its number, or the file is not a plain one.
                The next look begins afresh.
        """
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            self._forget()
            return NewEvents(is_afresh=True, events=[])
        data = self._added(found)
        is_afresh = data is None or not self._size
        if data is None:
            self._forget()
            data = files.read_regular(self._path, found.st_size + _GROWTH_LIMIT_BYTES)
        self._file = found.st_dev, found.st_ino
        try:
            return NewEvents(is_afresh, self._decode(data))
        except CorruptionError:
            self._forget()
            raise

    def _added(self, found: os.stat_result) -> bytes | None:
        """Return what follows on what was read before; None when that is not there any more."""
        if self._file != (found.st_dev, found.st_ino) or found.st_size < self._size:
            return None
        start = self._size - len(self._known)
        limit = found.st_size - start + _GROWTH_LIMIT_BYTES
        data = files.read_regular(self._path, limit, start=start)
        return data[len(self._known) :] if data.startswith(self._known) else None

    def _decode(self, data: bytes) -> list[Logged]:
        whole = data[: data.rfind(b"\n") + 1]
        events = []
        for seq, line in enumerate(whole.split(b"\n")[:-1], self._next_seq):
            try:
                logged = decode_event(line, run=self._run)
            except CorruptionError as error:
                raise CorruptionError(f"{self._path}: line {seq + 1} {error}") from error
            if logged.seq != seq:
                message = f"{self._path}: line {seq + 1} has number {logged.seq} where {seq} is due"
                raise CorruptionError(message)
            events.append(logged)
        self._size += len(whole)
        self._next_seq += len(events)
        self._known = (self._known + whole)[-_KNOWN_BYTES:]
        return events


def replay(path: Path, run: RunId) -> list[Logged]:
    """Return every event of the log at `path`, in order; a torn last line is not one.

    Blocks. A log that is not there is empty: the run died before its first event.

    Raises:
        CorruptionError: a line is damaged, named by its number, or the file is not a plain one.
    """
    return LogReader(path, run).read().events
