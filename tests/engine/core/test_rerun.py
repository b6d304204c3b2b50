from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, strategies as st

from engine.core.commands import announcement
from engine.core.decide import decide
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    CancelRequested,
    CostLimitPassed,
    Decision,
    Event,
    RepairRequested,
    RepairStarted,
    RerunRequested,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    TaskQueued,
    UsageReported,
)
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import LOST_REASON, AttemptOutcome, Status
from engine.core.recovery import opening_events, recover, state_after
from engine.core.reduce import reduce
from engine.core.repair import repair_events
from engine.core.rerun import fresh_starts, lost_tasks, refusal, rerun_events
from engine.core.spec import Limits
from engine.core.state import RunState, downstream
from tests.support.graphs import graph_of
from tests.support.rooms import ROOMY

FIX, CHECK, NEXT, LOOK = map(TaskId, ("fix", "check", "next", "look"))
# `check` reviews `fix`, `next` builds on both, and `look` has nothing to do with them.
GRAPH = graph_of({"fix": (), "check": ("fix",), "next": ("fix", "check"), "look": ()})
OPENING = opening_events(GRAPH)
Then = Callable[[RunState], Sequence[Decision]]
LOST = AttemptOutcome(Status.CANCELLED, LOST_REASON, cost_usd=0.5)


def started(task: TaskId, number: int = 1) -> Event:
    return AttemptStarted(AttemptId(task, number))


def settled(task: TaskId, status: Status = Status.SUCCEEDED, number: int = 1) -> Event:
    reason = None if status is Status.SUCCEEDED else "why"
    return AttemptSettled(AttemptId(task, number), AttemptOutcome(status, reason))


def ended(task: TaskId, status: Status = Status.SUCCEEDED, number: int = 1) -> tuple[Event, Event]:
    return started(task, number), settled(task, status, number)


def lost(task: TaskId, number: int = 1) -> tuple[Event, Event]:
    return started(task, number), AttemptSettled(AttemptId(task, number), LOST)


def blocked(*tasks: TaskId) -> tuple[Event, ...]:
    return tuple(settled(task, Status.BLOCKED, 0) for task in tasks)


def news(*events: Event) -> RunState:
    """Return the state after the opening and `events`, all of which have to be news."""
    state = RunState(GRAPH)
    for event in (*OPENING, *events):
        assert reduce(state, event), event
    return state


ENDED = (*lost(FIX), *blocked(CHECK, NEXT), *ended(LOOK), RunSettled(Status.FAILED))


def test_a_lost_task_and_all_that_depends_on_it_are_started_again() -> None:
    state = news(*ENDED)
    assert lost_tasks(state) == (FIX,)
    assert refusal(state, None) is None
    events = rerun_events(state)
    assert events == (RunResumed("rerun of fix"), RerunRequested((FIX, CHECK, NEXT)))
    for event in events:
        assert reduce(state, event)
    assert list(state.ready) == [FIX]
    assert (state.settled, state.unsettled, state.doomed) == (None, 3, {})
    assert lost_tasks(state) == ()
    assert state.spent_usd == 0.5


def test_a_run_whose_owner_died_is_closed_and_not_resumed_twice() -> None:
    recovery = recover(GRAPH, [*OPENING, started(FIX), started(LOOK)], reason="it died")
    closing = recovery.events([None, None])
    state = state_after(GRAPH, (*OPENING, started(FIX), started(LOOK), *closing))
    assert lost_tasks(state) == (FIX, LOOK)
    # What was about to be blocked was never final, so it need not be opened again.
    assert rerun_events(state) == (RerunRequested((FIX, LOOK)),)
    reduce(state, rerun_events(state)[0])
    assert not state.doomed
    assert list(state.ready) == [FIX, LOOK]


def test_an_uncertain_task_is_started_again_too() -> None:
    state = news(*ended(FIX, Status.UNCERTAIN), *blocked(CHECK, NEXT))
    assert lost_tasks(state) == (FIX,)
    assert rerun_events(state) == (RerunRequested((FIX, CHECK, NEXT)),)


def test_what_somebody_cancelled_stays_cancelled_also_below_a_lost_task() -> None:
    state = news(*lost(FIX), settled(CHECK, Status.CANCELLED, 0), *blocked(NEXT))
    assert rerun_events(state) == (RerunRequested((FIX, NEXT)),)
    for event in (*rerun_events(state), *ended(FIX, number=2)):
        assert reduce(state, event)
    assert state.doomed[NEXT].reason == "predecessor 'check' ended cancelled"
    assert list(state.ready) == [LOOK]


def test_a_dependent_that_succeeded_before_is_done_again() -> None:
    state = news(*ended(CHECK), *lost(FIX), *blocked(NEXT))
    assert rerun_events(state) == (RerunRequested((FIX, CHECK, NEXT)),)


NOT_LOST: dict[str, tuple[Event, ...]] = {
    "a task that failed": ended(FIX, Status.FAILED),
    "a task that was cancelled while it worked": ended(FIX, Status.CANCELLED),
    "a task that succeeded after it was lost": (
        *lost(FIX),
        RerunRequested((FIX,)),
        *ended(FIX, number=2),
    ),
    "a task that was opened again": (*lost(FIX), RerunRequested((FIX,))),
}


@pytest.mark.parametrize("events", NOT_LOST.values(), ids=NOT_LOST.keys())
def test_nothing_else_is_lost(events: tuple[Event, ...]) -> None:
    assert lost_tasks(news(*events)) == ()


REFUSED: dict[str, tuple[tuple[Event, ...], str]] = {
    "a run that is all done": (
        (*ended(FIX), *ended(CHECK), *ended(NEXT), *ended(LOOK), RunSettled(Status.SUCCEEDED)),
        (
            "no task of the run was lost, so nothing is started again: repair a builder, or start "
            "a new run"
        ),
    ),
    "a run that has more to do": (
        ended(FIX),
        "no task of the run was lost: resume the run, which finishes what is left",
    ),
    "a cancelled run": (
        (*lost(FIX), CancelRequested("enough")),
        "the run was stopped (enough), so nothing of it is started again: start a new run",
    ),
    "a run that is out of time": (
        (*lost(FIX), RunDeadlinePassed(5)),
        (
            "the run is over (run deadline of 5 ms passed), so nothing of it is started again: "
            "start a new run"
        ),
    ),
    "a run that was stopped for its price": (
        (*lost(FIX), CostLimitPassed(0.25, 0.5)),
        (
            "the run was stopped (cost limit of 0.25 USD passed: 0.5 USD spent), so nothing of it "
            "is started again: start a new run"
        ),
    ),
    "a run that spent more than it may": (
        lost(FIX),
        (
            "the run has spent 0.5 USD of its 0.25 USD, so nothing of it is started again: start "
            "a new run"
        ),
    ),
}


@pytest.mark.parametrize(("events", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_names_the_reason_and_the_remedy(
    events: tuple[Event, ...], sentence: str
) -> None:
    assert refusal(news(*events), 0.25) == sentence


def test_what_is_left_to_spend_may_be_spent() -> None:
    assert refusal(news(*lost(FIX)), 0.5) is None
    assert refusal(news(*lost(FIX)), None) is None


MENDED = (*ended(FIX), RepairRequested(FIX, "mend it"), TaskQueued(FIX))
FRESH: dict[str, tuple[tuple[Event, ...], dict[TaskId, int]]] = {
    "nothing": ((*MENDED, started(FIX, 2)), {}),
    "its base": ((*lost(FIX), RerunRequested((FIX, CHECK))), {FIX: 0, CHECK: 0}),
    "its base, while it works": (
        (*lost(FIX), RerunRequested((FIX,)), started(FIX, 2)),
        {FIX: 0},
    ),
    "nothing, once that has ended": (
        (*lost(FIX), RerunRequested((FIX,)), *ended(FIX, number=2)),
        {},
    ),
    "its base, also when it waited in vain": (
        (*lost(FIX), RerunRequested((FIX,)), settled(FIX, Status.BLOCKED, 0)),
        {FIX: 0},
    ),
    "its base, however often it is lost": (
        (*lost(FIX), RerunRequested((FIX,)), *lost(FIX, 2), RerunRequested((FIX,))),
        {FIX: 0},
    ),
    "what was to be repaired": ((*MENDED, *lost(FIX, 2), RerunRequested((FIX,))), {FIX: 1}),
    "what was to be repaired, however often that is lost": (
        (*MENDED, *lost(FIX, 2), RerunRequested((FIX,)), *lost(FIX, 3), RerunRequested((FIX,))),
        {FIX: 1},
    ),
    "what was to be repaired in the newest repair": (
        (
            *MENDED,
            *ended(FIX, number=2),
            RepairRequested(FIX, "more"),
            *lost(FIX, 3),
            RerunRequested((FIX,)),
        ),
        {FIX: 2},
    ),
}


@pytest.mark.parametrize(("events", "fresh"), FRESH.values(), ids=FRESH.keys())
def test_a_task_begins_with(events: tuple[Event, ...], fresh: dict[TaskId, int]) -> None:
    assert fresh_starts((*OPENING, *events)) == fresh


def test_a_rerun_of_a_repair_whose_agent_had_begun_is_no_second_one() -> None:
    begun = (*MENDED, started(FIX, 2), RepairStarted(AttemptId(FIX, 2)))
    state = news(*begun, AttemptSettled(AttemptId(FIX, 2), LOST), *rerun_of_fix(), started(FIX, 3))
    assert not reduce(state, RepairStarted(AttemptId(FIX, 3)))
    assert state.tasks[FIX].repairs == 1


def test_a_rerun_of_a_repair_whose_agent_had_not_begun_counts_it() -> None:
    state = news(*MENDED, *lost(FIX, 2), *rerun_of_fix(), started(FIX, 3))
    assert reduce(state, RepairStarted(AttemptId(FIX, 3)))
    assert state.tasks[FIX].repairs == 1


def rerun_of_fix() -> tuple[Event, ...]:
    return (RerunRequested((FIX,)),)


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    names = [f"t-{number}" for number in range(draw(st.integers(1, 6)))]
    edges = {
        name: draw(st.lists(st.sampled_from(names[:place]), max_size=3, unique=True))
        if place
        else []
        for place, name in enumerate(names)
    }
    # Predecessors need not come first in the graph's own order.
    order = draw(st.permutations(names))
    return graph_of({name: edges[name] for name in order})


ENDINGS = st.sampled_from([Status.SUCCEEDED] * 3 + [Status.FAILED, Status.UNCERTAIN])


@dataclass(slots=True)
class Process:
    """One that owns a run: what it folds is durable at once, and it may die after any event."""

    graph: TaskGraph
    state: RunState
    log: list[Event]

    @classmethod
    def taking_over(cls, graph: TaskGraph, log: list[Event], then: Then) -> "Process":
        """Return a process that closes what another one left open and goes on with `then`."""
        process = cls(graph, state_after(graph, log), log)
        for event in closing(graph, log):
            process.take(event)
        for event in then(process.state):
            process.take(event)
        return process

    def take(self, event: Event) -> None:
        if reduce(self.state, event):
            self.log.append(event)

    def decide(self) -> None:
        while commands := decide(self.state, Limits(concurrency=2), ROOMY):
            for command in commands:
                for event in announcement(command):
                    self.take(event)

    def work(self, data: st.DataObject, steps: int) -> None:
        """Decide and let attempts end as they may, for so many steps at most."""
        for _ in range(steps):
            self.decide()
            self.take(data.draw(st.one_of(self._happenings())))

    def _happenings(self) -> list[st.SearchStrategy[Event]]:
        tasks = st.sampled_from(self.graph.order)
        happen: list[st.SearchStrategy[Event]] = [
            st.builds(CancelRequested, st.just("enough"), tasks),
        ]
        if self.state.running:
            running = st.sampled_from([*self.state.running.values()])
            outcome = st.builds(AttemptOutcome, ENDINGS, st.just("why"), cost_usd=st.just(0.25))
            happen += [st.builds(AttemptSettled, running, outcome)] * 4
            happen.append(
                st.builds(lambda attempt: UsageReported(attempt, 1, 0, 0, 0, 0.5), running)
            )
        return happen

    def succeed(self) -> None:
        """Let all attempts succeed until the run has settled."""
        self.decide()
        while self.state.running:
            attempt = next(iter(self.state.running.values()))
            self.take(AttemptSettled(attempt, AttemptOutcome(Status.SUCCEEDED)))
            self.decide()


def closing(graph: TaskGraph, log: list[Event]) -> tuple[Decision, ...]:
    """Return what closes a run whose log ends like this."""
    recovery = recover(graph, log, reason="it died")
    return recovery.events([None] * len(recovery.lost))


def nothing(_: RunState) -> tuple[Decision, ...]:
    return ()


def rerun_if_lost(state: RunState) -> tuple[Decision, ...]:
    return rerun_events(state) if refusal(state, None) is None else ()


def lived(graph: TaskGraph, data: st.DataObject) -> list[Event]:
    """Return the log of a run that several processes worked on, each of which died."""

    def repair(state: RunState) -> tuple[Decision, ...]:
        final = [name for name in graph.order if state.tasks[name].status.is_final]
        return repair_events(state, data.draw(st.sampled_from(final)), "mend") if final else ()

    log: list[Event] = []
    for _ in range(data.draw(st.integers(1, 3))):
        then = data.draw(st.sampled_from([nothing, repair, rerun_if_lost]))
        Process.taking_over(graph, log, then).work(data, data.draw(st.integers(0, 8)))
    return log


def starts(log: Iterable[Event]) -> list[AttemptId]:
    return [event.attempt for event in log if isinstance(event, AttemptStarted)]


@given(graphs(), st.data())
def test_a_rerun_opens_what_was_lost_and_what_depends_on_it_and_nothing_else(
    graph: TaskGraph, data: st.DataObject
) -> None:
    log = lived(graph, data)
    before = state_after(graph, [*log, *closing(graph, log)])
    after = state_after(graph, [*log, *closing(graph, log), *rerun_if_lost(before)])
    lost = {*lost_tasks(before)} if refusal(before, None) is None else set()
    below = {*downstream(graph, *lost)}
    for name in graph.order:
        old, new = before.tasks[name], after.tasks[name]
        if name in lost:
            assert (new.status, new.number, new.lost) == (Status.QUEUED, old.number, False)
        elif name in below and old.status is not Status.CANCELLED:
            assert (new.status, new.number) == (Status.QUEUED, old.number)
        else:
            assert replace(new, waiting=old.waiting) == old
    assert after.spent_usd == before.spent_usd


@given(graphs(), st.data())
def test_what_was_started_again_ends_without_anything_lost_or_started_twice(
    graph: TaskGraph, data: st.DataObject
) -> None:
    log = lived(graph, data)
    closed = state_after(graph, [*log, *closing(graph, log)])
    was_lost = refusal(closed, None) is None
    process = Process.taking_over(graph, log, rerun_if_lost)
    process.succeed()
    assert process.state.settled is not None
    assert len(starts(log)) == len({*starts(log)})
    assert state_after(graph, log).tasks == process.state.tasks
    assert closing(graph, log) == ()
    if was_lost:
        assert not lost_tasks(process.state)
        assert refusal(process.state, None) is not None


@given(graphs(), st.data())
def test_a_rerun_that_is_cut_short_anywhere_is_made_up_for_by_the_next(
    graph: TaskGraph, data: st.DataObject
) -> None:
    log = lived(graph, data)
    then = (*closing(graph, log), *rerun_if_lost(state_after(graph, [*log, *closing(graph, log)])))
    whole = state_after(graph, [*log, *then])
    cut = [*log, *then[: data.draw(st.integers(0, len(then)))]]
    again = Process.taking_over(graph, cut, rerun_if_lost)
    assert again.state.tasks == whole.tasks
    assert {*again.state.ready} == {*whole.ready}
    assert fresh_starts(cut) == fresh_starts([*log, *then])
