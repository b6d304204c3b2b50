from collections.abc import Sequence
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.errors import ExternalError
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    CancelRequested,
    CheckEnded,
    CheckStarted,
    CostLimitPassed,
    Decision,
    Event,
    RepairRequested,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    RunStarted,
    SteerDelivered,
    TaskQueued,
    TextDelta,
    UsageReported,
)
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, CheckId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import LOST_REASON, AttemptOutcome, Status, Stop, StopCause
from engine.core.recovery import opening_events, recover
from engine.core.repair import RepairRules, repair_events
from engine.core.spec import Kind, Limits
from engine.core.state import RunState
from engine.inbox import Inbox
from engine.ports import EventSink, Executor, Reporter
from engine.scheduler import Continuation, Means, Terms, run_graph
from tests.support.clock import LoopClock
from tests.support.executors import (
    SUCCESS,
    Behaviour,
    ScriptedExecutor,
    fails,
    hangs,
    succeeds,
    takes,
)
from tests.support.graphs import chain, graph_of, independent
from tests.support.sinks import MemorySink

A, B, C = TaskId("a"), TaskId("b"), TaskId("c")
NO_LIMITS = Limits()


async def play(
    graph: TaskGraph,
    executor: Executor,
    sink: EventSink,
    *,
    inbox: Inbox | None = None,
    limits: Limits = NO_LIMITS,
    begin: tuple[RunState, Sequence[Decision]] | None = None,
) -> RunState:
    clock = LoopClock()
    terms = Terms(
        graph,
        dict.fromkeys(graph.order, "p"),
        limits,
        deadline_at_ms=clock.now_ms() + limits.job_ms,
    )
    return await run_graph(
        terms,
        Means(executor, sink, Limiter(), clock),
        inbox or Inbox(),
        go_on=None if begin is None else Continuation(*begin),
    )


def statuses(state: RunState) -> dict[str, str]:
    return {name: task.status.value for name, task in state.tasks.items()}


def settled(sink: MemorySink) -> dict[str, AttemptOutcome]:
    return {
        str(event.attempt): event.outcome
        for event in sink.events
        if isinstance(event, AttemptSettled)
    }


def spends(*costs: float | None, then: Behaviour = succeeds) -> Behaviour:
    """Return a behaviour that reports each of `costs`, one a second, as its spending so far."""

    async def behave(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        for turns, cost in enumerate(costs, 1):
            await trio.sleep(1)
            reporter.note(UsageReported(attempt, turns, 0, 0, 0, cost))
        return await then(attempt, reporter)

    return behave


async def cancelled_when_idle(inbox: Inbox, reason: str, task: TaskId | None = None) -> None:
    await wait_all_tasks_blocked()
    inbox.request_cancel(reason, task)


async def test_a_run_is_queued_started_and_settled_in_one_append_per_turn() -> None:
    sink = MemorySink()
    state = await play(graph_of({"a": (), "b": ("a",)}), ScriptedExecutor(), sink)
    a, b = AttemptId(A, 1), AttemptId(B, 1)
    assert sink.appends == [
        [RunStarted(2), TaskQueued(A), TaskQueued(B), AttemptStarted(a)],
        [AttemptSettled(a, SUCCESS), AttemptStarted(b)],
        [AttemptSettled(b, SUCCESS), RunSettled(Status.SUCCEEDED)],
    ]
    assert state.settled is Status.SUCCEEDED


async def test_a_run_without_tasks_succeeds() -> None:
    sink = MemorySink()
    await play(graph_of({}), ScriptedExecutor(), sink)
    assert sink.events == [RunStarted(0), RunSettled(Status.SUCCEEDED)]


async def test_a_failure_blocks_its_dependents_and_nobody_else() -> None:
    executor, sink = ScriptedExecutor({"a": fails}), MemorySink()
    graph = graph_of({"a": (), "b": ("a",), "c": ("b",), "d": ()})
    state = await play(graph, executor, sink)
    assert statuses(state) == {"a": "failed", "b": "blocked", "c": "blocked", "d": "succeeded"}
    outcomes = settled(sink)
    assert outcomes["b@0"].reason == "predecessor 'a' ended failed"
    assert outcomes["c@0"].reason == "predecessor 'b' ended blocked"
    assert outcomes["c@0"].result_digest == "unstarted c"
    assert sorted(executor.started()) == ["a", "d"]
    assert sink.events[-1] == RunSettled(
        Status.FAILED, "3 of 4 tasks did not succeed: 'a' failed, 'b' blocked, 'c' blocked"
    )


async def test_a_chain_of_a_thousand_is_blocked_in_one_turn() -> None:
    executor, sink = ScriptedExecutor({"t-0": fails}), MemorySink()
    await play(chain(1_000), executor, sink)
    assert len(sink.appends) == 2
    assert [call.split()[0] for call in executor.calls] == ["run", "unstarted"]
    assert len(executor.unstarted) == 999


async def test_no_more_attempts_run_at_once_than_the_limit(autojump_clock: MockClock) -> None:
    executor = ScriptedExecutor(default=takes(1))
    await play(independent(12), executor, MemorySink(), limits=Limits(concurrency=3))
    assert executor.most_running == 3
    assert trio.current_time() == pytest.approx(4)
    assert sorted(executor.started()) == sorted(f"t-{number}" for number in range(12))


async def test_tasks_start_in_the_order_in_which_they_became_ready(
    autojump_clock: MockClock,
) -> None:
    graph = graph_of({"a": (), "b": (), "late": ("a",), "early": ("b",), "also-early": ("b",)})
    executor, sink = (
        ScriptedExecutor({"a": takes(2), "b": takes(1)}, default=takes(5)),
        MemorySink(),
    )
    await play(graph, executor, sink, limits=Limits(concurrency=2))
    starts = [event.attempt.task for event in sink.events if isinstance(event, AttemptStarted)]
    assert starts == ["a", "b", "early", "also-early", "late"]


async def test_cancelling_the_run_ends_all_of_its_tasks() -> None:
    executor, sink, inbox = ScriptedExecutor(default=hangs), MemorySink(), Inbox()
    graph = independent(64)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled_when_idle, inbox, "enough")
        state = await play(graph, executor, sink, inbox=inbox, limits=Limits(concurrency=8))
    assert set(statuses(state).values()) == {"cancelled"}
    assert {outcome.reason for outcome in settled(sink).values()} == {"enough"}
    assert sink.events[-1] == RunSettled(Status.CANCELLED, "enough")
    assert len(executor.started()) == 8
    assert sum(call.startswith("close ") for call in executor.calls) == 8


async def test_a_stop_is_durable_before_it_is_carried_out() -> None:
    executor, sink, inbox = ScriptedExecutor(default=hangs), MemorySink(), Inbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled_when_idle, inbox, "enough")
        await play(graph_of({"a": ()}), executor, sink, inbox=inbox)
    stop = Stop(StopCause.CANCEL, "enough")
    assert sink.appends[1] == [CancelRequested("enough"), AttemptStopping(AttemptId(A, 1), stop)]
    assert len(sink.appends) == 3


async def test_cancelling_one_running_task_leaves_the_other_alone() -> None:
    executor, sink, inbox = ScriptedExecutor({"a": hangs}), MemorySink(), Inbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled_when_idle, inbox, "not this one", A)
        state = await play(graph_of({"a": (), "b": ()}), executor, sink, inbox=inbox)
    assert statuses(state) == {"a": "cancelled", "b": "succeeded"}
    assert state.settled is Status.FAILED


async def test_cancelling_a_queued_task_blocks_what_waits_for_it(
    autojump_clock: MockClock,
) -> None:
    executor, sink, inbox = ScriptedExecutor({"a": takes(1)}), MemorySink(), Inbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled_when_idle, inbox, "not needed", B)
        graph = graph_of({"a": (), "b": ("a",), "c": ("b",)})
        state = await play(graph, executor, sink, inbox=inbox)
    assert statuses(state) == {"a": "succeeded", "b": "cancelled", "c": "blocked"}
    assert executor.calls == ["run a@1", "unstarted b c"]


async def test_a_cancel_that_was_ordered_before_the_start_starts_nothing() -> None:
    executor, sink, inbox = ScriptedExecutor(), MemorySink(), Inbox()
    inbox.request_cancel("changed my mind")
    await play(graph_of({"a": ()}), executor, sink, inbox=inbox)
    assert executor.calls == ["unstarted a"]
    assert len(sink.appends) == 1


async def test_a_second_cancel_changes_nothing_and_is_not_recorded() -> None:
    sink, inbox = MemorySink(), Inbox()
    closing = trio.Event()

    class SlowToClose(ScriptedExecutor):
        async def close(self, attempt: AttemptId, stop: Stop, reporter: Reporter) -> AttemptOutcome:
            await closing.wait()
            return await super().close(attempt, stop, reporter)

    async def order() -> None:
        await cancelled_when_idle(inbox, "first")
        await cancelled_when_idle(inbox, "second")
        await cancelled_when_idle(inbox, "third", A)
        await cancelled_when_idle(inbox, "fourth", TaskId("nobody"))
        await wait_all_tasks_blocked()
        closing.set()

    executor = SlowToClose(default=hangs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(order)
        await play(graph_of({"a": ()}), executor, sink, inbox=inbox)
    assert [e.reason for e in sink.events if isinstance(e, CancelRequested)] == ["first"]
    assert executor.calls == ["run a@1", "close a@1 cancel"]


async def test_an_outcome_that_arrives_before_the_cancel_is_folded_counts() -> None:
    inbox, sink = Inbox(), MemorySink()

    async def ends_as_the_cancel_comes(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        await wait_all_tasks_blocked()
        inbox.request_cancel("too late")
        return SUCCESS

    executor = ScriptedExecutor({"a": ends_as_the_cancel_comes})
    state = await play(graph_of({"a": (), "b": ("a",)}), executor, sink, inbox=inbox)
    assert statuses(state) == {"a": "succeeded", "b": "cancelled"}
    assert executor.calls == ["run a@1", "unstarted b"]
    assert state.settled is Status.CANCELLED


async def test_an_outcome_that_arrives_while_the_stop_is_recorded_gives_way_to_it() -> None:
    inbox, appending, ended = Inbox(), trio.Event(), trio.Event()

    class SlowSink(MemorySink):
        async def append(self, events: Sequence[Event]) -> None:
            if any(isinstance(event, AttemptStopping) for event in events):
                appending.set()
                await ended.wait()
                await wait_all_tasks_blocked()
                assert executor.calls == ["run a@1"]
            await super().append(events)

    async def ends_meanwhile(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        with trio.CancelScope(shield=True):
            await appending.wait()
        ended.set()
        return SUCCESS

    executor, sink = ScriptedExecutor({"a": ends_meanwhile}), SlowSink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled_when_idle, inbox, "stop it")
        state = await play(graph_of({"a": ()}), executor, sink, inbox=inbox)
    assert executor.calls == ["run a@1", "close a@1 cancel"]
    assert statuses(state) == {"a": "cancelled"}
    assert len(settled(sink)) == 1


async def test_a_task_out_of_time_is_closed_and_has_failed(autojump_clock: MockClock) -> None:
    executor, sink = ScriptedExecutor({"a": hangs}), MemorySink()
    graph = graph_of({"a": (), "b": ("a",), "c": ()})
    state = await play(graph, executor, sink, limits=Limits(task_ms=30))
    assert statuses(state) == {"a": "failed", "b": "blocked", "c": "succeeded"}
    stop = Stop(StopCause.TASK_DEADLINE, "task deadline of 30 ms passed")
    assert AttemptStopping(AttemptId(A, 1), stop) in sink.events
    assert settled(sink)["a@1"].reason == stop.reason
    assert executor.calls[-2:] == ["close a@1 task deadline", "unstarted b"]
    assert trio.current_time() == pytest.approx(0.03)


async def test_work_that_a_task_deadline_cannot_interrupt_counts_when_it_is_done(
    autojump_clock: MockClock,
) -> None:
    async def saves(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return SUCCESS

    sink = MemorySink()
    state = await play(
        graph_of({"a": ()}), ScriptedExecutor({"a": saves}), sink, limits=Limits(task_ms=30)
    )
    assert statuses(state) == {"a": "succeeded"}


async def test_a_cancel_while_a_task_deadline_is_recorded_does_not_close_twice(
    autojump_clock: MockClock,
) -> None:
    inbox, sink = Inbox(), MemorySink()

    async def cancelled_in_time(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        try:
            return await hangs(attempt, reporter)
        finally:
            inbox.request_cancel("enough")

    executor = ScriptedExecutor({"a": cancelled_in_time})
    state = await play(graph_of({"a": ()}), executor, sink, inbox=inbox, limits=Limits(task_ms=30))
    # Both are in one batch, the cancel first; what was announced first is the deadline.
    assert executor.calls == ["run a@1", "close a@1 task deadline"]
    assert statuses(state) == {"a": "failed"}
    assert sum(isinstance(event, AttemptStopping) for event in sink.events) == 1


async def test_the_run_deadline_fails_what_runs_and_cancels_what_waits(
    autojump_clock: MockClock,
) -> None:
    executor, sink = ScriptedExecutor({"a": hangs}), MemorySink()
    state = await play(graph_of({"a": (), "b": ("a",)}), executor, sink, limits=Limits(job_ms=30))
    reason = "run deadline of 30 ms passed"
    assert statuses(state) == {"a": "failed", "b": "cancelled"}
    assert {outcome.reason for outcome in settled(sink).values()} == {reason}
    assert RunDeadlinePassed(30) in sink.events
    assert sink.events[-1] == RunSettled(Status.FAILED, reason)


async def test_a_run_whose_deadline_is_over_starts_nothing() -> None:
    executor, sink, clock = ScriptedExecutor(), MemorySink(), LoopClock()
    graph = graph_of({"a": ()})
    state = await run_graph(
        Terms(graph, {A: "p"}, NO_LIMITS, deadline_at_ms=clock.now_ms()),
        Means(executor, sink, Limiter(), clock),
        Inbox(),
    )
    assert executor.calls == ["unstarted a"]
    assert state.settled is Status.FAILED


async def test_together_spending_too_much_cancels_the_run(autojump_clock: MockClock) -> None:
    executor = ScriptedExecutor({"a": spends(0.6, then=hangs), "b": spends(0.1, 0.5, then=hangs)})
    sink = MemorySink()
    graph = graph_of({"a": (), "b": (), "c": ("a", "b")})
    state = await play(graph, executor, sink, limits=Limits(cost_usd=1.0))
    assert set(statuses(state).values()) == {"cancelled"}
    reason = "cost limit of 1 USD passed: 1.1 USD spent"
    assert {outcome.reason for outcome in settled(sink).values()} == {reason}
    assert sink.events[-1] == RunSettled(Status.CANCELLED, reason)
    assert CostLimitPassed(1.0, 1.1) in sink.events


async def test_an_agent_that_alone_spends_too_much_has_failed(autojump_clock: MockClock) -> None:
    executor, sink = ScriptedExecutor({"a": spends(0.4, 0.8, 1.2, then=hangs)}), MemorySink()
    graph = graph_of({"a": (), "b": ("a",)})
    state = await play(graph, executor, sink, limits=Limits(cost_usd=1.0))
    assert statuses(state) == {"a": "failed", "b": "cancelled"}
    assert settled(sink)["a@1"].reason == "cost limit: 1.2 USD spent where 1 USD were left"
    assert state.settled is Status.CANCELLED


async def test_a_cost_that_is_only_known_at_the_end_counts_too() -> None:
    async def dear(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        return AttemptOutcome(Status.SUCCEEDED, cost_usd=1.5)

    executor, sink = ScriptedExecutor({"a": dear}), MemorySink()
    graph = graph_of({"a": (), "b": ("a",)})
    state = await play(graph, executor, sink, limits=Limits(cost_usd=1.0))
    assert statuses(state) == {"a": "succeeded", "b": "cancelled"}
    assert state.settled is Status.CANCELLED


async def test_spending_exactly_the_limit_stops_nothing(autojump_clock: MockClock) -> None:
    executor = ScriptedExecutor({"a": spends(0.1, 0.3), "b": spends(0.1, 0.7), "c": spends(None)})
    state = await play(
        graph_of({"a": (), "b": (), "c": ()}), executor, MemorySink(), limits=Limits(cost_usd=1.0)
    )
    assert state.settled is Status.SUCCEEDED
    assert state.spent_usd == pytest.approx(1.0)


async def test_a_recorded_event_is_durable_when_record_returns() -> None:
    sink = MemorySink()
    seen: list[bool] = []

    async def checks(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        for event in (
            CheckStarted(attempt, CheckId("lint")),
            CheckEnded(attempt, CheckId("lint"), passed=True, duration_ms=3),
            SteerDelivered(attempt, "look at b.py", follow_up=False),
        ):
            assert event not in sink.events
            await reporter.record(event)
            seen.append(event in sink.events)
        return SUCCESS

    await play(graph_of({"a": ()}), ScriptedExecutor({"a": checks}), sink)
    assert seen == [True, True, True]


async def test_late_events_of_a_settled_attempt_are_dropped() -> None:
    sink = MemorySink()
    kept: list[Reporter] = []

    async def leaks(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        kept.append(reporter)
        return SUCCESS

    async def reports_late(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        await kept[0].record(CheckStarted(AttemptId(A, 1), CheckId("lint")))
        await kept[0].record(SteerDelivered(AttemptId(A, 1), "too late", follow_up=False))
        return SUCCESS

    executor = ScriptedExecutor({"a": leaks, "b": reports_late})
    await play(graph_of({"a": (), "b": ("a",)}), executor, sink)
    assert not any(isinstance(event, CheckStarted | SteerDelivered) for event in sink.events)


async def test_a_noted_event_goes_to_the_sink_without_waking_the_loop() -> None:
    sink = MemorySink()

    async def talks(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        reporter.note(TextDelta(attempt, "hello"))
        return SUCCESS

    await play(graph_of({"a": ()}), ScriptedExecutor({"a": talks}), sink)
    assert sink.events[3] == TextDelta(AttemptId(A, 1), "hello")
    assert len(sink.appends) == 2


async def test_cancelling_from_outside_leaves_the_log_as_it_stands(
    autojump_clock: MockClock,
) -> None:
    executor, sink = ScriptedExecutor(default=takes(10)), MemorySink()
    with trio.move_on_after(0.5) as scope:
        await play(graph_of({"a": ()}), executor, sink)
    assert scope.cancelled_caught
    assert sink.events == [RunStarted(1), TaskQueued(A), AttemptStarted(AttemptId(A, 1))]
    assert not executor.running
    assert executor.calls == ["run a@1"]


@pytest.mark.parametrize("error", [ExternalError("no model"), RuntimeError("a bug")])
async def test_an_error_out_of_an_executor_ends_the_run_and_records_nothing(
    error: Exception,
) -> None:
    async def breaks(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        await wait_all_tasks_blocked()
        raise error

    executor, sink = ScriptedExecutor({"a": breaks, "b": hangs}), MemorySink()
    with pytest.raises(type(error)) as caught:
        await play(graph_of({"a": (), "b": ()}), executor, sink)
    assert caught.value is error
    assert len(sink.appends) == 1
    assert not executor.running


async def test_an_error_inside_an_executors_own_nursery_keeps_its_class() -> None:
    error = ExternalError("deep down")

    async def breaks(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        raise ExceptionGroup("nursery", [error])

    with pytest.raises(ExternalError) as caught:
        await play(graph_of({"a": ()}), ScriptedExecutor({"a": breaks}), MemorySink())
    assert caught.value is error


async def test_a_log_that_cannot_be_written_ends_the_run() -> None:
    executor, sink = ScriptedExecutor({"b": hangs}), MemorySink(fail_at=2)
    with pytest.raises(ExternalError, match="the disk is full"):
        await play(graph_of({"a": (), "b": (), "c": ("a",)}), executor, sink)
    assert len(sink.appends) == 1
    assert sorted(executor.started()) == [A, B]
    assert not executor.running


async def test_a_recovered_run_goes_on_with_what_was_queued() -> None:
    graph = graph_of({"a": (), "b": ("a",), "c": (), "d": ("c",)})
    log = [
        *opening_events(graph),
        AttemptStarted(AttemptId(A, 1)),
        AttemptStarted(AttemptId(C, 1)),
        AttemptSettled(AttemptId(C, 1), SUCCESS),
    ]
    recovery = recover(graph, log, reason="the owner died")
    executor, sink = ScriptedExecutor(), MemorySink()
    state = await play(graph, executor, sink, begin=(recovery.state, recovery.events(["lost"])))
    assert statuses(state) == {"a": "cancelled", "c": "succeeded", "b": "blocked", "d": "succeeded"}
    assert sink.appends[0] == [
        RunResumed("the owner died"),
        AttemptSettled(
            AttemptId(A, 1), AttemptOutcome(Status.CANCELLED, LOST_REASON, result_digest="lost")
        ),
        AttemptSettled(
            AttemptId(B, 0),
            AttemptOutcome(
                Status.BLOCKED, "predecessor 'a' ended cancelled", result_digest="unstarted b"
            ),
        ),
        AttemptStarted(AttemptId(TaskId("d"), 1)),
    ]
    assert executor.started() == ["d"]
    assert state.settled is Status.FAILED


async def test_a_run_whose_end_was_not_recorded_gets_it() -> None:
    graph, first = graph_of({"a": ()}), MemorySink()
    await play(graph, ScriptedExecutor(), first)
    recovery = recover(graph, first.events[:-1], reason="the owner died")
    executor, second = ScriptedExecutor(), MemorySink()
    await play(graph, executor, second, begin=(recovery.state, recovery.events([])))
    assert second.events == [RunResumed("the owner died"), RunSettled(Status.SUCCEEDED)]
    assert executor.calls == []


RULES = RepairRules({A: Kind.WRITER, B: Kind.REVIEWER}, 2)


async def test_a_settled_run_that_is_repaired_tries_the_task_and_its_dependents_again() -> None:
    graph, first = graph_of({"a": (), "b": ("a",), "c": ()}), MemorySink()
    state = await play(graph, ScriptedExecutor({"a": fails}), first)
    executor, second = ScriptedExecutor(), MemorySink()
    state = await play(graph, executor, second, begin=(state, repair_events(state, A, "mend it")))
    assert second.events[:5] == [
        RunResumed("repair of a"),
        RepairRequested(A, "mend it"),
        TaskQueued(A),
        TaskQueued(B),
        AttemptStarted(AttemptId(A, 2)),
    ]
    assert executor.calls == ["run a@2", "run b@1"]
    assert state.settled is Status.SUCCEEDED


@pytest.mark.parametrize("crash_at", range(1, 7))
async def test_a_run_that_dies_at_any_append_is_recovered_to_an_end(crash_at: int) -> None:
    graph = graph_of({"a": (), "b": ("a",), "c": ("b",), "d": ()})
    first = MemorySink(fail_at=crash_at)

    with suppress(ExternalError):  # the later ones come after the end
        await play(graph, ScriptedExecutor(), first)
    recovery = recover(graph, first.events, reason="the owner died")
    second = MemorySink()
    state = await play(
        graph,
        ScriptedExecutor(),
        second,
        begin=(recovery.state, recovery.events(["lost"] * len(recovery.lost))),
    )
    assert state.settled is not None
    assert all(task.status.is_final for task in state.tasks.values())
    log = [*first.events, *second.events]
    assert sum(isinstance(event, RunSettled) for event in log) == 1
    starts = [event.attempt for event in log if isinstance(event, AttemptStarted)]
    assert len(starts) == len(set(starts))
    again = recover(graph, log, reason="nothing to do")
    assert (again.lost, again.first) == ((), ())


async def test_64_tasks_keep_starting_without_a_timer(autojump_clock: MockClock) -> None:
    graph = graph_of(
        {f"root-{r}": () for r in range(8)}
        | {f"leaf-{r}-{c}": (f"root-{r}",) for r in range(8) for c in range(3)}
        | {
            f"chain-{r}-{c}": ((f"chain-{r}-{c - 1}",) if c else ())
            for r in range(8)
            for c in range(4)
        }
    )
    executor = ScriptedExecutor()
    state = await play(graph, executor, MemorySink(), limits=Limits(concurrency=64))
    assert state.settled is Status.SUCCEEDED
    assert len(executor.started()) == 64
    assert trio.current_time() == 0
