"""A run's event log on disk: group appends, buffered traces, and the torn last line.

Decision events are durable when `append` returns. Trace events wait in memory for a moment and are
written together; a crash may lose the last of them, never one in the middle.
"""

import errno
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import trio

from engine.core.errors import ExternalError, reason_of
from engine.core.events import (
    AttemptSettled,
    Event,
    MessageEnded,
    TelemetryReported,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    Trace,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, RunId
from engine.core.spec import Mode
from engine.logreader import LogReader
from engine.records.event import Logged, encode_event
from engine.system import faults, files
from engine.system.clock import Clock
from engine.system.nursery import open_flat_nursery

_log = logging.getLogger(f"pinata.{__name__}")

# How long a trace event may wait for others before it is written; a quarter of a second at most.
_TRACE_DELAY_S = 0.1
_USAGE_INTERVAL_MS = 1_000
_READ_BYTES = 1 << 20
_LEAN_DROPS = (
    TurnStarted,
    TextDelta,
    ThinkingDelta,
    MessageEnded,
    ToolStarted,
    ToolUpdated,
    ToolEnded,
    TelemetryReported,
)

Consumer = Callable[[Logged], None]
Watcher = Callable[[Trace], None]


class LogWriteError(ExternalError):
    """The log could not be written; what was to be recorded did not happen."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.path = path
        self.code = error.errno
        super().__init__(f"cannot write the event log {path}: {reason_of(error)}")


@asynccontextmanager
async def open_event_log(
    path: Path, *, run: RunId, clock: Clock, mode: Mode
) -> AsyncIterator["EventLog"]:
    """Open the log for its one writer; it is made if it is missing, and a torn tail is cut off.

    On leaving, what is still buffered is written and made durable.

    Raises:
        CorruptionError: the log is damaged; nothing was changed.
        LogWriteError: the log cannot be opened, or its last buffered events not be written.
    """
    file, seq = await trio.to_thread.run_sync(_open, path, run)
    log = EventLog(file, run=run, clock=clock, mode=mode, next_seq=seq)
    try:
        async with open_flat_nursery() as nursery:
            nursery.start_soon(log.write_traces)
            yield log
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            try:
                await log.flush()
            finally:
                await trio.to_thread.run_sync(file.close)


def _open(path: Path, run: RunId) -> "tuple[_File, int]":
    """Return the open file and the next event's number."""
    reader = LogReader(path, run)
    events, size = reader.read().events, reader.size
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
        try:
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)
                faults.point("eventlog.open.cut")
            os.fsync(fd)
            files.sync_dir(path.parent)
            return _File(path, fd, size), len(events)
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        raise LogWriteError(path, error) from error


class _File:
    """The open file; its methods block and are called by one thread at a time.

    It remembers a digest of all that it holds, since others can write to it too.
    """

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self._fd = fd
        self._size = size
        self._facts = os.fstat(fd)
        self._digest = _digest_of(path, size)

    def held(self) -> "_Held | None":
        """Return what was read and written here; None when the file surely holds something else."""
        try:
            found = self.path.lstat()
        except OSError:
            return None
        if not os.path.samestat(self._facts, found) or found.st_size != self._size:
            return None
        return _Held(self.path, self._size, self._digest.digest())

    def close(self) -> None:
        """Close the file; whether it is intact may still be asked."""
        os.close(self._fd)

    def write(self, data: bytes, *, durable: bool) -> None:
        """Append all of `data` or nothing, as far as the file system lets us."""
        try:
            if durable:
                faults.point("eventlog.append.started")
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            if durable:
                self._check_place()
                faults.point("eventlog.append.written")
                os.fsync(self._fd)
                faults.point("eventlog.append.durable")
        except OSError as error:
            self._cut_back()
            raise LogWriteError(self.path, error) from error
        self._size += len(data)
        self._digest.update(data)

    def _check_place(self) -> None:
        """Make sure that what is written here is what others read.

        Raises:
            OSError: something else stands at the file's name.
        """
        if not os.path.samestat(self._facts, self.path.lstat()):
            raise OSError(errno.ESTALE, "another file stands in its place")

    def _cut_back(self) -> None:
        """Take back what a failed write left, so that the log stands as it did before."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            _log.warning("%s: a failed write could not be taken back: %s", self.path, error)


class _Digest(Protocol):
    """What this module needs of a hash object."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Held:
    """What a log must have held at one moment, when it had exactly `size` bytes."""

    path: Path
    size: int
    digest: bytes

    def is_there(self) -> bool:
        """Return whether the file begins with it; blocks for as long as it takes to read that."""
        try:
            return _digest_of(self.path, self.size).digest() == self.digest
        except OSError:
            return False


def _digest_of(path: Path, size: int) -> _Digest:
    """Return the digest of the first `size` bytes, or of all that there is."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while size > 0 and (part := stream.read(min(size, _READ_BYTES))):
            digest.update(part)
            size -= len(part)
    return digest


class EventLog:
    """The open log of one run: an `EventSink` that also shows what it wrote to consumers."""

    def __init__(self, file: _File, *, run: RunId, clock: Clock, mode: Mode, next_seq: int) -> None:
        self._file = file
        self._run = run
        self._clock = clock
        self._lean = mode is Mode.LEAN
        self._next_seq = next_seq
        self._lock = trio.Lock()
        self._buffer: list[tuple[int, Trace]] = []
        self._noted = trio.Event()
        self._usage_due_ms: dict[AttemptId, int] = {}
        self._held_usage: dict[AttemptId, UsageReported] = {}
        self._consumers: list[Consumer] = []
        self._watchers: list[Watcher] = []
        self._failure: LogWriteError | None = None

    def subscribe(self, consumer: Consumer) -> None:
        """Show `consumer` every event from now on, in order, after it was written.

        It is called on the loop and must not block. One that raises is dropped; nobody else is
        affected.
        """
        self._consumers.append(consumer)

    def unsubscribe(self, consumer: Consumer) -> None:
        """Stop showing events to `consumer`, whether or not it was dropped already."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def watch(self, watcher: Watcher) -> None:
        """Show `watcher` every trace event from now on as it happens, also what a lean log drops.

        It is called on the loop and must neither block nor raise.
        """
        self._watchers.append(watcher)

    async def append(self, events: Sequence[Event]) -> None:
        """Make `events` durable, in order, with one write and one flush; return when they are.

        Buffered traces go before them in the same write. Runs to its end even when cancelled, once
        it has begun to write.

        Raises:
            LogWriteError: this write or an earlier one failed. The log takes nothing any more.
        """
        await self._write(events, durable=True)

    async def is_intact(self) -> bool:
        """Return whether the file holds what was written here, and nothing else.

        May also be asked after the log was closed.
        """
        async with self._lock:
            held = await trio.to_thread.run_sync(self._file.held)
        # The log grows meanwhile: nobody who writes waits until all of it was read.
        return held is not None and await trio.to_thread.run_sync(held.is_there)

    def note(self, event: Trace) -> None:
        """Take a trace event; a lean log leaves most of them out and thins usage."""
        for watcher in self._watchers:
            watcher(event)
        if self._lean and isinstance(event, _LEAN_DROPS):
            return
        now_ms = self._clock.now_ms()
        if self._lean and isinstance(event, UsageReported):
            if now_ms < self._usage_due_ms.get(event.attempt, 0):
                self._held_usage[event.attempt] = event
                return
            self._usage_due_ms[event.attempt] = now_ms + _USAGE_INTERVAL_MS
            self._held_usage.pop(event.attempt, None)
        self._buffer.append((now_ms, event))
        self._noted.set()

    async def flush(self) -> None:
        """Write everything that is buffered or held back, and make it durable.

        Raises:
            LogWriteError: as for `append`.
        """
        self._release_usage(list(self._held_usage))
        if self._buffer or self._failure is not None:
            await self._write((), durable=True)

    async def write_traces(self) -> None:
        """Write noted traces a moment after the first of them; wait without a timer for more.

        A failure is kept for the next `append`, which is where the run can hear of it.
        """
        while True:
            await self._noted.wait()
            await trio.sleep(_TRACE_DELAY_S)
            self._noted = trio.Event()
            try:
                await self._write((), durable=False)
            except LogWriteError as error:
                _log.error("%s", error)
                return

    async def _write(self, events: Sequence[Event], *, durable: bool) -> None:
        async with self._lock:
            if self._failure is not None:
                raise self._failure
            logged = self._number(events)
            if not logged and not durable:
                return
            data = b"".join(
                encode_event(event, seq=seq, run=self._run, at_ms=at_ms)
                for seq, at_ms, event in logged
            )
            with trio.CancelScope(shield=True):
                try:
                    await trio.to_thread.run_sync(lambda: self._file.write(data, durable=durable))
                except LogWriteError as error:
                    self._failure = error
                    raise
            self._next_seq += len(logged)
            self._show(logged)

    def _number(self, events: Sequence[Event]) -> list[Logged]:
        """Take the buffer and give it, then `events`, their places in the log."""
        settled = [event.attempt for event in events if isinstance(event, AttemptSettled)]
        self._release_usage(settled)
        for attempt in settled:
            self._usage_due_ms.pop(attempt, None)
        now_ms = self._clock.now_ms()
        timed: list[tuple[int, Event]] = [*self._buffer, *((now_ms, event) for event in events)]
        self._buffer = []
        return [
            Logged(seq, at_ms, event) for seq, (at_ms, event) in enumerate(timed, self._next_seq)
        ]

    def _release_usage(self, attempts: Iterable[AttemptId]) -> None:
        """Put the last usage of `attempts`, if it was held back, into the buffer."""
        for attempt in attempts:
            held = self._held_usage.pop(attempt, None)
            if held is not None:
                self._buffer.append((self._clock.now_ms(), held))

    def _show(self, logged: Sequence[Logged]) -> None:
        for consumer in tuple(self._consumers):
            try:
                for each in logged:
                    consumer(each)
            except Exception:  # noqa: BLE001  (a viewer's fault must never break a run)
                _log.exception("a consumer of run %s's events failed and was dropped", self._run)
                self.unsubscribe(consumer)
