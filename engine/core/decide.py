"""Decides what a run does next: no clock, no chance, and ties break by the order of the graph."""

from engine.core.commands import (
    Command,
    SettleRun,
    SettleUnstarted,
    StartAttempt,
    StopAttempt,
    StopSpending,
)
from engine.core.cost import is_over
from engine.core.ids import AttemptId
from engine.core.limiter import Room
from engine.core.outcome import Status, StopCause
from engine.core.spec import Limits
from engine.core.state import RunState

_NAMED_TASKS = 5


def decide(state: RunState, limits: Limits, room: Room) -> list[Command]:
    """Return what to do now; call again after folding the announcements, until nothing is left.

    What one call settles may block further tasks, so a chain of a thousand takes a thousand calls;
    each costs only what it returns.

    Args:
        state: where the run stands; it is not changed.
        limits: `concurrency` and `cost_usd` count here.
        room: what other runs leave, for every provider that a ready task waits for.
    """
    if not state.started or state.settled is not None:
        return []
    if _is_overspent(state, limits):
        assert limits.cost_usd is not None
        return [StopSpending(limits.cost_usd, state.spent_usd)]
    commands: list[Command] = [
        StopAttempt(state.running[task], stop) for task, stop in state.to_stop.items()
    ]
    if state.doomed:
        commands.append(SettleUnstarted(tuple(state.doomed.values())))
    most = max(0, limits.concurrency - len(state.running))
    commands.extend(
        StartAttempt(AttemptId(task, state.tasks[task].number + 1))
        for task in state.ready.first(most, room)
    )
    if not state.unsettled:
        commands.append(_settlement(state))
    return commands


def _is_overspent(state: RunState, limits: Limits) -> bool:
    return (
        limits.cost_usd is not None
        and state.stop is None
        and is_over(state.spent_usd, limits.cost_usd)
    )


def _settlement(state: RunState) -> SettleRun:
    """Return how a run ends whose tasks are all final; a late cancel takes no success away."""
    lacking = [name for name in state.graph.order if state.is_spoiled(name)]
    if not lacking:
        return SettleRun(Status.SUCCEEDED, None)
    if state.stop is not None:
        deadline = state.stop.cause is StopCause.RUN_DEADLINE
        return SettleRun(Status.FAILED if deadline else Status.CANCELLED, state.stop.reason)
    named = ", ".join(
        f"'{name}' {state.tasks[name].status.value}" for name in lacking[:_NAMED_TASKS]
    )
    more = "" if len(lacking) <= _NAMED_TASKS else ", ..."
    count = f"{len(lacking)} of {len(state.tasks)} tasks did not succeed"
    return SettleRun(Status.FAILED, f"{count}: {named}{more}")
