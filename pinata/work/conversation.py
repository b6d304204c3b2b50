"""What was said in an attempt at a task, for people."""

from collections.abc import Collection

from agents.transcript import SaidMessage, read_transcript
from engine.core.errors import UsageError
from engine.core.ids import AttemptId, TaskId
from engine.core.view import RunView
from engine.store import RunFolder
from pinata.work.unknown_task import UnknownTaskError


def read_conversation(
    folder: RunFolder,
    tasks: Collection[TaskId],
    view: RunView,
    task: TaskId,
    attempt: int | None,
) -> tuple[SaidMessage, ...]:
    """Return all that was said in an attempt at a task, the newest one without a number; blocks.

    Args:
        folder: the run's.
        tasks: of the run.
        view: how the run stands.
        task: the one that is asked for.
        attempt: its number.

    Raises:
        UsageError: there is no such task or attempt, or nothing was said in it yet.
        CorruptionError: what is stored is damaged.
    """
    if task not in tasks:
        raise UnknownTaskError(task, tasks)
    seen = view.tasks.get(task)
    newest = 0 if seen is None else seen.attempt
    number = newest if attempt is None else attempt
    try:
        return read_transcript(folder.transcript_file(AttemptId(task, number)))
    except FileNotFoundError as error:
        raise UsageError(_no_conversation(attempt, newest)) from error


def _no_conversation(asked: int | None, newest: int) -> str:
    """Return why there is none of the attempt that was asked for, None being the newest."""
    if asked is None or newest == 0:
        return "there is no conversation of the task: no agent has started"
    if 1 <= asked <= newest:
        return f"there is no conversation of attempt {asked}: its agent has not started"
    there = "attempt 1 alone" if newest == 1 else f"attempts 1 to {newest}"
    return f"there is no attempt {asked} at the task: it has {there}"
