"""Whether a settled writer may be repaired, what that reopens, and what it does to the job clock.

Pure: values in, a sentence, events or a number out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.core.events import (
    Decision,
    Event,
    RepairRequested,
    RunResumed,
    RunSettled,
    TaskQueued,
)
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.core.reopening import why_stopped
from engine.core.spec import Kind
from engine.core.state import RunState, downstream

_REPAIRABLE = frozenset(
    {Status.SUCCEEDED, Status.FAILED, Status.REJECTED, Status.BLOCKED, Status.UNCERTAIN}
)


@dataclass(frozen=True, slots=True)
class RepairRules:
    """What of a run's request decides about repairs.

    Attributes:
        kinds: of every task.
        most: how often one task may be repaired.
    """

    kinds: Mapping[TaskId, Kind]
    most: int


def refusal(state: RunState, rules: RepairRules, task: TaskId, feedback: str) -> str | None:
    """Return why `task`, which is one of the run's, cannot be repaired now; None when it can.

    The sentence names the task and the rule, and says what to do instead.
    """
    if not feedback.strip():
        return f"task {task}: a repair needs feedback that says what to mend"
    kind = rules.kinds[task]
    if kind is not Kind.WRITER:
        return f"task {task} is a {kind.value}'s, and repair is for builders: start a new run"
    return (
        why_stopped(state, "repaired")
        or _unfit(state, task)
        or _used_up(state, rules, task)
        or _built_upon(state, rules, task)
    )


def _unfit(state: RunState, task: TaskId) -> str | None:
    status = state.tasks[task].status
    if not status.is_final:
        return f"task {task} is {status.value} and cannot be repaired yet: wait for its end"
    if status not in _REPAIRABLE:
        return f"task {task} was {status.value}, which no repair mends: start a new run"
    if not state.tasks[task].number:
        spoilers = [name for name in state.graph.predecessors[task] if state.is_spoiled(name)]
        others = " and ".join(spoilers) or "what it waits for"
        return f"task {task} was never started and has nothing to repair: repair {others}"
    return None


def _used_up(state: RunState, rules: RepairRules, task: TaskId) -> str | None:
    used = state.tasks[task].repairs
    if used < rules.most:
        return None
    times = "once" if used == 1 else f"{used} times"
    return f"task {task} was repaired {times} and limits.repairs is {rules.most}: start a new run"


def _built_upon(state: RunState, rules: RepairRules, task: TaskId) -> str | None:
    below = downstream(state.graph, task)
    for name in below:
        if state.tasks[name].status is Status.RUNNING:
            return (
                f"task {task} cannot be repaired while task {name}, which depends on it, is "
                f"running: cancel {name} first, or wait for its end"
            )
    for name in below:
        if state.tasks[name].number and rules.kinds[name] is not Kind.REVIEWER:
            return (
                f"task {name} has worked with the result of task {task}, which therefore cannot "
                "be repaired any more: start a new run"
            )
    return None


def repair_events(state: RunState, task: TaskId, feedback: str) -> tuple[Decision, ...]:
    """Return the events that reopen `task` and all its dependents, if nothing refuses it."""
    resumed = () if state.settled is None else (RunResumed(f"repair of {task}"),)
    reopened = {task, *downstream(state.graph, task)}
    queued = (TaskQueued(name) for name in state.graph.order if name in reopened)
    return (*resumed, RepairRequested(task, feedback), *queued)


def feedbacks(events: Iterable[Event]) -> dict[TaskId, str]:
    """Return what was asked for in the newest repair of each task that has one."""
    return {each.task: each.feedback for each in events if isinstance(each, RepairRequested)}


def settled_ms(logged: Iterable[tuple[int, Event]], now_ms: int) -> int:
    """Return for how long a run was settled, up to `now_ms`: so long its job clock stood still.

    Args:
        logged: the events of its log with their times in epoch milliseconds.
        now_ms: epoch milliseconds.
    """
    return sum(max(0, end - start) for start, end in _rests(logged, now_ms))


def _rests(logged: Iterable[tuple[int, Event]], now_ms: int) -> Iterator[tuple[int, int]]:
    since: int | None = None
    for at_ms, event in logged:
        match event:
            case RunSettled():
                since = at_ms
            case RunResumed() if since is not None:
                yield since, at_ms
                since = None
            case _:
                pass
    if since is not None:
        yield since, now_ms
