"""Folds one event into the state of a run. What to do about it is decided elsewhere."""

from typing import assert_never

from engine.core.cost import is_over
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    CancelRequested,
    CheckEnded,
    CheckoutChanged,
    CheckStarted,
    ContextCompacted,
    CostLimitPassed,
    Event,
    MessageEnded,
    ModelThrottled,
    RepairRequested,
    RepairStarted,
    RerunRequested,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    RunStarted,
    SteerDelivered,
    TaskQueued,
    TelemetryReported,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status, Stop, StopCause, Unstarted
from engine.core.state import RunState, TaskState, downstream
from engine.core.stop_order import StopOrder, ordered_stop


def reduce(state: RunState, event: Event) -> bool:
    """Change `state` as `event` says and return whether the event was news.

    Every event is accepted in every state. One that comes late, twice or for a task that the graph
    does not have changes nothing and is not worth recording.
    """
    match event:
        case RunStarted() | RunResumed() | RunSettled():
            return _move_run(state, event)
        case CancelRequested() | RunDeadlinePassed() | CostLimitPassed():
            return _order_stop(state, event)
        case TaskQueued() | RepairRequested() | RerunRequested():
            return _open_task(state, event)
        case AttemptStarted() | RepairStarted():
            return _begin(state, event)
        case AttemptStopping(attempt=attempt, stop=stop):
            return _announce_stop(state, attempt, stop)
        case AttemptSettled(attempt=attempt, outcome=outcome):
            return _settle(state, attempt, outcome)
        case UsageReported(attempt=attempt, cost_usd=cost_usd):
            return _spend(state, attempt, cost_usd)
        case CheckStarted() | CheckEnded() | CheckoutChanged() | SteerDelivered():
            return state.is_running(event.attempt)
        case (
            TurnStarted()
            | TextDelta()
            | ThinkingDelta()
            | MessageEnded()
            | ToolStarted()
            | ToolUpdated()
            | ToolEnded()
            | TelemetryReported()
            | ModelThrottled()
            | ContextCompacted()
        ):
            return False
        case _:
            assert_never(event)


def _move_run(state: RunState, event: RunStarted | RunResumed | RunSettled) -> bool:
    match event:
        case RunStarted():
            news, state.started = not state.started, True
            return news
        case RunResumed():
            if state.settled is not None:
                # A settled run that goes on does so by somebody's wish: what ended it is over.
                state.settled = state.stop = None
            state.started = True
            return True
        case RunSettled(status=status):
            if state.settled is not None or state.unsettled:
                return False
            state.settled = status
            state.reopening.clear()
            return True
        case _:
            assert_never(event)


def _open_task(state: RunState, event: TaskQueued | RepairRequested | RerunRequested) -> bool:
    match event:
        case TaskQueued(task=task):
            return _queue(state, task)
        case RepairRequested(task=task):
            return _request_repair(state, task)
        case RerunRequested(tasks=tasks):
            queued = [name for name in tasks if _is_final(state, name) and _queue(state, name)]
            return bool(queued)
        case _:
            assert_never(event)


def _queue(state: RunState, name: TaskId) -> bool:
    """Queue a task for the first time, or once more after it had settled."""
    task = state.tasks.get(name)
    if task is None or state.settled is not None:
        return False
    if task.queued and not task.status.is_final:
        return False
    if task.status.is_final:
        state.unsettled += 1
    if task.status is Status.SUCCEEDED:
        for dependent in state.graph.dependents[name]:
            state.tasks[dependent].waiting += 1
            state.ready.discard(dependent)
    state.reopening.pop(name, None)
    task.queued, task.status, task.lost = True, Status.QUEUED, False
    for dependent in state.graph.dependents[name]:
        _reconsider(state, dependent)
    spoiled = next(filter(state.is_spoiled, state.graph.predecessors[name]), None)
    if state.stop is not None:
        _end_one(state, name, state.stop)
    elif spoiled is not None:
        _block(state, name, spoiled)
    elif not task.waiting:
        state.ready.add(name)
    return True


def _reconsider(state: RunState, name: TaskId) -> None:
    """Let a task wait on that was about to be blocked, unless another predecessor blocks it."""
    unstarted = state.doomed.get(name)
    if unstarted is None or unstarted.status is not Status.BLOCKED:
        return
    del state.doomed[name]
    spoiled = next(filter(state.is_spoiled, state.graph.predecessors[name]), None)
    if spoiled is not None:
        _block(state, name, spoiled)


def _request_repair(state: RunState, name: TaskId) -> bool:
    """Note that a final task and all that depend on it are about to be queued."""
    task = state.tasks.get(name)
    if task is None or state.settled is not None:
        return False
    if not task.status.is_final or name in state.reopening:
        return False
    task.in_repair = True
    for each in (name, *downstream(state.graph, name)):
        if state.tasks[each].status.is_final:
            state.reopening[each] = None
    return True


def _begin(state: RunState, event: AttemptStarted | RepairStarted) -> bool:
    match event:
        case AttemptStarted(attempt=attempt):
            return _start(state, attempt)
        case RepairStarted(attempt=attempt):
            return _count_repair(state, attempt)
        case _:
            assert_never(event)


def _count_repair(state: RunState, attempt: AttemptId) -> bool:
    if not state.is_running(attempt) or not state.tasks[attempt.task].in_repair:
        return False
    task = state.tasks[attempt.task]
    task.repairs, task.in_repair = task.repairs + 1, False
    return True


def _start(state: RunState, attempt: AttemptId) -> bool:
    task = state.tasks.get(attempt.task)
    if task is None or not _is_waiting(task) or attempt.number <= task.number:
        return False
    task.spent_before_usd = state.spent_usd
    task.status, task.number = Status.RUNNING, attempt.number
    state.ready.discard(attempt.task)
    state.doomed.pop(attempt.task, None)
    state.running[attempt.task] = attempt
    if state.stop is not None:
        state.to_stop[attempt.task] = state.stop
    return True


def _announce_stop(state: RunState, attempt: AttemptId, stop: Stop) -> bool:
    if not state.is_running(attempt) or state.stop_of(attempt) is not None:
        return False
    state.to_stop.pop(attempt.task, None)
    state.tasks[attempt.task].stop = stop
    return True


def _settle(state: RunState, attempt: AttemptId, outcome: AttemptOutcome) -> bool:
    name, task = attempt.task, state.tasks.get(attempt.task)
    if task is None or not outcome.status.is_final:
        return False
    if not (state.is_running(attempt) if attempt.number else _is_waiting(task)):
        return False
    state.settled_usd += max(state.spending.pop(name, 0.0), outcome.cost_usd)
    task.status, task.stop, task.lost = outcome.status, None, outcome.is_lost
    state.unsettled -= 1
    for places in (state.running, state.to_stop, state.doomed):
        places.pop(name, None)
    state.ready.discard(name)
    for dependent in state.graph.dependents[name]:
        if outcome.status is Status.SUCCEEDED:
            _release(state, dependent)
        else:
            _block(state, dependent, name)
    return True


def _release(state: RunState, name: TaskId) -> None:
    """Count one predecessor of `name` as succeeded, which makes it ready after the last one."""
    task = state.tasks[name]
    task.waiting -= 1
    if not task.waiting and _is_waiting(task) and name not in state.doomed:
        state.ready.add(name)


def _block(state: RunState, name: TaskId, by: TaskId) -> None:
    status = state.tasks[by].status.value
    _doom(state, Unstarted(name, Status.BLOCKED, f"predecessor '{by}' ended {status}"))


def _doom(state: RunState, unstarted: Unstarted) -> None:
    """Mark a waiting task to settle without being started; the first reason stays."""
    if _is_waiting(state.tasks[unstarted.task]):
        state.doomed.setdefault(unstarted.task, unstarted)
        state.ready.discard(unstarted.task)


def _is_final(state: RunState, name: TaskId) -> bool:
    task = state.tasks.get(name)
    return task is not None and task.status.is_final


def _is_waiting(task: TaskState) -> bool:
    return task.queued and task.status is Status.QUEUED


def _order_stop(state: RunState, event: StopOrder) -> bool:
    stop = ordered_stop(event)
    match event:
        case CancelRequested(task=task) if task is not None:
            return _end_one(state, task, stop)
        case CostLimitPassed(limit_usd=limit_usd):
            _end_overspenders(state, limit_usd)
    return _end_all(state, stop)


def _end_all(state: RunState, stop: Stop) -> bool:
    if state.stop is not None or state.settled is not None:
        return False
    state.stop = stop
    for name in state.graph.order:
        _end_one(state, name, stop)
    return True


def _end_one(state: RunState, name: TaskId, stop: Stop) -> bool:
    task = state.tasks.get(name)
    if task is None or name in state.doomed or name in state.to_stop or task.stop is not None:
        return False
    if _is_waiting(task):
        _doom(state, Unstarted(name, Status.CANCELLED, stop.reason))
        return True
    if task.status is Status.RUNNING:
        state.to_stop[name] = stop
        return True
    return False


def _end_overspenders(state: RunState, limit_usd: float) -> None:
    """End attempts that alone spent more than was left when they started: they have failed."""
    if state.stop is not None or state.settled is not None:
        return
    for name, spent_usd in state.spending.items():
        left_usd = limit_usd - state.tasks[name].spent_before_usd
        if is_over(spent_usd, left_usd):
            reason = f"cost limit: {spent_usd:g} USD spent where {left_usd:g} USD were left"
            _end_one(state, name, Stop(StopCause.TASK_COST, reason))


def _spend(state: RunState, attempt: AttemptId, cost_usd: float | None) -> bool:
    """Note what an attempt has spent so far; the numbers of one attempt never go down."""
    if cost_usd is None or not state.is_running(attempt):
        return False
    if cost_usd <= state.spending.get(attempt.task, 0.0):
        return False
    state.spending[attempt.task] = cost_usd
    return True
