"""Measures what the programs of a run's attempts use, for as long as any of them runs.

Only a run in the mode `observe` is measured: nobody reads /proc for another, and no timer runs.
"""

import importlib
import math
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import trio

from engine.core.events import TelemetryReported, Trace
from engine.core.ids import AttemptId
from engine.core.outcome import AttemptOutcome, Stop, Unstarted
from engine.core.spec import Mode
from engine.ports import Executor, Reporter
from engine.system.meter import Program, Resources, measure_programs
from engine.system.nursery import open_flat_nursery

# Most commands are short, so a program is looked at soon after its start, then less often.
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0
# How often an attempt is reported at most, but for its last report.
_INTERVAL_S = 1.0

ReadResources = Callable[[Collection[Program]], Awaitable[Mapping[Program, Resources]]]


@asynccontextmanager
async def open_telemetry(
    executor: Executor, *, mode: Mode, token: str, note: Callable[[Trace], None]
) -> AsyncIterator[Executor]:
    """Have the attempts of `executor` measured inside the block, if `mode` wants that.

    Args:
        executor: carries out the attempts of a run.
        mode: of the run.
        token: what the marks of the run's programs begin with; the label is the attempt.
        note: told what the programs use.

    Yields:
        What carries out the attempts instead.
    """
    if mode is not Mode.OBSERVE:
        yield executor
        return
    # The library behind it takes a while to load, and a run that is not measured does without.
    module = await trio.to_thread.run_sync(importlib.import_module, "engine.system.resources")
    telemetry = Telemetry(partial(trio.to_thread.run_sync, module.read_resources), note)
    with measure_programs(token, telemetry):
        async with open_flat_nursery() as nursery:
            nursery.start_soon(telemetry.watch)
            yield MeasuredExecutor(executor, telemetry)
            nursery.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class MeasuredExecutor:
    """Carries attempts out as another one does, measured; see `engine.ports.Executor`."""

    executor: Executor
    telemetry: "Telemetry"

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        """Carry the attempt out, measured from its beginning to its end."""
        with self.telemetry.measure(attempt):
            return await self.executor.run(attempt, reporter)

    async def close(self, attempt: AttemptId, stop: Stop, reporter: Reporter) -> AttemptOutcome:
        """Save what a stopped attempt left behind."""
        return await self.executor.close(attempt, stop, reporter)

    async def settle_unstarted(self, tasks: Sequence[Unstarted]) -> Sequence[str | None]:
        """Save the results of tasks that never started."""
        return await self.executor.settle_unstarted(tasks)


@dataclass(slots=True)
class _Gauge:
    """What is known of one attempt.

    Attributes:
        running: what each of its programs used when it was last looked at.
        ended: what those used together that have ended.
        peak_bytes: the most memory that was seen.
        due_s: when it may be reported again.
        told: the newest report; at first that nothing was used.
    """

    attempt: AttemptId
    running: dict[Program, Resources] = field(default_factory=dict)
    ended: Resources = field(default_factory=Resources)
    peak_bytes: int = 0
    due_s: float = -math.inf
    told: TelemetryReported = field(init=False)

    def __post_init__(self) -> None:
        """Take it as told that nothing was used."""
        self.told = self.report()

    def look(self, found: Mapping[Program, Resources]) -> None:
        """Take what was read of the programs; some may have ended since, or started."""
        for program in self.running.keys() & found.keys():
            self.running[program] = self.running[program].followed_by(found[program])
        self.peak_bytes = max(self.peak_bytes, self._total().memory_bytes)

    def end(self, program: Program, found: Resources) -> None:
        """Add to the rest what a program that has ended used."""
        last = self.running.pop(program).followed_by(found)
        self.ended = self.ended.plus(replace(last, memory_bytes=0, processes=0))

    def report(self) -> TelemetryReported:
        """Return how things stand."""
        now = self._total()
        return TelemetryReported(
            self.attempt,
            round(now.cpu_s, 2),
            now.memory_bytes,
            self.peak_bytes,
            now.processes,
            now.read_bytes,
            now.written_bytes,
        )

    def _total(self) -> Resources:
        total = self.ended
        for used in self.running.values():
            total = total.plus(used)
        return total


class Telemetry:
    """Measures the attempts of one run; see `engine.system.meter.Meter`."""

    def __init__(self, read_resources: ReadResources, note: Callable[[Trace], None]) -> None:
        """Get ready.

        Args:
            read_resources: see `engine.system.resources`; does not block the loop.
            note: told what programs use.
        """
        self._read_resources = read_resources
        self._note = note
        self._gauges: dict[str, _Gauge] = {}
        self._has_work = trio.Event()

    @contextmanager
    def measure(self, attempt: AttemptId) -> Iterator[None]:
        """Measure an attempt inside the block; its last numbers are told when that is left."""
        gauge = self._gauges[str(attempt)] = _Gauge(attempt)
        try:
            yield
        finally:
            del self._gauges[str(attempt)]
            self._tell(gauge)

    def began(self, program: Program) -> None:
        """Have a program looked at from now on, if it is one of an attempt's."""
        gauge = self._gauges.get(program.label)
        if gauge is not None:
            gauge.running[program] = Resources()
            self._has_work.set()

    async def ended(self, program: Program) -> None:
        """Look at a program for the last time."""
        gauge = self._gauges.get(program.label)
        if gauge is None or program not in gauge.running:
            return
        found = await self._read_resources((program,))
        gauge.end(program, found[program])

    async def watch(self) -> None:
        """Look at whatever runs, and tell what is due; wait without a timer while nothing runs."""
        while True:
            await self._has_work.wait()
            pause_s = _FIRST_PAUSE_S
            while self._has_news():
                await trio.sleep(pause_s)
                await self._look()
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self._has_work = trio.Event()

    def _has_news(self) -> bool:
        """Whether something runs, or has ended and was not told yet."""
        return any(gauge.running or gauge.report() != gauge.told for gauge in self._gauges.values())

    async def _look(self) -> None:
        programs = [each for gauge in self._gauges.values() for each in gauge.running]
        if programs:
            found = await self._read_resources(programs)
            for gauge in self._gauges.values():
                gauge.look(found)
        now_s = trio.current_time()
        for gauge in self._gauges.values():
            if gauge.due_s <= now_s:
                gauge.due_s = now_s + _INTERVAL_S
                self._tell(gauge)

    def _tell(self, gauge: _Gauge) -> None:
        report = gauge.report()
        if report != gauge.told:
            gauge.told = report
            self._note(report)
