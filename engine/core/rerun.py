"""Whether tasks of a run were lost, what starting them again reopens, and where that begins.

Pure: values in, a sentence, events or numbers out.
"""

from collections.abc import Iterable

from engine.core.cost import is_over
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Decision,
    Event,
    RepairRequested,
    RerunRequested,
    RunResumed,
)
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.core.quote import name_list
from engine.core.reopening import why_stopped
from engine.core.state import RunState, downstream


def lost_tasks(state: RunState) -> tuple[TaskId, ...]:
    """Return the tasks of which nobody knows what they would have come to, in the graph's order.

    Their newest attempt died with its process, or the engine could not establish how it ended. What
    somebody cancelled is not among them.
    """
    return tuple(
        name
        for name in state.graph.order
        if state.tasks[name].lost or state.tasks[name].status is Status.UNCERTAIN
    )


def refusal(state: RunState, cost_limit_usd: float | None) -> str | None:
    """Return why nothing of a run is started again, None if something is.

    Args:
        state: where the run stands, what its owner left open being closed.
        cost_limit_usd: what all its attempts may spend; None is no limit.
    """
    if (stopped := why_stopped(state, "started again")) is not None:
        return stopped
    if not lost_tasks(state):
        if state.settled is None:
            return "no task of the run was lost: resume the run, which finishes what is left"
        return (
            "no task of the run was lost, so nothing is started again: repair a builder, or start "
            "a new run"
        )
    if cost_limit_usd is not None and is_over(state.spent_usd, cost_limit_usd):
        return (
            f"the run has spent {state.spent_usd:g} USD of its {cost_limit_usd:g} USD, so nothing "
            "of it is started again: start a new run"
        )
    return None


def rerun_events(state: RunState) -> tuple[Decision, ...]:
    """Return the events that start what was lost again, if nothing refuses it.

    Whatever depends on a lost task comes with it, however it had ended. Only what somebody
    cancelled stays cancelled: that it should end was asked for, and still is.
    """
    lost = lost_tasks(state)
    below = downstream(state.graph, *lost)
    reopened = {*lost, *(each for each in below if _is_to_be_done(state, each))}
    resumed = () if state.settled is None else (RunResumed(f"rerun of {name_list(lost)}"),)
    return (*resumed, RerunRequested(tuple(filter(reopened.__contains__, state.graph.order))))


def _is_to_be_done(state: RunState, name: TaskId) -> bool:
    status = state.tasks[name].status
    return status.is_final and status is not Status.CANCELLED


def fresh_starts(events: Iterable[Event]) -> dict[TaskId, int]:
    """Return which tasks begin afresh, with the number of the attempt that they go on from.

    That is 0 where they begin with their base. A task is among them from the rerun that opened it
    to the end of the attempt that this led to. Where a repair was lost, the next attempt repairs
    what there was when the repair was asked for.
    """
    newest: dict[TaskId, int] = {}
    to_mend: dict[TaskId, int] = {}
    fresh: dict[TaskId, int] = {}
    for event in events:
        match event:
            case AttemptStarted(attempt=attempt):
                newest[attempt.task] = attempt.number
            case RepairRequested(task=task):
                to_mend[task] = newest.get(task, 0)
            case RerunRequested(tasks=tasks):
                fresh |= {task: to_mend.get(task, 0) for task in tasks}
            case AttemptSettled(attempt=attempt) if attempt.number:
                fresh.pop(attempt.task, None)
            case _:
                pass
    return fresh
