from collections.abc import Iterable

import pytest

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    CancelRequested,
    CostLimitPassed,
    Event,
    RepairRequested,
    RepairStarted,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    TaskQueued,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.recovery import opening_events
from engine.core.reduce import reduce
from engine.core.repair import RepairRules, feedbacks, refusal, repair_events, settled_ms
from engine.core.spec import Kind
from engine.core.state import RunState
from tests.support.graphs import graph_of

FIX, CHECK, NEXT, LOOK, LATE = map(TaskId, ("fix", "check", "next", "look", "late"))
# `check` reviews `fix`; `next` builds on it and `look` reads what came of `next`.
GRAPH = graph_of(
    {"fix": (), "check": ("fix",), "next": ("fix", "check"), "look": ("next",), "late": ("fix",)}
)
KINDS = {
    FIX: Kind.WRITER,
    CHECK: Kind.REVIEWER,
    NEXT: Kind.WRITER,
    LOOK: Kind.READER,
    LATE: Kind.REVIEWER,
}
RULES = RepairRules(KINDS, 1)


def started(task: TaskId, number: int = 1) -> Event:
    return AttemptStarted(AttemptId(task, number))


def settled(task: TaskId, status: Status = Status.SUCCEEDED, number: int = 1) -> Event:
    reason = None if status is Status.SUCCEEDED else "why"
    return AttemptSettled(AttemptId(task, number), AttemptOutcome(status, reason))


def ended(task: TaskId, status: Status = Status.SUCCEEDED, number: int = 1) -> tuple[Event, Event]:
    return started(task, number), settled(task, status, number)


def state_after(*events: Event) -> RunState:
    state = RunState(GRAPH)
    for event in (*opening_events(GRAPH), *events):
        assert reduce(state, event), event
    return state


def why_not(events: Iterable[Event], task: TaskId = FIX, *, most: int = 1) -> str | None:
    return refusal(state_after(*events), RepairRules(KINDS, most), task, "mend it")


REPAIRABLE = (Status.SUCCEEDED, Status.FAILED, Status.REJECTED, Status.BLOCKED, Status.UNCERTAIN)


@pytest.mark.parametrize("status", REPAIRABLE, ids=lambda status: status.value)
def test_a_writer_that_was_tried_may_be_repaired_however_it_ended(status: Status) -> None:
    assert why_not(ended(FIX, status)) is None


def test_a_writer_may_be_repaired_after_its_reviews() -> None:
    assert why_not([*ended(FIX), *ended(CHECK, Status.REJECTED), *ended(LATE)]) is None


REFUSED: dict[str, tuple[tuple[Event, ...], TaskId, str]] = {
    "a task that is no writer's": (
        (*ended(FIX), *ended(CHECK)),
        CHECK,
        "task check is a reviewer's, and repair is for builders: start a new run",
    ),
    "a task that has not begun": (
        (),
        FIX,
        "task fix is queued and cannot be repaired yet: wait for its end",
    ),
    "a task that runs": (
        (started(FIX),),
        FIX,
        "task fix is running and cannot be repaired yet: wait for its end",
    ),
    "a task that was cancelled": (
        ended(FIX, Status.CANCELLED),
        FIX,
        "task fix was cancelled, which no repair mends: start a new run",
    ),
    "a task that waited in vain": (
        (*ended(FIX, Status.FAILED), settled(NEXT, Status.BLOCKED, 0)),
        NEXT,
        "task next was never started and has nothing to repair: repair fix",
    ),
    "a task whose reviewer runs": (
        (*ended(FIX), started(CHECK)),
        FIX,
        (
            "task fix cannot be repaired while task check, which depends on it, is running: "
            "cancel check first, or wait for its end"
        ),
    ),
    "a task that was built upon": (
        (*ended(FIX), *ended(CHECK), *ended(NEXT, Status.FAILED)),
        FIX,
        (
            "task next has worked with the result of task fix, which therefore cannot be repaired "
            "any more: start a new run"
        ),
    ),
    "a task of a cancelled run": (
        (*ended(FIX), CancelRequested("enough")),
        FIX,
        "the run was stopped (enough), so nothing of it is repaired: start a new run",
    ),
    "a task of a run that spent too much": (
        (*ended(FIX), CostLimitPassed(1.0, 1.5)),
        FIX,
        (
            "the run was stopped (cost limit of 1 USD passed: 1.5 USD spent), so nothing of "
            "it is repaired: start a new run"
        ),
    ),
    "a task of a run that is out of time": (
        (*ended(FIX), RunDeadlinePassed(5)),
        FIX,
        (
            "the run is over (run deadline of 5 ms passed), so nothing of it is repaired: "
            "start a new run"
        ),
    ),
}


@pytest.mark.parametrize(("events", "task", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_names_the_task_the_rule_and_the_remedy(
    events: tuple[Event, ...], task: TaskId, sentence: str
) -> None:
    assert why_not(events, task) == sentence


def test_feedback_has_to_say_something() -> None:
    state = state_after(*ended(FIX))
    assert refusal(state, RULES, FIX, " \n") == (
        "task fix: a repair needs feedback that says what to mend"
    )


def test_a_cancel_that_came_too_late_to_matter_refuses_nothing() -> None:
    rest = [event for task in (FIX, CHECK, LATE) for event in ended(task)]
    graph = graph_of({"fix": (), "check": ("fix",), "late": ("fix",)})
    state = RunState(graph)
    for event in (*opening_events(graph), *rest, CancelRequested("late")):
        reduce(state, event)
    assert refusal(state, RULES, FIX, "mend it") is not None
    assert reduce(state, RunSettled(Status.SUCCEEDED))
    assert refusal(state, RULES, FIX, "mend it") is None


def repaired(number: int, *more: Event) -> list[Event]:
    return [RepairRequested(FIX, "mend it"), TaskQueued(FIX), started(FIX, number), *more]


def test_a_repair_counts_once_its_agent_has_started() -> None:
    without_agent = [*ended(FIX, Status.FAILED), *repaired(2, settled(FIX, Status.FAILED, 2))]
    assert why_not(without_agent) is None
    begun = repaired(3, RepairStarted(AttemptId(FIX, 3)), settled(FIX, Status.FAILED, 3))
    assert why_not([*without_agent, *begun]) == (
        "task fix was repaired once and limits.repairs is 1: start a new run"
    )
    assert why_not([*without_agent, *begun], most=2) is None


def test_a_second_repair_beyond_two_is_counted_in_words_that_fit() -> None:
    both = [
        event
        for number in (2, 3)
        for event in repaired(
            number, RepairStarted(AttemptId(FIX, number)), settled(FIX, Status.FAILED, number)
        )
    ]
    assert why_not([*ended(FIX), *both], most=2) == (
        "task fix was repaired 2 times and limits.repairs is 2: start a new run"
    )


def test_a_repair_reopens_the_task_and_all_that_depends_on_it_at_once() -> None:
    state = state_after(*ended(FIX), *ended(CHECK, Status.REJECTED), *ended(LATE))
    for event in (settled(NEXT, Status.BLOCKED, 0), settled(LOOK, Status.BLOCKED, 0)):
        reduce(state, event)
    assert reduce(state, RunSettled(Status.FAILED))
    events = repair_events(state, FIX, "mend it")
    assert events == (
        RunResumed("repair of fix"),
        RepairRequested(FIX, "mend it"),
        *map(TaskQueued, GRAPH.order),
    )
    for event in events:
        assert reduce(state, event)
    assert list(state.ready) == [FIX]
    assert {task.status for task in state.tasks.values()} == {Status.QUEUED}


def test_a_live_run_is_not_resumed_by_a_repair() -> None:
    events = repair_events(state_after(*ended(FIX, Status.FAILED)), FIX, "mend it")
    assert not any(isinstance(event, RunResumed) for event in events)


def test_the_newest_feedback_of_each_task_is_found() -> None:
    asked: list[Event] = [RepairRequested(FIX, "one"), RunResumed("x")]
    more = [RepairRequested(FIX, "two"), RepairRequested(NEXT, "three")]
    assert feedbacks([*asked, *more]) == {FIX: "two", NEXT: "three"}


def test_the_job_clock_stands_still_while_the_run_is_settled() -> None:
    end, again = RunSettled(Status.FAILED), RunResumed("repair")
    log: list[tuple[int, Event]] = [
        (10, started(FIX)),
        (20, end),
        (50, again),
        (60, RunResumed("it died")),
        (70, end),
    ]
    assert settled_ms(log, 100) == 30 + 30
    assert settled_ms(log[:3], 100) == 30
    assert settled_ms(log[:2], 15) == 0  # the clock was set back
    assert settled_ms([], 100) == 0
