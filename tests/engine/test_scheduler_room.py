"""Runs that share the room of one process: who starts, who waits, and what wakes whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.errors import ExternalError
from engine.core.events import AttemptStarted, Event
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import AttemptOutcome, Status
from engine.core.spec import Limits
from engine.core.state import RunState
from engine.inbox import Inbox
from engine.ports import Reporter
from engine.scheduler import Means, Terms, run_graph
from tests.support.clock import LoopClock
from tests.support.executors import ScriptedExecutor, hangs, takes
from tests.support.graphs import graph_of
from tests.support.sinks import MemorySink

Tasks = Mapping[str, tuple[str, Sequence[str]]]


@dataclass(slots=True)
class LiveRun:
    """A run under a limiter; `tasks` maps each to its provider and to what it comes after."""

    limiter: Limiter
    tasks: Tasks
    executor: ScriptedExecutor
    concurrency: int = 16
    sink: MemorySink = field(default_factory=MemorySink)
    inbox: Inbox = field(default_factory=Inbox)

    async def play(self) -> RunState:
        clock = LoopClock()
        terms = Terms(
            graph=graph_of({name: after for name, (_, after) in self.tasks.items()}),
            providers={TaskId(name): provider for name, (provider, _) in self.tasks.items()},
            limits=Limits(concurrency=self.concurrency),
            deadline_at_ms=clock.now_ms() + 3_600_000,
        )
        return await run_graph(
            terms, Means(self.executor, self.sink, self.limiter, clock), self.inbox
        )

    def starts(self) -> list[TaskId]:
        """Return the tasks whose start was recorded, in order."""
        return [
            event.attempt.task for event in self.sink.events if isinstance(event, AttemptStarted)
        ]


def independent(provider: str, count: int) -> Tasks:
    """Return `count` tasks of one provider that do not wait for each other."""
    return {f"{provider}-{number}": (provider, ()) for number in range(count)}


def throttled_to_one(provider: str = "p") -> Limiter:
    """Return a limiter that lets one agent of the provider work."""
    limiter = Limiter()
    while limiter.capacity(provider) > 1:
        limiter.throttled(provider)
    return limiter


def assert_nothing_is_held(limiter: Limiter, global_cap: int = 16) -> None:
    """Assert that no slot is taken and that no run raises the cap."""
    assert limiter.room(()).total == global_cap


async def test_a_saturated_provider_holds_up_no_later_task_of_another(
    autojump_clock: MockClock,
) -> None:
    tasks: Tasks = {
        "p-1": ("p", ()),
        "p-2": ("p", ()),
        "p-3": ("p", ()),
        "q-1": ("q", ("p-1",)),
        "q-2": ("q", ("p-1",)),
    }
    run = LiveRun(throttled_to_one("p"), tasks, ScriptedExecutor(default=takes(1)))
    state = await run.play()
    assert run.starts() == ["p-1", "p-2", "q-1", "q-2", "p-3"]
    assert trio.current_time() == 3
    assert state.settled is Status.SUCCEEDED
    assert_nothing_is_held(run.limiter)


async def test_a_cap_over_all_providers_holds_for_all_runs_together(
    autojump_clock: MockClock,
) -> None:
    limiter, executor = Limiter(3), ScriptedExecutor(default=takes(1))
    runs = [
        LiveRun(limiter, independent(provider, 2), executor, concurrency=2) for provider in "pq"
    ]
    async with trio.open_nursery() as nursery:
        for run in runs:
            nursery.start_soon(run.play)
        await trio.sleep(0.5)
        assert len(executor.running) == 3
        # When the first three end, the fourth gets its slot without anybody looking at a clock.
        await trio.sleep(1)
        assert len(executor.running) == 1
    assert trio.current_time() == 2
    assert executor.most_running == 3
    assert_nothing_is_held(limiter, 3)


async def test_a_run_that_found_no_room_is_woken_by_the_end_of_an_attempt_of_another(
    autojump_clock: MockClock,
) -> None:
    limiter, first = throttled_to_one(), ScriptedExecutor(default=takes(5))
    second = LiveRun(limiter, independent("p", 1), ScriptedExecutor())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(LiveRun(limiter, independent("p", 1), first).play)
        await trio.sleep(1)
        nursery.start_soon(second.play)
        await trio.sleep(1)
        assert second.starts() == []
    assert second.starts() == ["p-0"]
    assert trio.current_time() == 5
    assert_nothing_is_held(limiter)


async def test_a_large_run_does_not_keep_a_small_one_waiting_to_its_end(
    autojump_clock: MockClock,
) -> None:
    limiter = throttled_to_one()
    large = LiveRun(limiter, independent("p", 100), ScriptedExecutor(default=takes(1)))
    small = LiveRun(limiter, independent("p", 1), ScriptedExecutor())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(large.play)
        await trio.sleep(0.5)
        await small.play()
        # Which of the two is awake first after an attempt is left to chance, a hundred times over.
        assert len(large.starts()) < 100
    assert_nothing_is_held(limiter)


async def test_good_answers_wake_a_run_that_waits_for_room(autojump_clock: MockClock) -> None:
    limiter = throttled_to_one()
    run = LiveRun(limiter, independent("p", 2), ScriptedExecutor(default=takes(5)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.play)
        await trio.sleep(1)
        for _ in range(9):
            limiter.answered("p")
        await trio.sleep(1)
        assert run.starts() == ["p-0"]
        limiter.answered("p")
        await wait_all_tasks_blocked()
        assert run.starts() == ["p-0", "p-1"]


async def test_a_shrink_stops_nobody(autojump_clock: MockClock) -> None:
    limiter = Limiter()
    run = LiveRun(limiter, independent("p", 12), ScriptedExecutor(default=takes(1)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.play)
        await trio.sleep(0.5)
        limiter.throttled("p")
        await wait_all_tasks_blocked()
        assert len(run.executor.running) == 8
        await trio.sleep(1)
        assert len(run.executor.running) == 4
    assert trio.current_time() == 2


async def test_a_large_run_raises_the_cap_for_as_long_as_it_goes_on(
    autojump_clock: MockClock,
) -> None:
    tasks = {**independent("p", 8), **independent("q", 8), **independent("r", 8)}
    run = LiveRun(Limiter(), tasks, ScriptedExecutor(default=takes(1)), concurrency=24)
    await run.play()
    assert run.executor.most_running == 24
    assert_nothing_is_held(run.limiter)


async def test_an_attempt_that_is_stopped_holds_its_slot_until_it_is_closed(
    autojump_clock: MockClock,
) -> None:
    async def ends_slowly(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        try:
            return await hangs(attempt, reporter)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)

    run = LiveRun(throttled_to_one(), independent("p", 2), ScriptedExecutor({"p-0": ends_slowly}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.play)
        await trio.sleep(1)
        run.inbox.request_cancel("not this one", TaskId("p-0"))
        await trio.sleep(4)
        assert run.starts() == ["p-0"]
    assert run.starts() == ["p-0", "p-1"]
    assert run.executor.calls == ["run p-0@1", "close p-0@1 cancel", "run p-1@1"]
    assert_nothing_is_held(run.limiter)


async def test_a_run_that_crashes_gives_its_slots_to_others(autojump_clock: MockClock) -> None:
    async def breaks(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        await trio.sleep(1)
        raise ExternalError("the disk is full")

    limiter = Limiter()
    broken = LiveRun(limiter, independent("p", 9), ScriptedExecutor({"p-0": breaks}, default=hangs))
    other = LiveRun(limiter, independent("p", 1), ScriptedExecutor())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_fails, broken)
        await trio.sleep(0.5)
        nursery.start_soon(other.play)
        await wait_all_tasks_blocked()
        assert other.starts() == []
    assert other.starts() == ["p-0"]
    assert trio.current_time() == 1
    assert_nothing_is_held(limiter)


async def _fails(run: LiveRun) -> None:
    with pytest.raises(ExternalError, match="the disk is full"):
        await run.play()


async def test_a_run_that_is_cancelled_from_outside_gives_its_slots_back(
    autojump_clock: MockClock,
) -> None:
    run = LiveRun(Limiter(), independent("p", 9), ScriptedExecutor(default=hangs))
    with trio.move_on_after(1):
        await run.play()
    assert len(run.starts()) == 8
    assert_nothing_is_held(run.limiter)


async def test_slots_of_starts_that_could_not_be_recorded_are_given_back() -> None:
    run = LiveRun(Limiter(), independent("p", 9), ScriptedExecutor(), sink=MemorySink(fail_at=1))
    await _fails(run)
    assert run.executor.calls == []
    assert_nothing_is_held(run.limiter)


async def test_room_is_taken_before_a_start_is_durable(autojump_clock: MockClock) -> None:
    class SlowSink(MemorySink):
        async def append(self, events: Sequence[Event]) -> None:
            await trio.sleep(1)
            await super().append(events)

    limiter, executor = throttled_to_one(), ScriptedExecutor(default=takes(1))
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            run = LiveRun(limiter, independent("p", 1), executor, sink=SlowSink())
            nursery.start_soon(run.play)
    assert executor.most_running == 1


async def test_waiting_for_room_takes_no_timer(mock_clock: MockClock) -> None:
    limiter = throttled_to_one()
    limiter.start("p")
    run = LiveRun(limiter, independent("p", 1), ScriptedExecutor())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.play)
        await wait_all_tasks_blocked()
        deadline_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        assert deadline_s == pytest.approx(3_600)
        limiter.end("p")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert run.starts() == ["p-0"]
