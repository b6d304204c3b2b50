"""How somebody asks a run, or a task of it, to end, and hears what came of that."""

from collections.abc import Callable

import trio

from engine.core.errors import ConflictError
from engine.core.ids import RunId, TaskId
from engine.core.outcome import Status
from pinata.work.observer import OpenedRun
from pinata.work.unknown_task import UnknownTaskError

Standing = Callable[[TaskId | None], Status]


async def ask_end(
    run: OpenedRun, reason: str, task: TaskId | None, *, standing: Standing, is_over: trio.Event
) -> bool:
    """Ask for the end of a run, or of one task; return whether it has come already.

    What was asked is durable then. An agent at work needs a moment to end.

    Args:
        run: in the hands of this process.
        reason: for its records.
        task: None for the whole run.
        standing: tells how a task stands now, or with None the run.
        is_over: set once nothing is heard of the run any more, however it ended.

    Raises:
        UsageError: the run has no such task.
        ConflictError: the run, or the task, has settled.
    """
    if task is not None and task not in run.agents:
        raise UnknownTaskError(task, run.agents)
    _refuse_settled(run.id, task, standing(task))
    async with trio.open_nursery() as nursery:
        # A run that breaks off hears nothing any more.
        nursery.start_soon(_cancel_when_over, is_over, nursery.cancel_scope)
        await run.record_cancel(reason, task)
        nursery.cancel_scope.cancel()
    status = standing(task)
    if status is Status.CANCELLED:
        return True
    _refuse_settled(run.id, task, status)
    return False


async def _cancel_when_over(is_over: trio.Event, scope: trio.CancelScope) -> None:
    await is_over.wait()
    scope.cancel()


def _refuse_settled(run: RunId, task: TaskId | None, status: Status) -> None:
    if status.is_final:
        raise settled_error(run, task, status)


def settled_error(run: RunId, task: TaskId | None, status: Status) -> ConflictError:
    """Return the refusal to end what has settled."""
    what = f"run {run}" if task is None else f"task '{task}'"
    return ConflictError(f"{what} is {status.value} already: there is nothing to cancel")
