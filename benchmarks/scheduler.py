"""What the loop costs, with tasks that do nothing."""

import resource
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, medians_ms, percentile, seconds
from engine.core.events import Event, Trace
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import AttemptOutcome, Status, Stop, Unstarted
from engine.core.spec import Kind, Limits, Mode, TaskSpec
from engine.eventlog import open_event_log
from engine.inbox import Inbox
from engine.ports import EventSink, Reporter
from engine.scheduler import Means, Terms, run_graph
from engine.store import RunFolder
from engine.system.clock import SystemClock

_HOUR_MS = 3_600_000
_CONCURRENCY = 64
_PROVIDER = "p"
_BUSY_PROVIDER = "busy"
_RESULT = b'{"status": "succeeded"}\n'


class _Nothing:
    """Ends every attempt at once and notes when it began and ended."""

    def __init__(self) -> None:
        self.began: dict[TaskId, int] = {}
        self.ended: dict[TaskId, int] = {}

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        self.began[attempt.task] = time.perf_counter_ns()
        await trio.lowlevel.checkpoint()
        self.ended[attempt.task] = time.perf_counter_ns()
        return AttemptOutcome(Status.SUCCEEDED)

    async def close(self, attempt: AttemptId, stop: Stop, reporter: Reporter) -> AttemptOutcome:
        await trio.lowlevel.checkpoint()
        return AttemptOutcome(stop.status, stop.reason)

    async def settle_unstarted(self, tasks: Sequence[Unstarted]) -> Sequence[str | None]:
        await trio.lowlevel.checkpoint()
        return [None for _ in tasks]


class _Counted(_Nothing):
    """Tells when so many attempts have ended, and when that was."""

    def __init__(self, due: int) -> None:
        super().__init__()
        self.due = due
        self.done = trio.Event()

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        outcome = await super().run(attempt, reporter)
        if len(self.ended) == self.due:
            self.done.set()
        return outcome

    @property
    def taken_ms(self) -> float:
        """From the first start to the last end."""
        return (max(self.ended.values()) - min(self.began.values())) / 1e6


class _Saving(_Nothing):
    """Makes a result durable for every task, started or not."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        digest = await trio.to_thread.run_sync(self.folder.save_result, attempt, _RESULT)
        return AttemptOutcome(Status.SUCCEEDED, result_digest=digest)

    async def settle_unstarted(self, tasks: Sequence[Unstarted]) -> Sequence[str | None]:
        results = [(AttemptId(each.task, 0), _RESULT) for each in tasks]
        return await trio.to_thread.run_sync(self.folder.save_results, results)


class _Hanging(_Saving):
    """Waits for its stop."""

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        await trio.sleep_forever()
        raise AssertionError


class _Memory:
    """Keeps nothing."""

    async def append(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()

    def note(self, event: Trace) -> None:
        pass


class _Counting:
    """Passes everything on, and counts events and how often they are made durable."""

    def __init__(self, sink: EventSink) -> None:
        self.sink = sink
        self.events = 0
        self.flushes = 0

    async def append(self, events: Sequence[Event]) -> None:
        self.events += len(events)
        self.flushes += 1
        await self.sink.append(events)

    def note(self, event: Trace) -> None:
        self.sink.note(event)


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        numbers = count()

        def new_folder() -> RunFolder:
            return RunFolder.create(Path(scratch) / str(next(numbers)))

        in_memory = [await _dependent_delays(_Memory(), _mix()) for _ in range(20)]
        durable = [await _with_log(new_folder(), _mix()) for _ in range(20)]
        many, one_thousand = _independent(10_000), _independent(1_000)

        async def ten_small_runs() -> None:
            for _ in range(10):
                await _with_log(new_folder(), one_thousand)

        large, small = await medians_ms(
            lambda: _with_log(new_folder(), many), ten_small_runs, rounds=3
        )
        folder = new_folder()
        saving = await seconds(lambda: _with_log(folder, many, _Saving(folder)))
        flushes = await _flushes_per_event(new_folder())
        cancelling = await _cancel_seconds(new_folder())
        past_many, past_few = await _past_waiting_ms()
    return [
        Figure("dependent start, 64 tasks, in memory, p99", _p99(in_memory), "ms", 1),
        Figure("dependent start, 64 tasks, durable, p99", _p99(durable), "ms", 5),
        Figure("10,000 no-op tasks with the log", large / 1000, "s", 5),
        Figure("10,000 tasks over ten times 1,000", large, "ms", 1.3, small),
        Figure("10,000 tasks with a durable result each", saving, "s", 30),
        Figure("flushes per event, 64 tasks running", flushes, "", 0.5),
        Figure("1,000 queued tasks cancelled", cancelling, "s", 1),
        Figure("1,000 tasks past 10,000 without room, over 10", past_many, "ms", 1.3, past_few),
        Figure("10,000 no-op tasks, memory of the process", await _peak_mb(), "MB", 200),
    ]


async def _flushes_per_event(folder: RunFolder) -> float:
    async with open_event_log(
        folder.events_file, run=folder.run, clock=SystemClock(), mode=Mode.LEAN
    ) as log:
        counting = _Counting(log)
        await _dependent_delays(counting, _independent(1_000), _Saving(folder))
    return counting.flushes / counting.events


async def _cancel_seconds(folder: RunFolder) -> float:
    """Return how long it takes until 1,000 queued and 64 running tasks are cancelled."""
    inbox, began = Inbox(), 0.0

    async def cancel() -> None:
        nonlocal began
        await trio.sleep(0.2)
        began = time.perf_counter()
        inbox.request_cancel("enough")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel)
        await _with_log(folder, _independent(1_064), _Hanging(folder), inbox)
    return time.perf_counter() - began


async def _past_waiting_ms() -> tuple[float, float]:
    """Return what 1,000 tasks take past 10,000 older ones without room, and past 10 of them."""
    many, few = list[float](), list[float]()
    for _ in range(9):
        many.append(await _past_ms(10_000))
        few.append(await _past_ms(10))
    return median(many), median(few)


async def _past_ms(waiting: int) -> float:
    providers = dict.fromkeys((f"w{number}" for number in range(waiting)), _BUSY_PROVIDER)
    providers |= dict.fromkeys((f"t{number}" for number in range(1_000)), _PROVIDER)
    limiter, executor, inbox, clock = _limiter(), _Counted(1_000), Inbox(), SystemClock()
    while limiter.room((_BUSY_PROVIDER,)).free[_BUSY_PROVIDER] > 0:
        limiter.start(_BUSY_PROVIDER)
    terms = Terms(
        _graph({name: [] for name in providers}),
        {TaskId(name): provider for name, provider in providers.items()},
        Limits(concurrency=_CONCURRENCY),
        clock.now_ms() + _HOUR_MS,
    )

    async def cancel_the_rest() -> None:
        await executor.done.wait()
        inbox.request_cancel("measured")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_the_rest)
        await run_graph(terms, Means(executor, _Memory(), limiter, clock), inbox)
    return executor.taken_ms


async def _peak_mb() -> float:
    """Return the most memory that a process which does nothing but such a run has had."""
    done = await trio.run_process([sys.executable, "-m", __name__], capture_stdout=True)
    return int(done.stdout) / 1024


async def _alone() -> None:
    with TemporaryDirectory() as scratch:
        await _with_log(RunFolder.create(Path(scratch)), _independent(10_000))


def _p99(rounds: list[list[float]]) -> float:
    """Return the median over the rounds, since one stall of a shared machine spoils one round."""
    return median(percentile(delays, 99) for delays in rounds)


async def _with_log(
    folder: RunFolder,
    graph: TaskGraph,
    executor: _Nothing | None = None,
    inbox: Inbox | None = None,
) -> list[float]:
    async with open_event_log(
        folder.events_file, run=folder.run, clock=SystemClock(), mode=Mode.LEAN
    ) as log:
        return await _dependent_delays(log, graph, executor, inbox)


async def _dependent_delays(
    sink: EventSink,
    graph: TaskGraph,
    executor: _Nothing | None = None,
    inbox: Inbox | None = None,
) -> list[float]:
    """Return for each dependent the ms from its last predecessor's end to its own start."""
    executor, clock = executor or _Nothing(), SystemClock()
    await run_graph(
        Terms(
            graph,
            dict.fromkeys(graph.order, _PROVIDER),
            Limits(concurrency=_CONCURRENCY),
            clock.now_ms() + _HOUR_MS,
        ),
        Means(executor, sink, _limiter(), clock),
        inbox or Inbox(),
    )
    return [
        (executor.began[task] - max(executor.ended[before] for before in predecessors)) / 1e6
        for task in graph.order
        if (predecessors := graph.predecessors[task])
    ]


def _limiter() -> Limiter:
    """Return a limiter whose provider has answered so well that it holds nobody up."""
    limiter = Limiter(_CONCURRENCY)
    while limiter.capacity(_PROVIDER) < _CONCURRENCY:
        limiter.answered(_PROVIDER)
    return limiter


def _mix() -> TaskGraph:
    """Return 8 roots with 3 children each, and 8 chains of 4."""
    edges: dict[str, list[str]] = {}
    for root in range(8):
        edges[f"r{root}"] = []
        edges |= {f"r{root}-{child}": [f"r{root}"] for child in range(3)}
        edges |= {f"c{root}-{link}": [f"c{root}-{link - 1}"] * (link > 0) for link in range(4)}
    return _graph(edges)


def _independent(count: int) -> TaskGraph:
    return _graph({f"t{number}": [] for number in range(count)})


def _graph(edges: dict[str, list[str]]) -> TaskGraph:
    return TaskGraph.build(
        [
            TaskSpec(TaskId(name), "scout", Kind.READER, "do", after=tuple(map(TaskId, after)))
            for name, after in edges.items()
        ]
    )


if __name__ == "__main__":
    trio.run(_alone)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
