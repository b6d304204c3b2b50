"""Random graphs, agents that end in every way, and cancels at any moment."""

from dataclasses import dataclass

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock

from engine.core.events import AttemptSettled, AttemptStarted, AttemptStopping, Event, RunSettled
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import AttemptOutcome, Status
from engine.core.reduce import reduce
from engine.core.spec import Limits
from engine.core.state import RunState
from engine.inbox import Inbox
from engine.scheduler import Means, Terms, run_graph
from tests.support.clock import LoopClock
from tests.support.executors import Behaviour, ScriptedExecutor, fails, hangs, succeeds, takes
from tests.support.graphs import graph_of
from tests.support.sinks import MemorySink

pytestmark = pytest.mark.slow

MOMENTS = st.sampled_from([0, 0.01, 0.02, 0.03, 0.05])
PROVIDERS = st.sampled_from("pq")
BEHAVIOURS = st.builds(takes, MOMENTS, st.sampled_from([succeeds, succeeds, fails, hangs]))


@dataclass(frozen=True, slots=True)
class Story:
    """What happens in one run."""

    graph: TaskGraph
    behaviours: dict[str, Behaviour]
    cancels: list[tuple[float, TaskId | None]]
    limits: Limits
    providers: dict[TaskId, str]
    refusals: list[tuple[float, str]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    names = [f"t-{number}" for number in range(draw(st.integers(1, 8)))]
    edges = {
        name: draw(st.lists(st.sampled_from(names[:place]), max_size=3, unique=True))
        if place
        else []
        for place, name in enumerate(names)
    }
    whom = st.none() | st.sampled_from([TaskId(name) for name in names])
    limits = st.builds(
        Limits,
        concurrency=st.integers(1, 3),
        task_ms=st.sampled_from([25, 1_000]),
        job_ms=st.sampled_from([20, 30, 10_000]),
    )
    return Story(
        graph_of(edges),
        {name: draw(BEHAVIOURS) for name in names},
        draw(st.lists(st.tuples(MOMENTS, whom), max_size=3)),
        draw(limits),
        {TaskId(name): draw(PROVIDERS) for name in names},
        draw(st.lists(st.tuples(MOMENTS, PROVIDERS), max_size=5)),
    )


async def play(
    story: Story, executor: ScriptedExecutor, sink: MemorySink, limiter: Limiter
) -> RunState:
    clock, inbox = LoopClock(), Inbox()

    async def cancel(moment: float, task: TaskId | None) -> None:
        await trio.sleep(moment)
        inbox.request_cancel("enough", task)

    async def refuse(moment: float, provider: str) -> None:
        await trio.sleep(moment)
        limiter.throttled(provider)

    async with trio.open_nursery() as nursery:
        for moment, task in story.cancels:
            nursery.start_soon(cancel, moment, task)
        for moment, provider in story.refusals:
            nursery.start_soon(refuse, moment, provider)
        deadline_at_ms = clock.now_ms() + story.limits.job_ms
        state = await run_graph(
            Terms(story.graph, story.providers, story.limits, deadline_at_ms),
            Means(executor, sink, limiter, clock),
            inbox,
        )
        nursery.cancel_scope.cancel()
    return state


@given(stories())
def test_every_run_ends_with_all_tasks_final_and_a_log_that_says_so(story: Story) -> None:
    executor, sink, limiter = ScriptedExecutor(story.behaviours), MemorySink(), Limiter(2)
    clock = MockClock(autojump_threshold=0)
    state = trio.run(play, story, executor, sink, limiter, clock=clock)

    assert not executor.running
    assert limiter.room(()).total == 2
    assert executor.most_running <= story.limits.concurrency
    assert all(task.status.is_final for task in state.tasks.values())
    assert isinstance(sink.events[-1], RunSettled)
    assert_replays(story.graph, sink.events, state)
    for name in story.graph.order:
        assert_orderly(name, sink.events, executor)


def assert_replays(graph: TaskGraph, events: list[Event], state: RunState) -> None:
    """Assert that every recorded event was news, and that together they give the state."""
    again = RunState(graph)
    assert all(reduce(again, event) for event in events)
    assert again.tasks == state.tasks
    assert again.settled is state.settled


def assert_orderly(name: TaskId, events: list[Event], executor: ScriptedExecutor) -> None:
    """Assert that a task was started once at most, closed only if stopped, and settled once."""
    attempt = AttemptId(name, 1)
    mine = [
        event
        for event in events
        if isinstance(event, AttemptStarted | AttemptStopping | AttemptSettled)
        and event.attempt.task == name
    ]
    closes = sum(call.startswith(f"close {attempt} ") for call in executor.calls)
    match mine:
        case [AttemptSettled(attempt=AttemptId(number=0), outcome=outcome)]:
            assert outcome.status in {Status.BLOCKED, Status.CANCELLED}
            assert f"run {attempt}" not in executor.calls
        case [AttemptStarted(), AttemptSettled()]:
            assert closes == 0
        case [AttemptStarted(), AttemptStopping(stop=stop), AttemptSettled(outcome=outcome)]:
            assert closes == 1
            assert outcome == AttemptOutcome(stop.status, stop.reason, result_digest="closed")
        case _:
            raise AssertionError(mine)
