from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    CancelRequested,
    Event,
    RepairRequested,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    RunStarted,
    TaskQueued,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import LOST_REASON, AttemptOutcome, Status, Stop, StopCause
from engine.core.recovery import Lost, opening_events, recover
from tests.support.graphs import graph_of

A, B = TaskId("a"), TaskId("b")
A1, B1 = AttemptId(A, 1), AttemptId(B, 1)
GRAPH = graph_of({"a": (), "b": ("a",)})
OPENING = opening_events(GRAPH)
DIED = "the owner died"


def test_a_running_attempt_is_lost_and_keeps_what_it_spent() -> None:
    log: list[Event] = [*OPENING, AttemptStarted(A1), UsageReported(A1, 1, 0, 0, 0, 0.5)]
    recovery = recover(GRAPH, log, reason=DIED)
    lost = AttemptOutcome(Status.CANCELLED, LOST_REASON, cost_usd=0.5)
    assert recovery.lost == (Lost(A1, lost),)
    assert recovery.events(["saved"]) == (
        RunResumed(DIED),
        AttemptSettled(A1, AttemptOutcome(Status.CANCELLED, LOST_REASON, None, "saved", 0.5)),
    )


def test_an_attempt_that_was_being_stopped_ends_as_its_stop_says() -> None:
    stop = Stop(StopCause.TASK_DEADLINE, "task deadline of 5 ms passed")
    log = [*OPENING, AttemptStarted(A1), AttemptStopping(A1, stop)]
    (lost,) = recover(GRAPH, log, reason=DIED).lost
    assert lost.outcome == AttemptOutcome(Status.FAILED, stop.reason)


def test_a_stop_that_was_ordered_and_not_announced_counts_too() -> None:
    orders: list[tuple[Event, Status]] = [
        (CancelRequested("enough"), Status.CANCELLED),
        (RunDeadlinePassed(5), Status.FAILED),
    ]
    for order, status in orders:
        (lost,) = recover(GRAPH, [*OPENING, AttemptStarted(A1), order], reason=DIED).lost
        assert lost.outcome.status is status
        assert lost.outcome.reason != LOST_REASON


def test_a_first_write_that_was_cut_short_is_completed() -> None:
    assert recover(GRAPH, [], reason=DIED).first == OPENING
    assert recover(GRAPH, OPENING[:1], reason=DIED).first == (
        RunResumed(DIED),
        TaskQueued(A),
        TaskQueued(B),
    )
    assert recover(GRAPH, OPENING[:2], reason=DIED).first == (RunResumed(DIED), TaskQueued(B))


def test_a_settled_run_needs_nothing() -> None:
    log = [
        *OPENING,
        AttemptStarted(A1),
        AttemptSettled(A1, AttemptOutcome(Status.FAILED, "gave up")),
        AttemptSettled(AttemptId(B, 0), AttemptOutcome(Status.BLOCKED, "predecessor 'a'")),
        RunSettled(Status.FAILED, "1 of 2"),
    ]
    recovery = recover(GRAPH, log, reason=DIED)
    assert recovery.events([]) == ()
    assert recovery.state.settled is Status.FAILED


def test_recovering_again_after_a_second_crash_closes_each_attempt_once() -> None:
    log: list[Event] = [*OPENING, AttemptStarted(A1)]
    log += recover(GRAPH, log, reason=DIED).events([None])
    again = recover(GRAPH, log, reason="it died again")
    assert again.events([]) == (RunResumed("it died again"),)


def test_a_repair_whose_write_was_cut_short_reopens_everything() -> None:
    log: list[Event] = [
        *OPENING,
        AttemptStarted(A1),
        AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED)),
        AttemptStarted(B1),
        AttemptSettled(B1, AttemptOutcome(Status.REJECTED, "no")),
        RunSettled(Status.FAILED, "1 of 2"),
        RunResumed("repair of a"),
        RepairRequested(A, "mend it"),
        TaskQueued(A),
    ]
    assert recover(GRAPH, log[:-1], reason=DIED).first == (
        RunResumed(DIED),
        TaskQueued(A),
        TaskQueued(B),
    )
    assert recover(GRAPH, log, reason=DIED).first == (RunResumed(DIED), TaskQueued(B))


def test_a_run_begins_with_all_of_its_tasks_queued() -> None:
    assert (RunStarted(2), TaskQueued(A), TaskQueued(B)) == OPENING
