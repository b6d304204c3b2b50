"""Has a settled writer mend its change, and everything that judged it judge anew."""

from engine.core.errors import ConflictError
from engine.core.graph import TaskGraph
from engine.core.ids import TaskId
from engine.core.recovery import recover, state_after
from engine.core.repair import RepairRules, refusal, repair_events, settled_ms
from pinata.work.context import Context
from pinata.work.history import StoredRun
from pinata.work.resumption import take_up
from pinata.work.unknown_task import UnknownTaskError


class RepairRefusedError(ConflictError):
    """The task cannot be repaired as the run stands; nothing was recorded."""


async def repair(context: Context, stored: StoredRun, name: str, feedback: str) -> None:
    """Open a writer and all that depends on it once more, and carry the run to its end.

    The run may be of an earlier session. One whose owner died is closed on the way, as `resume`
    does.

    Args:
        context: the caller's.
        stored: the run, taken over by this process.
        name: the id of the task.
        feedback: what is to be mended.

    Raises:
        UsageError: the run has no such task.
        RepairRefusedError: the rules do not allow it.
        PinataError: the run cannot go on here.
    """
    kinds = {task.id: task.kind for task in stored.spec.tasks}
    task = TaskId(name)
    if task not in kinds:
        raise UnknownTaskError(name, kinds)
    graph = TaskGraph.build(stored.spec.tasks)
    found = recover(graph, stored.history, reason=f"taken over by {context.holder}")
    closing = found.events([None] * len(found.lost))
    state = state_after(graph, (*stored.history, *closing))
    limits = stored.spec.config.limits
    reason = refusal(state, RepairRules(kinds, limits.repairs), task, feedback)
    if reason is not None:
        raise RepairRefusedError(reason)
    rested = settled_ms(stored.timed_history, context.clock.now_ms())
    if stored.record.deadline_at_ms + rested <= context.clock.now_ms():
        raise RepairRefusedError(
            f"task {task} cannot be repaired, since the run has used up its {limits.job_ms} ms: "
            "start a new run"
        )
    await take_up(context, stored, graph, found, lambda now: repair_events(now, task, feedback))
