"""What programs of attempts use is told while they run, and only where it is wanted."""

import sys
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.events import AttemptSettled, TelemetryReported, Trace
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import Status, Stop, StopCause, Unstarted
from engine.core.spec import Mode
from engine.core.view import RunView
from engine.inbox import Inbox, LoopReporter
from engine.logreader import replay
from engine.system.identity import ProcessIdentity
from engine.system.meter import Program, Resources
from pinata.work.telemetry import Telemetry, open_telemetry
from tests.support.executors import SUCCESS, ScriptedExecutor
from tests.support.projects import Project, builder, shell, submits
from tests.support.sinks import MemorySink

A1, B1 = AttemptId(TaskId("a"), 1), AttemptId(TaskId("b"), 1)
RUN = "0123456789abcdef"


def program(label: str, call: str) -> Program:
    return Program(f"token/{label}", call, ProcessIdentity(1, 1, "boot"))


@dataclass(slots=True)
class Machine:
    """A telemetry, what its programs use, and what it told, each with the second of it."""

    uses: dict[str, Resources] = field(default_factory=dict)
    told: list[tuple[float, TelemetryReported]] = field(default_factory=list)
    looks: int = 0
    telemetry: Telemetry = field(init=False)

    def __post_init__(self) -> None:
        self.telemetry = Telemetry(
            self.read, lambda event: self.told.append((trio.current_time(), told(event)))
        )

    async def read(self, programs: Collection[Program]) -> Mapping[Program, Resources]:
        await trio.lowlevel.checkpoint()
        self.looks += 1
        return {each: self.uses[each.call] for each in programs}

    @property
    def reports(self) -> list[TelemetryReported]:
        return [report for _, report in self.told]


def ignore(event: Trace) -> None:
    """Do nothing."""


def told(event: object) -> TelemetryReported:
    assert isinstance(event, TelemetryReported)
    return event


@asynccontextmanager
async def watched() -> AsyncIterator[Machine]:
    machine = Machine()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(machine.telemetry.watch)
        yield machine
        nursery.cancel_scope.cancel()


async def test_an_attempt_is_told_of_once_a_second_while_its_programs_run(
    autojump_clock: MockClock,
) -> None:
    async with watched() as machine:
        with machine.telemetry.measure(A1):
            machine.telemetry.began(program("a@1", "c"))
            for step in range(100):
                machine.uses["c"] = Resources(cpu_s=float(step), processes=1)
                await trio.sleep(0.05)
        times = [time for time, _ in machine.told[:-1]]
        assert len(times) in (4, 5)
        assert all(later - time >= 1 for time, later in pairwise(times))
        assert machine.reports[-1].cpu_s >= 79


async def test_nothing_is_told_twice(autojump_clock: MockClock) -> None:
    async with watched() as machine:
        machine.uses["c"] = Resources(1.0, 5, 1)
        with machine.telemetry.measure(A1):
            machine.telemetry.began(program("a@1", "c"))
            await trio.sleep(10)
        assert machine.looks > 9
        assert machine.reports == [TelemetryReported(A1, 1.0, 5, 5, 1, None, None)]


async def test_no_timer_runs_while_no_program_does(mock_clock: MockClock) -> None:
    async with watched() as machine:
        with machine.telemetry.measure(A1):
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
            machine.uses["c"] = Resources(1.0, 5, 1)
            machine.telemetry.began(program("a@1", "c"))
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().seconds_to_next_deadline < 1
            await machine.telemetry.ended(program("a@1", "c"))
            for _ in range(3):
                mock_clock.jump(1)
                await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
            assert machine.reports == [TelemetryReported(A1, 1.0, 0, 0, 0, None, None)]


async def test_what_ended_programs_used_is_kept_and_the_most_memory_too(
    autojump_clock: MockClock,
) -> None:
    async with watched() as machine:
        with machine.telemetry.measure(A1):
            machine.telemetry.began(program("a@1", "one"))
            machine.telemetry.began(program("a@1", "two"))
            machine.uses = {
                "one": Resources(1.0, 30, 1, 4, None),
                "two": Resources(0.5, 20, 2, 1, 7),
            }
            await trio.sleep(0.15)
            machine.uses["one"] = Resources(1.25, 0, 0, None, None)
            await machine.telemetry.ended(program("a@1", "one"))
            machine.uses["two"] = Resources(0.75, 10, 1, 2, 8)
            await trio.sleep(2)
        assert machine.reports == [
            TelemetryReported(A1, 1.5, 50, 50, 3, 5, 7),
            TelemetryReported(A1, 2.0, 10, 50, 1, 6, 8),
        ]


async def test_last_numbers_of_an_attempt_are_told_before_it_ends(mock_clock: MockClock) -> None:
    async with watched() as machine:
        with machine.telemetry.measure(A1):
            machine.telemetry.began(program("a@1", "c"))
            machine.uses["c"] = Resources(0.01, 0, 0)
            await machine.telemetry.ended(program("a@1", "c"))
        assert machine.reports == [TelemetryReported(A1, 0.01, 0, 0, 0, None, None)]


async def test_programs_that_belong_to_no_attempt_are_left_alone(
    autojump_clock: MockClock,
) -> None:
    async with watched() as machine:
        with machine.telemetry.measure(A1), machine.telemetry.measure(B1):
            for label in ("git", "a@2"):
                machine.telemetry.began(program(label, "c"))
                await machine.telemetry.ended(program(label, "c"))
            await trio.sleep(5)
        assert (machine.told, machine.looks) == ([], 0)


async def test_program_that_ends_while_it_is_looked_at_counts_once(mock_clock: MockClock) -> None:
    async with watched() as machine:
        machine.uses["c"] = Resources(1.0, 5, 1)
        late = {program("a@1", "c"): Resources(1.0, 5, 1)}
        with machine.telemetry.measure(A1):
            machine.telemetry.began(program("a@1", "c"))
            await machine.telemetry.ended(program("a@1", "c"))
            machine.telemetry._gauges["a@1"].look(late)
        assert machine.reports == [TelemetryReported(A1, 1.0, 0, 0, 0, None, None)]


async def test_a_run_that_is_not_observed_is_carried_out_as_it_is() -> None:
    executor = ScriptedExecutor()
    async with open_telemetry(executor, mode=Mode.LEAN, token=RUN, note=ignore) as found:
        assert found is executor


BUSY = (
    "i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done; "
    f"{sys.executable} -c 'held = bytes(9_000_000)'"
)


async def observed(project: Project, mode: str) -> str:
    """Have a builder compute for a while, and return the run's id."""
    script = {"look": [shell(BUSY), submits(changedFiles=[])]}
    answer = await project.run([builder("look", "a.txt")], script, config={"mode": mode})
    assert answer["status"] == "succeeded", answer
    return str(answer["run"])


@pytest.mark.slow
async def test_a_run_that_is_observed_tells_what_its_commands_used(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    run = await observed(project, "observe")
    events = project.recorder.events
    reports = [event for event in events if isinstance(event, TelemetryReported)]
    last = reports[-1]
    settled = next(at for at, event in enumerate(events) if isinstance(event, AttemptSettled))
    assert events.index(last) < settled
    assert last.cpu_s > 0
    assert (last.memory_bytes, last.processes) == (0, 0)
    log = tmp_path / "repo" / ".git" / "pinata" / run / "events.jsonl"
    view = RunView()
    for logged in replay(log, RunId(run)):
        view.apply(*logged)
    resources = view.tasks[TaskId("look")].resources
    assert resources is not None
    assert resources.cpu_s == last.cpu_s
    told = (await project.result(run, "look"))["resources"]
    assert told["cpuS"] == last.cpu_s
    assert told["peakMemoryBytes"] == last.peak_memory_bytes


@pytest.mark.slow
async def test_a_lean_run_measures_nothing(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    run = await observed(project, "lean")
    assert not any(isinstance(each, TelemetryReported) for each in project.recorder.traces)
    assert "resources" not in await project.result(run, "look")


async def test_a_measured_executor_hands_everything_on() -> None:
    executor = ScriptedExecutor()
    reporter = LoopReporter(Inbox(), MemorySink())
    stop = Stop(StopCause.CANCEL, "enough")
    async with open_telemetry(executor, mode=Mode.OBSERVE, token=RUN, note=ignore) as found:
        assert await found.run(A1, reporter) == SUCCESS
        assert (await found.close(A1, stop, reporter)).reason == "enough"
        await found.settle_unstarted([Unstarted(B1.task, Status.BLOCKED, "a failed")])
    assert executor.calls == ["run a@1", "close a@1 cancel", "unstarted b"]
