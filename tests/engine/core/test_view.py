from collections.abc import Iterable

import pytest

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
    Sender,
    SteerDelivered,
    TaskQueued,
    TelemetryReported,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    Trace,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, CheckId, TaskId
from engine.core.outcome import LOST_REASON, AttemptOutcome, FailureStage, Status, Stop, StopCause
from engine.core.repair import settled_ms
from engine.core.view import CheckView, ResourcesView, RunView, SteerView, TaskView, UsageView

A, B = TaskId("a"), TaskId("b")
A1, A2 = AttemptId(A, 1), AttemptId(A, 2)
LINT, TEST = CheckId("lint"), CheckId("test")
STOP = Stop(StopCause.CANCEL, "enough")
OPENING: tuple[Event, ...] = (RunStarted(2), TaskQueued(A), TaskQueued(B), AttemptStarted(A1))


def view_of(events: Iterable[Event]) -> RunView:
    """Fold `events`, number n at the time 100 n."""
    view = RunView()
    for seq, event in enumerate(events):
        view.apply(seq, seq * 100, event)
    return view


def test_a_run_is_followed_from_start_to_end() -> None:
    view = view_of(
        [
            *OPENING,
            UsageReported(A1, 2, 3, 100, 50, 0.5),
            CheckStarted(A1, LINT),
            CheckEnded(A1, LINT, passed=False, duration_ms=7, reason="exit code 1"),
            CheckoutChanged(A1),
            AttemptSettled(
                A1,
                AttemptOutcome(
                    Status.FAILED, "check 'lint' failed", FailureStage.VERIFICATION, "digest", 0.5
                ),
            ),
            AttemptSettled(AttemptId(B, 0), AttemptOutcome(Status.BLOCKED, "predecessor 'a'")),
            RunSettled(Status.FAILED, "2 of 2"),
        ]
    )
    assert view.tasks[A] == TaskView(
        task=A,
        status=Status.FAILED,
        attempt=1,
        started_at_ms=300,
        settled_at_ms=800,
        reason="check 'lint' failed",
        stage=FailureStage.VERIFICATION,
        digest="digest",
        settled_attempt=1,
        attempt_usage=UsageView(2, 3, 100, 50, 0.5),
        checks=(CheckView(LINT, passed=False, duration_ms=7, reason="exit code 1"),),
        checkout_changed=True,
    )
    assert (view.status, view.reason, view.settled_at_ms) == (Status.FAILED, "2 of 2", 1000)
    assert (view.started_at_ms, view.settlements, view.seq) == (0, 1, 10)
    assert view.tasks[B].status is Status.BLOCKED
    assert view.usage == UsageView(2, 3, 100, 50, 0.5)


def test_events_that_were_folded_before_are_ignored() -> None:
    view = view_of(OPENING)
    old = view.copy()
    view.apply(3, 999, CancelRequested("again"))
    assert view == old
    view.apply(4, 999, CancelRequested("new"))
    assert view != old


def test_a_copy_and_the_events_after_it_give_the_same_view() -> None:
    events = [*OPENING, CheckStarted(A1, LINT), TextDelta(A1, "hm")]
    live = RunView()
    copy = live.copy()
    for seq, event in enumerate(events):
        live.apply(seq, seq * 100, event)
        if seq == 3:
            copy = live.copy()
    for seq, event in enumerate(events):
        copy.apply(seq, seq * 100, event)
    assert copy == live == view_of(events)


ACTIVITIES: list[tuple[Trace, str]] = [
    (TurnStarted(A1, 1), "waits for its model"),
    (ThinkingDelta(A1, "hm"), "thinks"),
    (TextDelta(A1, "so"), "writes"),
    (ToolStarted(A1, "1", "read", "src/a.py"), "read src/a.py"),
    (ToolStarted(A1, "1", "list", ""), "list"),
    (ToolEnded(A1, "1", "read", is_error=False), ""),
    (MessageEnded(A1, "stop"), ""),
    (ModelThrottled(A1, 2.5), "waits 2.5 s for its provider"),
    (ContextCompacted(A1, 9), ""),
]


@pytest.mark.parametrize(("event", "activity"), ACTIVITIES)
def test_what_an_agent_does_is_shown_until_it_settles(event: Trace, activity: str) -> None:
    events = [*OPENING, event, event]
    assert view_of(events).tasks[A].activity == activity
    settled = AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED))
    assert view_of([*events, settled]).tasks[A].activity == ""


def test_output_of_a_tool_leaves_what_its_agent_does_as_it_was() -> None:
    events = [
        *OPENING,
        ToolStarted(A1, "1", "bash", "make"),
        ToolUpdated(A1, "1", "bash", "cc a.c"),
    ]
    assert view_of(events).tasks[A].activity == "bash make"


def test_what_programs_used_stays_and_a_second_try_counts_from_nothing() -> None:
    first = TelemetryReported(A1, 1.5, 20, 30, 2, None, 5)
    last = TelemetryReported(A1, 2.5, 0, 40, 0, 1, 6)
    settled = [*OPENING, first, last, AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED))]
    assert view_of([*OPENING, first]).tasks[A].resources == ResourcesView(1.5, 20, 30, 2, None, 5)
    assert view_of(settled).tasks[A].resources == ResourcesView(2.5, 0, 40, 0, 1, 6)
    assert view_of([*settled, TaskQueued(A), AttemptStarted(A2)]).tasks[A].resources is None


def test_a_view_without_the_traces_ends_like_one_with_them() -> None:
    usage = UsageReported(A1, 1, 0, 10, 5, None)
    end: tuple[Event, ...] = (
        AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED, cost_usd=0.1)),
        RunSettled(Status.FAILED, "1 of 2"),
    )
    full = view_of([*OPENING, *(event for event, _ in ACTIVITIES), usage, *end])
    lean = view_of([*OPENING, usage, *end])
    assert full.tasks[A].usage == lean.tasks[A].usage
    assert full.tasks[A].usage == UsageView(1, 0, 10, 5, 0.1, cost_is_partial=True)
    assert full.tasks[A].activity == lean.tasks[A].activity
    assert full.tasks[A].status is lean.tasks[A].status


def test_a_second_try_starts_afresh_and_keeps_what_the_first_used() -> None:
    view = view_of(
        [
            *OPENING,
            UsageReported(A1, 1, 2, 10, 5, 0.25),
            CheckStarted(A1, LINT),
            AttemptSettled(A1, AttemptOutcome(Status.FAILED, "gave up", cost_usd=0.25)),
            TaskQueued(A),
            AttemptStarted(A2),
            UsageReported(A2, 1, 1, 1, 1, 0.5),
            CheckStarted(A1, LINT),
        ]
    )
    assert view.tasks[A] == TaskView(
        task=A,
        status=Status.RUNNING,
        attempt=2,
        started_at_ms=800,
        attempt_usage=UsageView(1, 1, 1, 1, 0.5),
        earlier_usage=UsageView(1, 2, 10, 5, 0.25),
    )
    assert view.tasks[A].usage == UsageView(2, 3, 11, 6, 0.75)


def test_what_an_agent_was_told_is_kept_in_order_over_all_of_its_tries() -> None:
    view = view_of(
        [
            *OPENING,
            SteerDelivered(A1, "not b.py", follow_up=False),
            SteerDelivered(A1, "and say why", follow_up=True, sender=Sender.USER),
            AttemptSettled(A1, AttemptOutcome(Status.FAILED, "gave up")),
            SteerDelivered(A1, "too late", follow_up=False),
            TaskQueued(A),
            AttemptStarted(A2),
            SteerDelivered(A2, "once more", follow_up=False),
        ]
    )
    assert view.tasks[A].steers == (
        SteerView("not b.py", follow_up=False),
        SteerView("and say why", follow_up=True, sender=Sender.USER),
        SteerView("once more", follow_up=False),
    )
    assert view.tasks[B].steers == ()


def test_only_the_check_that_ended_changes() -> None:
    view = view_of(
        [
            *OPENING,
            CheckStarted(A1, LINT),
            CheckEnded(A1, LINT, passed=True, duration_ms=1),
            CheckStarted(A1, TEST),
        ]
    )
    assert view.tasks[A].checks == (CheckView(LINT, passed=True, duration_ms=1), CheckView(TEST))
    assert view.tasks[A].activity == "check test"


def test_the_first_stop_of_a_task_is_shown_while_it_ends() -> None:
    later = AttemptStopping(A1, Stop(StopCause.COST, "later"))
    stopping = [*OPENING, AttemptStopping(A1, STOP), later]
    assert view_of(stopping).tasks[A].stop == STOP
    settled = AttemptSettled(A1, AttemptOutcome(Status.CANCELLED, "enough"))
    assert view_of([*stopping, settled]).tasks[A].stop is None


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (CancelRequested("enough"), "enough"),
        (CancelRequested("only this", A), None),
        (RunDeadlinePassed(5), "run deadline of 5 ms passed"),
        (CostLimitPassed(1, 1.5), "cost limit of 1 USD passed: 1.5 USD spent"),
    ],
)
def test_why_a_run_is_being_ended_is_shown(event: Event, reason: str | None) -> None:
    assert view_of([*OPENING, event]).stop_reason == reason
    if reason is not None:
        assert view_of([*OPENING, event, CancelRequested("later")]).stop_reason == reason


def test_a_resumed_run_is_running_again() -> None:
    crashed = view_of([*OPENING, CancelRequested("enough"), RunResumed("crash")])
    assert (crashed.status, crashed.stop_reason) == (Status.RUNNING, "enough")
    settled = [*OPENING, CancelRequested("enough"), RunSettled(Status.CANCELLED, "enough")]
    reopened = view_of([*settled, RunResumed("repair")])
    assert (reopened.status, reopened.reason, reopened.stop_reason) == (Status.RUNNING, None, None)
    assert (reopened.settled_at_ms, reopened.settlements) == (None, 1)


def test_time_between_a_settlement_and_what_reopened_the_run_is_added_up() -> None:
    settled, resumed = RunSettled(Status.FAILED), RunResumed("repair")
    history: list[tuple[int, Event]] = [
        (1_000, RunStarted(1)),
        (2_000, settled),
        (2_300, resumed),
        (3_000, resumed),
        (4_000, settled),
        (3_900, resumed),
        (5_000, settled),
        (5_040, resumed),
        (6_000, settled),
    ]
    view = RunView()
    for seq, (at_ms, event) in enumerate(history):
        view.apply(seq, at_ms, event)
    assert view.rested_ms == 340 == settled_ms(history, 6_000)


def test_usage_of_a_run_is_that_of_all_attempts_of_all_tasks() -> None:
    one, two = UsageView(1, 2, 3, 4, 0.5), UsageView(10, 20, 30, 40, 0.25, cost_is_partial=True)
    view = RunView()
    assert view.usage == UsageView()
    view.tasks = {
        A: TaskView(A, attempt_usage=one, earlier_usage=two),
        TaskId("z"): TaskView(TaskId("z"), attempt_usage=one),
    }
    assert view.usage == UsageView(12, 24, 36, 48, 1.25, cost_is_partial=True)


def test_events_of_tasks_that_are_not_there_or_not_running_change_nothing() -> None:
    unknown = AttemptId(TaskId("x"), 1)
    events: list[Event] = [
        AttemptStarted(unknown),
        AttemptSettled(unknown, AttemptOutcome(Status.FAILED, "why")),
        TextDelta(unknown, "hm"),
        TextDelta(AttemptId(B, 1), "hm"),
    ]
    view, old = view_of(OPENING), view_of(OPENING)
    for seq, event in enumerate(events, 4):
        view.apply(seq, 0, event)
    assert view.tasks == old.tasks


def test_a_second_outcome_changes_nothing() -> None:
    first = AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED))
    second = AttemptSettled(A1, AttemptOutcome(Status.FAILED, "late"))
    assert view_of([*OPENING, first, second]).tasks == view_of([*OPENING, first]).tasks


def test_what_was_lost_does_not_count_from_the_request_of_its_rerun_on() -> None:
    lost = AttemptOutcome(Status.CANCELLED, LOST_REASON, result_digest="lost", cost_usd=0.5)
    blocked = AttemptOutcome(Status.BLOCKED, "predecessor 'a' ended cancelled", result_digest="b")
    events: list[Event] = [*OPENING, AttemptStarted(A1), AttemptSettled(A1, lost)]
    events += [AttemptSettled(AttemptId(B, 0), blocked), RunSettled(Status.FAILED, "2 of 2")]
    events += [RunResumed("rerun of a"), RerunRequested((A, B))]
    view = view_of(events)
    assert {task.status for task in view.tasks.values()} == {Status.QUEUED}
    a, b = view.tasks[A], view.tasks[B]
    assert (a.digest, a.reason, a.attempt, a.usage.cost_usd) == (None, None, 1, 0.5)
    assert (b.digest, b.reason, b.attempt) == (None, None, 0)
    assert (view.status, view.settlements) == (Status.RUNNING, 1)


def test_what_a_task_came_to_does_not_count_from_the_request_of_its_repair_on() -> None:
    settled = AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED, result_digest="old"))
    events = [*OPENING, settled, RunResumed("repair of a"), RepairRequested(A, "mend it")]
    task = view_of(events).tasks[A]
    assert (task.status, task.digest, task.attempt) == (Status.QUEUED, None, 1)
    events += [TaskQueued(A), AttemptStarted(A2), RepairStarted(A2)]
    task = view_of(events).tasks[A]
    assert (task.status, task.digest, task.attempt) == (Status.RUNNING, None, 2)
