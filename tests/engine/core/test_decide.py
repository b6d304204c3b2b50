from engine.core.commands import (
    Command,
    SettleRun,
    SettleUnstarted,
    StartAttempt,
    StopAttempt,
    StopSpending,
    announcement,
)
from engine.core.decide import decide
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    CancelRequested,
    Event,
    RunDeadlinePassed,
    RunResumed,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status, Stop, StopCause, Unstarted
from engine.core.recovery import opening_events
from engine.core.reduce import reduce
from engine.core.spec import Limits
from engine.core.state import Graph, RunState
from tests.support.graphs import chain, graph_of, independent
from tests.support.rooms import ROOMY

A, B, C = TaskId("a"), TaskId("b"), TaskId("c")
A1, B1, C1 = AttemptId(A, 1), AttemptId(B, 1), AttemptId(C, 1)
GRAPH = graph_of({"a": (), "b": ("a",), "c": ()})
FAILED = AttemptOutcome(Status.FAILED, "gave up")


def state_after(*events: Event, graph: Graph = GRAPH) -> RunState:
    state = RunState(graph)
    for event in (*opening_events(graph), *events):
        reduce(state, event)
    return state


def settle(state: RunState, limits: Limits) -> list[Command]:
    """Decide and announce until nothing is left; return all that was decided."""
    decided: list[Command] = []
    while commands := decide(state, limits, ROOMY):
        decided += commands
        for command in commands:
            for event in announcement(command):
                reduce(state, event)
    return decided


def test_nothing_is_decided_before_the_run_has_started() -> None:
    assert decide(RunState(GRAPH), Limits(), ROOMY) == []


def test_ready_tasks_start_in_order_as_far_as_there_is_room() -> None:
    assert decide(state_after(), Limits(concurrency=1), ROOMY) == [StartAttempt(A1)]
    assert decide(state_after(), Limits(), ROOMY) == [StartAttempt(A1), StartAttempt(C1)]


def test_more_running_attempts_than_the_limit_leave_no_room() -> None:
    state = state_after(AttemptStarted(A1), AttemptStarted(C1), graph=independent_three())
    assert decide(state, Limits(concurrency=1), ROOMY) == []


def independent_three() -> Graph:
    return graph_of({"a": (), "b": (), "c": ()})


def test_a_second_try_has_the_next_number() -> None:
    state = state_after(AttemptStarted(A1), AttemptSettled(A1, FAILED))
    settle(state, Limits())
    reduce(state, AttemptSettled(C1, AttemptOutcome(Status.SUCCEEDED)))
    settle(state, Limits())
    assert state.settled is Status.FAILED
    for event in (RunResumed("again"), *opening_events(GRAPH)):
        reduce(state, event)
    assert decide(state, Limits(), ROOMY) == [
        StartAttempt(AttemptId(A, 2)),
        StartAttempt(AttemptId(C, 2)),
    ]


def test_stops_come_before_settlements() -> None:
    state = state_after(AttemptStarted(A1), CancelRequested("enough"))
    stop = Stop(StopCause.CANCEL, "enough")
    assert decide(state, Limits(), ROOMY) == [
        StopAttempt(A1, stop),
        SettleUnstarted(
            (Unstarted(B, Status.CANCELLED, "enough"), Unstarted(C, Status.CANCELLED, "enough"))
        ),
    ]


def test_a_stop_is_decided_once() -> None:
    state = state_after(AttemptStarted(A1), CancelRequested("enough"))
    assert any(isinstance(command, StopAttempt) for command in settle(state, Limits()))
    assert decide(state, Limits(), ROOMY) == []


def test_money_beyond_the_limit_is_noticed_once() -> None:
    spent = (
        AttemptStarted(A1),
        AttemptStarted(C1),
        UsageReported(A1, 1, 0, 0, 0, 0.75),
        UsageReported(C1, 1, 0, 0, 0, 0.5),
    )
    limits = Limits(cost_usd=1.0)
    state = state_after(*spent)
    assert decide(state, limits, ROOMY) == [StopSpending(1.0, 1.25)]
    cost = Stop(StopCause.COST, "cost limit of 1 USD passed: 1.25 USD spent")
    assert settle(state, limits)[1:] == [
        StopAttempt(A1, cost),
        StopAttempt(C1, cost),
        SettleUnstarted((Unstarted(B, Status.CANCELLED, cost.reason),)),
    ]
    assert decide(state_after(*spent), Limits(), ROOMY) == []


def test_sums_that_are_off_by_a_rounding_error_are_not_beyond_the_limit() -> None:
    state = state_after(AttemptStarted(A1), UsageReported(A1, 1, 0, 0, 0, 0.1 + 0.2))
    assert not any(
        isinstance(each, StopSpending) for each in decide(state, Limits(cost_usd=0.3), ROOMY)
    )


def test_a_run_ends_as_its_tasks_did() -> None:
    one = graph_of({"a": ()})
    good = state_after(
        AttemptStarted(A1), AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED)), graph=one
    )
    assert decide(good, Limits(), ROOMY) == [SettleRun(Status.SUCCEEDED, None)]
    bad = state_after(AttemptStarted(A1), AttemptSettled(A1, FAILED), graph=one)
    assert decide(bad, Limits(), ROOMY) == [
        SettleRun(Status.FAILED, "1 of 1 tasks did not succeed: 'a' failed")
    ]


def test_a_run_that_was_stopped_says_what_stopped_it() -> None:
    stopped = state_after(RunDeadlinePassed(5))
    assert settle(stopped, Limits())[-1] == SettleRun(Status.FAILED, "run deadline of 5 ms passed")
    cancelled = state_after(CancelRequested("enough"))
    assert settle(cancelled, Limits())[-1] == SettleRun(Status.CANCELLED, "enough")


def test_only_the_first_few_tasks_are_named() -> None:
    graph = independent(7)
    failures: list[Event] = []
    for name in graph.order:
        failures += [
            AttemptStarted(AttemptId(name, 1)),
            AttemptSettled(AttemptId(name, 1), FAILED),
        ]
    (end,) = decide(state_after(*failures, graph=graph), Limits(), ROOMY)
    assert isinstance(end, SettleRun)
    assert end.reason is not None
    assert end.reason.startswith("7 of 7 tasks did not succeed: 't-0' failed, ")
    assert end.reason.endswith("'t-4' failed, ...")


def test_a_long_chain_is_blocked_link_by_link() -> None:
    graph = chain(50)
    first = AttemptId(TaskId("t-0"), 1)
    state = state_after(AttemptStarted(first), AttemptSettled(first, FAILED), graph=graph)
    decided = settle(state, Limits())
    assert len(decided) == 50
    assert decided[48] == SettleUnstarted(
        (Unstarted(TaskId("t-49"), Status.BLOCKED, "predecessor 't-48' ended blocked"),)
    )
