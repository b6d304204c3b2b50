"""What the loop costs, with tasks that do nothing."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, percentile
from engine.core.events import Event, Trace
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import AttemptOutcome, Status, Stop, Unstarted
from engine.core.spec import Kind, Limits, Mode, TaskSpec
from engine.eventlog import open_event_log
from engine.ports import EventSink, Reporter
from engine.scheduler import Inbox, run_graph
from engine.system.clock import SystemClock

_HOUR_MS = 3_600_000


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


class _Memory:
    """Keeps nothing."""

    async def append(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()

    def note(self, event: Trace) -> None:
        pass


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        in_memory = [await _dependent_delays(_Memory()) for _ in range(20)]
        durable = [await _with_log(Path(scratch) / f"{n}.jsonl", _mix()) for n in range(20)]
        before = time.perf_counter()
        await _with_log(Path(scratch) / "many.jsonl", _independent(10_000))
        many = time.perf_counter() - before
    return [
        Figure("dependent start, 64 tasks, in memory, p99", _p99(in_memory), "ms", 1),
        Figure("dependent start, 64 tasks, durable, p99", _p99(durable), "ms", 5),
        Figure("10,000 no-op tasks with the log", many, "s", 5),
    ]


def _p99(rounds: list[list[float]]) -> float:
    """Return the median over the rounds, since one stall of a shared machine spoils one round."""
    return median(percentile(delays, 99) for delays in rounds)


async def _with_log(path: Path, graph: TaskGraph) -> list[float]:
    async with open_event_log(path, run=RunId("bench"), clock=SystemClock(), mode=Mode.LEAN) as log:
        return await _dependent_delays(log, graph)


async def _dependent_delays(sink: EventSink, graph: TaskGraph | None = None) -> list[float]:
    """Return for each dependent the ms from its last predecessor's end to its own start."""
    graph = graph or _mix()
    executor, clock = _Nothing(), SystemClock()
    await run_graph(
        graph,
        executor,
        sink,
        inbox=Inbox(),
        limits=Limits(concurrency=64),
        deadline_at_ms=clock.now_ms() + _HOUR_MS,
        clock=clock,
    )
    return [
        (executor.began[task] - max(executor.ended[before] for before in predecessors)) / 1e6
        for task in graph.order
        if (predecessors := graph.predecessors[task])
    ]


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
