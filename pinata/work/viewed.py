"""A run as its viewers reach it: through whoever owns it, else as it lies on disk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import trio

from agents.transcript import SaidMessage
from engine.core.errors import ConflictError, PinataError
from engine.core.events import RunSettled
from engine.core.ids import TaskId
from engine.core.view import RunView
from engine.logreader import replay
from engine.store import RunFolder, list_runs, resolve_run
from pinata.work.conversation import read_conversation
from pinata.work.history import find_run, read_record, started_at_ms
from pinata.work.observer import Observer, OpenedRun


class Source(Protocol):
    """Where a viewer hears of a run, and how it speaks to it."""

    async def watch(self, observer: Observer) -> None:
        """Tell all that happens; return when the run has settled and all was told.

        Raises:
            PinataError: nothing more can be heard of it, though it has not settled.
        """
        ...

    async def wait_reopened(self) -> None:
        """Return once a run that has settled goes on, so that it can be watched again.

        Raises:
            PinataError: nothing of that could be heard from here.
        """
        ...

    async def steer(self, task: TaskId, text: str, *, follow_up: bool) -> None:
        """Leave a message of the user for the agent of a task."""
        ...

    async def cancel(self, task: TaskId | None = None) -> bool:
        """Ask the run, or one task of it, to end; True when it has ended already."""
        ...

    async def messages(self, task: TaskId, attempt: int | None) -> Sequence[SaidMessage]:
        """Return what was said in an attempt, the newest one without a number."""
        ...


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A run that only its folder tells of; nothing happens in it.

    Attributes:
        reason: why nothing can be asked of it.
        opened: the run as it was found.
        last_at_ms: when the newest event of it was written, epoch milliseconds.
    """

    folder: RunFolder
    reason: str
    opened: OpenedRun
    last_at_ms: int

    @property
    def has_settled(self) -> bool:
        """Whether nothing of the run is left to be done."""
        return self.opened.view.settled_at_ms is not None

    def because(self, reason: str) -> "StoredSource":
        """Return the same, with another reason."""
        return replace(self, reason=reason)

    async def watch(self, observer: Observer) -> None:
        """Tell how the run stands."""
        observer.run_opened(self.opened)
        await trio.lowlevel.checkpoint()

    async def wait_reopened(self) -> None:
        """Refuse.

        Raises:
            ConflictError: always.
        """
        raise ConflictError(self.reason)

    async def steer(self, task: TaskId, text: str, *, follow_up: bool) -> None:
        """Refuse.

        Raises:
            ConflictError: always.
        """
        raise ConflictError(self.reason)

    async def cancel(self, task: TaskId | None = None) -> bool:
        """Refuse.

        Raises:
            ConflictError: always.
        """
        raise ConflictError(self.reason)

    async def messages(self, task: TaskId, attempt: int | None) -> Sequence[SaidMessage]:
        """Return what was said in an attempt, the newest one without a number.

        Raises:
            UsageError: nothing was said in it yet.
            CorruptionError: what is stored of it is damaged.
        """
        return await trio.to_thread.run_sync(
            read_conversation, self.folder, self.opened.after, self.opened.view, task, attempt
        )


def read_source(folder: RunFolder) -> StoredSource:
    """Return the run in `folder` as it lies there, as if it had settled; blocks.

    Raises:
        CorruptionError: its record or its log is damaged.
    """
    record, view = read_record(folder), RunView()
    last_at_ms = record.started_at_ms
    for logged in replay(folder.events_file, folder.run):
        view.apply(*logged)
        last_at_ms = logged.at_ms
    tasks = record.request().tasks
    opened = OpenedRun(
        id=folder.run,
        folder=folder.path,
        started_at_ms=record.started_at_ms,
        agents={task.id: task.agent for task in tasks},
        after={task.id: task.after for task in tasks},
        view=view,
        notices=record.notices,
    )
    return StoredSource(folder, f"run {folder.run} has settled", opened, last_at_ms)


def find_viewed(common_dir: Path, prefix: str | None) -> RunFolder | None:
    """Return the run that `prefix` names, or without one the latest that has not settled.

    Where all have settled it is the latest of all; None when there is none. Blocks. A damaged run
    hides no other.

    Raises:
        UsageError: no run has such an id, or several do.
        CorruptionError: every run is damaged.
    """
    if prefix is not None:
        return resolve_run(common_dir, prefix)
    found: list[tuple[int, RunFolder]] = []
    for run in list_runs(common_dir):
        try:
            folder = resolve_run(common_dir, run)
            found.append((started_at_ms(folder), folder))
        except PinataError:
            # Whoever asks for this one by name is told what is wrong with it.
            continue
    if not found:
        return find_run(common_dir, None)
    latest_first = [folder for _, folder in sorted(found, key=lambda each: -each[0])]
    return next((each for each in latest_first if not _has_settled(each)), latest_first[0])


def _has_settled(folder: RunFolder) -> bool:
    try:
        events = replay(folder.events_file, folder.run)
    except PinataError:
        # Nothing more can come of a damaged one.
        return True
    return bool(events) and isinstance(events[-1].event, RunSettled)
