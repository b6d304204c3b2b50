"""A small run with a real log and real results; as a program, it can be killed at a named point.

Run as `python -m tests.support.recorded_run FOLDER PLAN`, with a plan for `engine.system.faults`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import AttemptOutcome, Status, Stop, Unstarted
from engine.core.recovery import recover
from engine.core.spec import Limits, Mode
from engine.core.state import RunState
from engine.eventlog import open_event_log
from engine.inbox import Inbox
from engine.logreader import replay
from engine.ports import Reporter
from engine.scheduler import Continuation, Means, Terms, run_graph
from engine.store import RunFolder
from engine.system import faults
from engine.system.clock import SystemClock

A, B, C, D = map(TaskId, "abcd")
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class SmallGraph:
    """b after a, d after c; c fails."""

    order: tuple[TaskId, ...] = (A, B, C, D)

    @property
    def predecessors(self) -> dict[TaskId, tuple[TaskId, ...]]:
        return {A: (), B: (A,), C: (), D: (C,)}

    @property
    def dependents(self) -> dict[TaskId, tuple[TaskId, ...]]:
        return {A: (B,), B: (), C: (D,), D: ()}


@dataclass(frozen=True, slots=True)
class SavingExecutor:
    """Ends every attempt at once and saves its result as a real one is saved."""

    folder: RunFolder

    async def run(self, attempt: AttemptId, _reporter: Reporter) -> AttemptOutcome:
        if attempt.task == C:
            return await self._saved(attempt, Status.FAILED, "c always fails")
        return await self._saved(attempt, Status.SUCCEEDED, None)

    async def close(self, attempt: AttemptId, stop: Stop, _reporter: Reporter) -> AttemptOutcome:
        return await self._saved(attempt, stop.status, stop.reason)

    async def settle_unstarted(self, tasks: Sequence[Unstarted]) -> Sequence[str | None]:
        results = [(AttemptId(each.task, 0), each.reason.encode()) for each in tasks]
        return await self.save(results)

    async def save(self, results: Sequence[tuple[AttemptId, bytes]]) -> Sequence[str]:
        return await trio.to_thread.run_sync(self.folder.save_results, results)

    async def _saved(
        self, attempt: AttemptId, status: Status, reason: str | None
    ) -> AttemptOutcome:
        (digest,) = await self.save([(attempt, status.value.encode())])
        return AttemptOutcome(status, reason, result_digest=digest)


async def carry_out(folder: RunFolder) -> RunState:
    """Begin the run in `folder`, or go on with it if its log says that it began."""
    graph, executor, clock = SmallGraph(), SavingExecutor(folder), SystemClock()
    go_on: Continuation | None = None
    logged = await trio.to_thread.run_sync(replay, folder.events_file, folder.run)
    if logged:
        recovery = recover(graph, (each.event for each in logged), reason="its process died")
        lost = [(each.attempt, (each.outcome.reason or "").encode()) for each in recovery.lost]
        digests = await executor.save(lost)
        go_on = Continuation(recovery.state, recovery.events(digests))
    async with open_event_log(
        folder.events_file, run=folder.run, clock=clock, mode=Mode.LEAN
    ) as log:
        return await run_graph(
            Terms(graph, dict.fromkeys(graph.order, "p"), Limits(), clock.now_ms() + _HOUR_MS),
            Means(executor, log, Limiter(), clock),
            Inbox(),
            go_on=go_on,
        )


if __name__ == "__main__":
    faults.install(sys.argv[2])
    trio.run(carry_out, RunFolder(Path(sys.argv[1])))
