"""Starts again what was lost with the process that carried it out, and all that depends on it."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import trio

from engine.core.errors import ConflictError
from engine.core.events import Decision
from engine.core.graph import TaskGraph
from engine.core.ids import TaskId
from engine.core.recovery import recover, state_after
from engine.core.repair import settled_ms
from engine.core.rerun import lost_tasks, refusal, rerun_events
from engine.core.spec import Kind
from engine.core.state import RunState
from pinata.work.context import Context
from pinata.work.history import StoredRun
from pinata.work.places import Places
from pinata.work.resumption import take_up
from worktrees.discovery import discover
from worktrees.root import find_root


class RerunRefusedError(ConflictError):
    """Nothing of the run is started again as it stands; nothing was recorded."""


async def rerun(context: Context, stored: StoredRun) -> None:
    """Start the lost tasks of a run and all that depends on them again, and carry it to its end.

    The run may be of an earlier session. One whose owner died is closed on the way, as `resume`
    does.

    Args:
        context: the caller's.
        stored: the run, taken over by this process, so that nothing of a lost attempt goes on.

    Raises:
        RerunRefusedError: the rules do not allow it.
        ReplacedWorktreeError: something else stands where a worktree has to be removed.
        PinataError: the run cannot go on here.
    """
    graph = TaskGraph.build(stored.spec.tasks)
    found = recover(graph, stored.history, reason=f"taken over by {context.holder}")

    def start_again(state: RunState) -> Sequence[Decision]:
        _refuse(context, stored, state)
        return rerun_events(state)

    closing = found.events([None] * len(found.lost))
    state = state_after(graph, (*stored.history, *closing))
    # Now, before anything is prepared, and again when it is known which results were saved in time.
    _refuse(context, stored, state)
    await _ensure_in_place(context, stored, lost_tasks(state))
    await take_up(context, stored, graph, found, start_again)


def _refuse(context: Context, stored: StoredRun, state: RunState) -> None:
    limits = stored.spec.config.limits
    reason = refusal(state, limits.cost_usd)
    if reason is not None:
        raise RerunRefusedError(reason)
    rested = settled_ms(stored.timed_history, context.clock.now_ms())
    if stored.record.deadline_at_ms + rested <= context.clock.now_ms():
        raise RerunRefusedError(
            f"the run has used up its {limits.job_ms} ms, so nothing of it is started again: start "
            "a new run"
        )


async def _ensure_in_place(context: Context, stored: StoredRun, lost: Iterable[TaskId]) -> None:
    """Make sure that the worktrees which are about to be removed are the engine's own."""
    repository = await discover(Path(stored.record.root), context.environment)
    places, folder = Places.of(repository, context.environment), stored.folder
    writers = [name for name in lost if stored.spec.task(name).kind is Kind.WRITER]

    def look() -> None:
        for name in writers:
            find_root(folder.index_file(name), places.worktree(folder.run, name))

    await trio.to_thread.run_sync(look)
