from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from engine.core.commands import SettleUnstarted, StartAttempt, announcement
from engine.core.decide import decide
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
from engine.core.ids import AttemptId, CheckId, TaskId
from engine.core.outcome import LOST_REASON, AttemptOutcome, Status, Stop, StopCause
from engine.core.recovery import opening_events
from engine.core.reduce import reduce
from engine.core.repair import repair_events
from engine.core.spec import Limits
from engine.core.state import RunState
from tests.support.graphs import graph_of
from tests.support.rooms import ROOMY

A, B, C = TaskId("a"), TaskId("b"), TaskId("c")
GRAPH = graph_of({"a": (), "b": ("a",), "c": ("a", "b"), "d": ()})
SUCCEEDED = AttemptOutcome(Status.SUCCEEDED)
FAILED = AttemptOutcome(Status.FAILED, "gave up")
STOP = Stop(StopCause.CANCEL, "enough")


def state_after(*events: Event) -> RunState:
    state = RunState(GRAPH)
    for event in (*opening_events(GRAPH), *events):
        assert reduce(state, event), event
    return state


def snapshot(state: RunState) -> object:
    return (
        state.started,
        state.settled,
        state.stop,
        {name: replace(task) for name, task in state.tasks.items()},
        list(state.ready),
        list(state.running.items()),
        list(state.doomed.items()),
        list(state.to_stop.items()),
        list(state.reopening),
        state.unsettled,
        dict(state.spending),
        state.settled_usd,
    )


def started(task: TaskId, number: int = 1) -> AttemptStarted:
    return AttemptStarted(AttemptId(task, number))


def settled(task: TaskId, outcome: AttemptOutcome, number: int = 1) -> AttemptSettled:
    return AttemptSettled(AttemptId(task, number), outcome)


DONE = (
    started(A),
    settled(A, SUCCEEDED),
    started(TaskId("d")),
    settled(TaskId("d"), SUCCEEDED),
    started(B),
    settled(B, SUCCEEDED),
    started(C),
    settled(C, SUCCEEDED),
    RunSettled(Status.SUCCEEDED),
)

NO_NEWS: dict[str, tuple[tuple[Event, ...], Event]] = {
    "the run started twice": ((), RunStarted(4)),
    "a task queued twice": ((), TaskQueued(A)),
    "a running task queued": ((started(A),), TaskQueued(A)),
    "an unknown task queued": ((), TaskQueued(TaskId("x"))),
    "a task of a settled run queued": (DONE, TaskQueued(A)),
    "an attempt started twice": ((started(A),), started(A)),
    "an unknown task started": ((), started(TaskId("x"))),
    "an attempt older than the newest started": (
        (started(A), settled(A, FAILED), TaskQueued(A)),
        started(A),
    ),
    "an outcome of an older attempt": (
        (started(A), settled(A, FAILED), TaskQueued(A), started(A, 2)),
        settled(A, SUCCEEDED),
    ),
    "a second outcome": ((started(A), settled(A, FAILED)), settled(A, SUCCEEDED)),
    "an outcome of an unknown task": ((), settled(TaskId("x"), FAILED, 0)),
    "an outcome without a start": ((), settled(A, SUCCEEDED)),
    "an unstarted outcome of a running task": ((started(A),), settled(A, FAILED, 0)),
    "an outcome that is not final": (
        (started(A),),
        settled(A, AttemptOutcome(Status.RUNNING)),
    ),
    "a stop of a task that does not run": ((), AttemptStopping(AttemptId(A, 1), STOP)),
    "a second stop": (
        (started(A), AttemptStopping(AttemptId(A, 1), STOP)),
        AttemptStopping(AttemptId(A, 1), STOP),
    ),
    "a cancel of a stopping task": (
        (started(A), AttemptStopping(AttemptId(A, 1), STOP)),
        CancelRequested("again", A),
    ),
    "a cancel of a task that is about to be stopped": (
        (started(A), CancelRequested("once", A)),
        CancelRequested("again", A),
    ),
    "a cancel of a task that is about to settle": (
        (CancelRequested("once", B),),
        CancelRequested("again", B),
    ),
    "a cancel of a final task": ((started(A), settled(A, FAILED)), CancelRequested("late", A)),
    "a cancel of an unknown task": ((), CancelRequested("what", TaskId("x"))),
    "a second cancel of the run": ((CancelRequested("once"),), CancelRequested("again")),
    "a deadline after a cancel": ((CancelRequested("once"),), RunDeadlinePassed(1)),
    "a cost limit after a cancel": ((CancelRequested("once"),), CostLimitPassed(1, 2)),
    "a cancel of a settled run": (DONE, CancelRequested("late")),
    "a repair in a settled run": (DONE, RepairRequested(A, "mend it")),
    "a repair of a task that is not final": ((started(A),), RepairRequested(A, "mend it")),
    "a repair of an unknown task": ((), RepairRequested(TaskId("x"), "mend it")),
    "a repair asked for twice": (
        (started(A), settled(A, FAILED), RepairRequested(A, "mend it")),
        RepairRequested(A, "mend it"),
    ),
    "a rerun in a settled run": (DONE, RerunRequested((A,))),
    "a rerun of tasks that are not final or not there": (
        (started(A),),
        RerunRequested((A, B, TaskId("x"))),
    ),
    "the start of a repair that nobody asked for": ((started(A),), RepairStarted(AttemptId(A, 1))),
    "the start of a repair twice": (
        (
            started(A),
            settled(A, FAILED),
            RepairRequested(A, "mend it"),
            TaskQueued(A),
            started(A, 2),
            RepairStarted(AttemptId(A, 2)),
        ),
        RepairStarted(AttemptId(A, 2)),
    ),
    "the start of a repair before its attempt": (
        (started(A), settled(A, FAILED), RepairRequested(A, "mend it"), TaskQueued(A)),
        RepairStarted(AttemptId(A, 2)),
    ),
    "a run that settles twice": (DONE, RunSettled(Status.FAILED)),
    "a run that settles while tasks are open": ((), RunSettled(Status.FAILED)),
    "usage of a task that does not run": (
        (),
        UsageReported(AttemptId(A, 1), 1, 0, 0, 0, 1.0),
    ),
    "usage without a price": (
        (started(A),),
        UsageReported(AttemptId(A, 1), 1, 0, 0, 0, None),
    ),
    "usage that goes down": (
        (started(A), UsageReported(AttemptId(A, 1), 2, 0, 0, 0, 0.5)),
        UsageReported(AttemptId(A, 1), 1, 0, 0, 0, 0.2),
    ),
    "a check of an attempt that does not run": (
        (),
        CheckStarted(AttemptId(A, 1), CheckId("lint")),
    ),
    "a steer of an attempt that has settled": (
        (started(A), settled(A, FAILED)),
        SteerDelivered(AttemptId(A, 1), "look", follow_up=False),
    ),
    "a refusal by a provider": ((started(A),), ModelThrottled(AttemptId(A, 1), 1.0)),
    "a compacted conversation": ((started(A),), ContextCompacted(AttemptId(A, 1), 9)),
    "output of a tool": ((started(A),), ToolUpdated(AttemptId(A, 1), "1", "bash", "1 of 2")),
    "what programs use": (
        (started(A),),
        TelemetryReported(AttemptId(A, 1), 1.0, 1, 1, 1, None, None),
    ),
    "text": ((started(A),), TextDelta(AttemptId(A, 1), "hm")),
    "the beginning of a turn": ((started(A),), TurnStarted(AttemptId(A, 1), 1)),
}


@pytest.mark.parametrize(("before", "event"), NO_NEWS.values(), ids=NO_NEWS.keys())
def test_no_news_changes_nothing(before: tuple[Event, ...], event: Event) -> None:
    state = state_after(*before)
    old = snapshot(state)
    assert not reduce(state, event)
    assert snapshot(state) == old


def test_a_task_is_ready_after_its_last_predecessor_succeeded() -> None:
    state = state_after(started(A), settled(A, SUCCEEDED))
    assert list(state.ready) == [TaskId("d"), B]
    for event in (started(B), settled(B, SUCCEEDED)):
        reduce(state, event)
    assert list(state.ready) == [TaskId("d"), C]


def test_what_only_has_to_be_durable_is_news_and_changes_nothing() -> None:
    state = state_after(started(A))
    old = snapshot(state)
    a = AttemptId(A, 1)
    for event in (
        CheckStarted(a, CheckId("lint")),
        CheckEnded(a, CheckId("lint"), passed=True, duration_ms=1),
        CheckoutChanged(a),
        SteerDelivered(a, "look", follow_up=True),
    ):
        assert reduce(state, event)
    assert snapshot(state) == old


def test_a_task_queued_into_a_run_that_is_being_stopped_is_cancelled() -> None:
    state = RunState(GRAPH)
    for event in (RunStarted(4), CancelRequested("enough"), TaskQueued(A)):
        reduce(state, event)
    (settle,) = decide(state, Limits(), ROOMY)
    assert isinstance(settle, SettleUnstarted)
    assert [(each.task, each.status) for each in settle.tasks] == [(A, Status.CANCELLED)]


def test_an_attempt_started_in_a_run_that_is_being_stopped_is_stopped() -> None:
    state = state_after(CancelRequested("enough"), started(A))
    assert state.to_stop == {A: Stop(StopCause.CANCEL, "enough")}
    assert A not in state.doomed


def test_a_late_success_does_not_ready_a_task_that_is_about_to_be_blocked() -> None:
    state = state_after(started(A), CancelRequested("not needed", B), settled(A, SUCCEEDED))
    assert list(state.ready) == [TaskId("d")]


def test_a_reopened_success_makes_its_dependents_wait_again() -> None:
    state = state_after(*DONE)
    for event in repair_events(state, A, "mend it"):
        assert reduce(state, event)
    assert list(state.ready) == [A]
    assert state.settled is None
    assert state.unsettled == 3


def test_a_task_reopened_alone_behind_a_failure_is_blocked_again() -> None:
    state = state_after(started(A), settled(A, FAILED), settled(B, FAILED, 0), TaskQueued(B))
    assert state.doomed[B].reason == "predecessor 'a' ended failed"
    assert list(state.ready) == [TaskId("d")]


def test_a_task_about_to_be_blocked_waits_on_when_its_predecessor_is_repaired_in_time() -> None:
    state = state_after(started(A), settled(A, FAILED))
    assert list(state.doomed) == [B, C]
    for event in repair_events(state, A, "mend it"):
        reduce(state, event)
    assert list(state.doomed) == []
    for event in (started(A, 2), settled(A, SUCCEEDED, 2)):
        assert reduce(state, event)
    assert list(state.ready) == [TaskId("d"), B]


def test_a_task_stays_blocked_by_another_predecessor_when_one_is_repaired() -> None:
    graph = graph_of({"a": (), "b": (), "c": ("a", "b")})
    state = RunState(graph)
    for event in (*opening_events(graph), started(A), started(B), settled(B, FAILED)):
        assert reduce(state, event)
    reduce(state, settled(A, FAILED))
    for event in repair_events(state, A, "mend it"):
        reduce(state, event)
    assert state.doomed[C].reason == "predecessor 'b' ended failed"


def test_resuming_after_a_crash_keeps_the_stop_and_after_a_settlement_forgets_it() -> None:
    state = state_after(CancelRequested("enough"), RunResumed("crash"))
    assert state.stop == Stop(StopCause.CANCEL, "enough")
    for task in ("a", "d", "b", "c"):
        reduce(state, settled(TaskId(task), AttemptOutcome(Status.CANCELLED, "enough"), 0))
    reduce(state, RunSettled(Status.CANCELLED))
    reduce(state, RunResumed("repair"))
    assert state.stop is None


def test_what_every_try_spent_stays_in_the_total() -> None:
    state = state_after(
        started(A),
        UsageReported(AttemptId(A, 1), 1, 0, 0, 0, 0.5),
        settled(A, FAILED),
        TaskQueued(A),
        started(A, 2),
        UsageReported(AttemptId(A, 2), 1, 0, 0, 0, 0.25),
    )
    assert state.spent_usd == 0.75
    assert state.tasks[A].spent_before_usd == 0.5


ATTEMPTS = st.builds(
    AttemptId, st.sampled_from([A, B, C, TaskId("d"), TaskId("x")]), st.integers(0, 2)
)
TASKS = st.sampled_from([A, B, C, TaskId("d"), TaskId("x")])
OUTCOMES = st.builds(
    AttemptOutcome,
    st.sampled_from(Status),
    st.sampled_from(["why", LOST_REASON]),
    cost_usd=st.sampled_from([0.0, 0.3]),
)
STOPS = st.builds(Stop, st.sampled_from(StopCause), st.just("why"))
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(RunStarted, st.just(4)),
    st.builds(TaskQueued, TASKS),
    st.builds(AttemptStarted, ATTEMPTS),
    st.builds(AttemptStopping, ATTEMPTS, STOPS),
    st.builds(AttemptSettled, ATTEMPTS, OUTCOMES),
    st.builds(CancelRequested, st.just("why"), st.none() | TASKS),
    st.builds(RunDeadlinePassed, st.just(5)),
    st.builds(CostLimitPassed, st.just(1.0), st.just(1.5)),
    st.builds(CheckStarted, ATTEMPTS, st.just(CheckId("lint"))),
    st.builds(SteerDelivered, ATTEMPTS, st.just("look"), st.booleans()),
    st.builds(RepairRequested, TASKS, st.just("mend it")),
    st.builds(RepairStarted, ATTEMPTS),
    st.builds(RerunRequested, st.lists(TASKS, max_size=3).map(tuple)),
    st.builds(RunResumed, st.just("why")),
    st.builds(RunSettled, st.sampled_from(Status)),
    st.builds(ThinkingDelta, ATTEMPTS, st.just("hm")),
    st.builds(MessageEnded, ATTEMPTS, st.just("stop")),
    st.builds(ToolStarted, ATTEMPTS, st.just("1"), st.just("read"), st.just("")),
    st.builds(ToolEnded, ATTEMPTS, st.just("1"), st.just("read"), st.booleans()),
    st.builds(ToolUpdated, ATTEMPTS, st.just("1"), st.just("bash"), st.just("1 of 2")),
    st.builds(TelemetryReported, ATTEMPTS, *[st.just(1)] * 4, st.none(), st.none()),
    st.builds(ModelThrottled, ATTEMPTS, st.just(1.0)),
    st.builds(ContextCompacted, ATTEMPTS, st.just(9)),
    st.builds(
        UsageReported,
        ATTEMPTS,
        st.just(1),
        st.just(0),
        st.just(0),
        st.just(0),
        st.sampled_from([None, 0.1, 0.6, 1.2]),
    ),
)
HISTORIES = st.lists(EVENTS, max_size=40)
LIMITS = st.builds(
    Limits, concurrency=st.integers(1, 3), cost_usd=st.sampled_from([None, 0.5, 1.0])
)


def recount(state: RunState) -> None:
    """Assert that what the state counts is what a scan of all tasks finds."""
    for name, task in state.tasks.items():
        before = [state.tasks[each].status for each in GRAPH.predecessors[name]]
        assert task.waiting == sum(status is not Status.SUCCEEDED for status in before)
        assert (name in state.running) == (task.status is Status.RUNNING)
        waiting = task.queued and task.status is Status.QUEUED
        assert not (name in state.ready and name in state.doomed)
        if name in state.ready or name in state.doomed:
            assert waiting
        if waiting and not task.waiting:
            assert name in state.ready or name in state.doomed
    assert state.unsettled == sum(not task.status.is_final for task in state.tasks.values())
    assert set(state.to_stop) <= set(state.running)
    assert set(state.spending) <= set(state.running)
    assert all(state.tasks[name].status.is_final for name in state.reopening)


@given(HISTORIES)
def test_any_history_keeps_the_counters_right(history: list[Event]) -> None:
    state = RunState(GRAPH)
    for event in history:
        old = snapshot(state)
        news = reduce(state, event)
        recount(state)
        if not news:
            assert snapshot(state) == old


@given(HISTORIES, LIMITS)
def test_any_history_leaves_the_scheduler_within_its_limits(
    history: list[Event], limits: Limits
) -> None:
    state = RunState(GRAPH)
    for event in history:
        reduce(state, event)
    running = len(state.running)
    starts = [each for each in decide(state, limits, ROOMY) if isinstance(each, StartAttempt)]
    assert len(starts) <= max(0, limits.concurrency - running)


@given(HISTORIES, LIMITS, st.data())
def test_any_history_can_be_brought_to_an_end(
    history: list[Event], limits: Limits, data: st.DataObject
) -> None:
    state = RunState(GRAPH)
    for event in (*history, *opening_events(GRAPH)):
        reduce(state, event)
    for _ in range(100):
        while commands := decide(state, limits, ROOMY):
            news = [reduce(state, event) for each in commands for event in announcement(each)]
            assert all(news)
        if state.settled is not None:
            break
        attempt = data.draw(st.sampled_from(list(state.running.values())))
        outcome = data.draw(st.sampled_from([SUCCEEDED, FAILED]))
        assert reduce(state, AttemptSettled(attempt, outcome))
    assert state.settled is not None
    assert all(task.status.is_final for task in state.tasks.values())


@given(HISTORIES)
def test_a_repeated_outcome_changes_nothing(history: list[Event]) -> None:
    state = RunState(GRAPH)
    for event in history:
        reduce(state, event)
        if isinstance(event, AttemptSettled):
            old = snapshot(state)
            assert not reduce(state, event)
            assert snapshot(state) == old
