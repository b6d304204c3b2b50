"""Prints a run's event log, and follows one that still grows."""

from argparse import Namespace
from collections.abc import Callable, Iterable

import trio

from engine.core.errors import UsageError
from engine.core.events import RunSettled
from engine.core.ids import TaskId
from engine.core.quote import escape_json
from engine.records.event import Logged, encode_event
from pinata import app
from pinata.faces.event_text import log_line
from pinata.work.context import Context
from pinata.work.history import StoredRun
from pinata.work.unknown_task import UnknownTaskError

_LOOK_AGAIN_S = 0.25


async def show_log(context: Context, given: Namespace, show: Callable[[str], bool]) -> None:
    """Show the events of a run, or of one task of it, oldest first.

    With `--follow`, go on until the run has settled; it may be resumed meanwhile. When `show` says
    that nobody reads any more, it is over at once.

    Raises:
        UsageError: there is no such run, or it has no such task.
    """
    stored = await _read(context, given.run)
    seen = 0
    while True:
        text = "".join(f"{line}\n" for line in _lines(stored, stored.events[seen:], given))
        if text and not await trio.to_thread.run_sync(show, text, abandon_on_cancel=True):
            return
        if not given.follow or _has_settled(stored):
            return
        seen = len(stored.events)
        while len(stored.events) == seen:
            # A log of another process tells nobody that it grew.
            await trio.sleep(_LOOK_AGAIN_S)
            stored = await _read(context, stored.folder.run)


async def _read(context: Context, prefix: str | None) -> StoredRun:
    stored = await app.read_stored(context, prefix)
    if stored is None:
        raise UsageError("there are no runs yet")
    return stored


def _has_settled(stored: StoredRun) -> bool:
    return bool(stored.events) and isinstance(stored.events[-1].event, RunSettled)


def _lines(stored: StoredRun, events: Iterable[Logged], given: Namespace) -> Iterable[str]:
    agents = {task.id: task.agent for task in stored.spec.tasks}
    if given.task is not None and given.task not in agents:
        raise UnknownTaskError(given.task, agents)
    for logged in events:
        if given.task is not None and _task_of(logged) != given.task:
            continue
        if given.json:
            line = encode_event(
                logged.event, seq=logged.seq, run=stored.folder.run, at_ms=logged.at_ms
            )
            yield escape_json(line.decode()).rstrip("\n")
        elif (shown := log_line(logged, stored.record.started_at_ms, agents)) is not None:
            yield shown


def _task_of(logged: Logged) -> TaskId | None:
    attempt = getattr(logged.event, "attempt", None)
    if attempt is not None:
        return TaskId(attempt.task)
    return getattr(logged.event, "task", None)
