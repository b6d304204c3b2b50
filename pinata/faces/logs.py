"""Prints a run's event log, and follows one that still grows."""

from argparse import Namespace
from collections.abc import Callable, Collection, Iterable
from functools import partial

import trio

from engine.core.errors import UsageError
from engine.core.events import RerunRequested, RunSettled
from engine.core.ids import TaskId
from engine.core.quote import escape_json
from engine.logreader import LogReader
from engine.records.event import Logged, encode_event
from engine.store import RunFolder
from pinata.faces.event_text import log_line
from pinata.work.context import Context
from pinata.work.history import read_record
from pinata.work.lookup import find_latest
from pinata.work.unknown_task import UnknownTaskError

_LOOK_AGAIN_S = 0.25


class LogPrinter:
    """Prints each event of one log once, as it comes to be there; blocks wherever it is asked."""

    def __init__(self, folder: RunFolder, given: Namespace, show: Callable[[str], bool]) -> None:
        """Begin with nothing printed.

        Args:
            folder: the run's.
            given: `task` limits what is printed to one task, `json` says in which form.
            show: takes lines, and says whether anybody still reads them; may block.

        Raises:
            UsageError: the run has no such task.
            CorruptionError: its record is damaged.
        """
        record = read_record(folder)
        self._run = folder.run
        self._started_at_ms = record.started_at_ms
        self._agents = {task.id: task.agent for task in record.request().tasks}
        if given.task is not None and given.task not in self._agents:
            raise UnknownTaskError(given.task, self._agents)
        self._given = given
        self._show = show
        self._log = LogReader(folder.events_file, folder.run)
        self._next_seq = 0
        self._last: Logged | None = None

    @property
    def has_settled(self) -> bool:
        """Whether the log ends with the run's settlement, as far as it was read."""
        return self._last is not None and isinstance(self._last.event, RunSettled)

    def print_new(self) -> bool:
        """Print what was not printed before; False when nobody reads any more.

        Raises:
            CorruptionError: the log is damaged.
        """
        # A log that had to be read afresh holds what was printed, too.
        events = [each for each in self._log.read().events if each.seq >= self._next_seq]
        if not events:
            return True
        self._last = events[-1]
        self._next_seq = self._last.seq + 1
        text = "".join(f"{line}\n" for line in self._lines(events))
        return not text or self._show(text)

    def _lines(self, events: Iterable[Logged]) -> Iterable[str]:
        for logged in events:
            if self._given.task is not None and self._given.task not in _tasks_of(logged):
                continue
            if self._given.json:
                line = encode_event(logged.event, seq=logged.seq, run=self._run, at_ms=logged.at_ms)
                yield escape_json(line.decode()).rstrip("\n")
            elif (shown := log_line(logged, self._started_at_ms, self._agents)) is not None:
                yield shown


async def show_log(context: Context, given: Namespace, show: Callable[[str], bool]) -> None:
    """Show the events of a run, or of one task of it, oldest first.

    With `--follow`, go on until the run has settled; it may be resumed meanwhile. When `show` says
    that nobody reads any more, it is over at once.

    Raises:
        UsageError: there is no such run, or it has no such task.
        CorruptionError: its record or its log is damaged.
    """
    folder = await find_latest(context, given.run)
    if folder is None:
        raise UsageError("there are no runs yet")
    printer = await trio.to_thread.run_sync(partial(LogPrinter, folder, given, show))
    # A reader that stalls must not keep the command from being interrupted.
    while await trio.to_thread.run_sync(printer.print_new, abandon_on_cancel=True):
        if not given.follow or printer.has_settled:
            return
        # A log of another process tells nobody that it grew.
        await trio.sleep(_LOOK_AGAIN_S)


def _tasks_of(logged: Logged) -> Collection[TaskId]:
    """Return the tasks that an event is about; none where it is about the run."""
    event = logged.event
    if isinstance(event, RerunRequested):
        return event.tasks
    attempt = getattr(event, "attempt", None)
    if attempt is not None:
        return [TaskId(attempt.task)]
    task = getattr(event, "task", None)
    return [] if task is None else [task]
