"""A session that everything happens to: kills, comings and goings, orders, and a clock that jumps.

Real processes on a real repository. What the session was told is written down the way Pi does it:
each message once, by its key, before it is confirmed.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from engine.core.events import AttemptStarted, RunSettled
from engine.logreader import replay
from engine.records.event import Logged
from engine.store import RunFolder
from tests.support.bridges import Bridge, Pi
from tests.support.programs import wait_end
from tests.support.projects import (
    Project,
    approves,
    builder,
    reports,
    reviewer,
    scout,
    shell,
    submits,
)

Frame = dict[str, Any]
_CLOCK = """\
import os
from pathlib import Path

from engine.system.clock import SystemClock

_now_ms = SystemClock.now_ms


def now_ms(self):
    return _now_ms(self) + int(Path(os.environ["TEST_CLOCK"]).read_text() or 0)


SystemClock.now_ms = now_ms
"""
_CHANGE = "echo two > a.txt"
_MOST_MESSAGES = 7
# As often is asked for a rerun that is refused, since something else has the run at that moment.
_PATIENCE = 100


def prepare(folder: Path) -> Project:
    """Return a project whose programs have a clock that `jump` can set."""
    project = Project.create(folder, {"a.txt": "one\n"})
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(_CLOCK)
    (folder / "offset").write_text("0")
    return project


def steady_job(project: Project) -> Frame:
    """Return a job whose outcome is the same however often it is begun anew."""
    slow = {"delayMs": 100}
    # A result that a message comes before is handed in again.
    hands_in = submits(changedFiles=["a.txt"]) | slow
    change = [shell(_CHANGE) | slow, *[hands_in] * (1 + _MOST_MESSAGES)]
    script = {"*": [reports() | slow], "fix": change, "judge": [approves() | slow]}
    fix = builder("fix", "a.txt", after=["look"])
    return project.job(
        [scout("look"), fix, reviewer("judge", "fix"), scout("last", after=["judge"])],
        script,
        background=True,
        survive=True,
    )


@dataclass
class Schedule:
    """One session and its two runs; the second one may be cancelled.

    Attributes:
        told: what stands in the conversation, by the key of its delivery.
        twice: keys that came again although they had been confirmed.
        is_cancelled: whether the second run was ordered to end.
    """

    pi: Pi
    runs: list[str] = field(default_factory=list)
    told: dict[str, Frame] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    is_cancelled: bool = False
    _bridge: Bridge | None = None
    _held: AsyncExitStack = field(default_factory=AsyncExitStack)
    _answers: dict[int, Frame] = field(default_factory=dict)
    _calls: int = 0

    @property
    def bridge(self) -> Bridge:
        assert self._bridge is not None
        return self._bridge

    def folder(self, run: str) -> RunFolder:
        """Return where a run is stored."""
        return RunFolder(self.pi.project.repo.root / ".git/pinata" / run)

    def events(self, run: str) -> list[Logged]:
        """Return what its log holds."""
        folder = self.folder(run)
        return replay(folder.events_file, folder.run)

    async def attach(self) -> None:
        """Have the session attached once more, after whatever became of the last time."""
        await self._held.aclose()
        self._bridge = await self._held.enter_async_context(self.pi.attached())
        self._answers.clear()

    async def detach(self) -> None:
        """Let the session's program go."""
        await self._held.aclose()
        self._bridge = None

    async def _hear(self, frame: Frame) -> None:
        """Take a frame as Pi's extension does."""
        key = frame.get("delivery")
        if key is not None:
            run, _, number = key.partition("/")
            if (self.folder(run).deliveries / number).exists():
                self.twice.append(key)
            self.told.setdefault(key, frame)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.bridge.send(type="ack", delivery=key)
        if "id" in frame:
            self._answers[frame["id"]] = frame

    async def listen(self, seconds: float) -> None:
        """Hear what comes for a while, which a host that dies may cut short."""
        with trio.move_on_after(seconds):
            while (frame := await self.bridge.receive()) is not None:
                await self._hear(frame)

    async def ask(self, tool: str, **arguments: Any) -> int:
        """Begin a call and return its number."""
        self._calls += 1
        with suppress(trio.BrokenResourceError):
            await self.bridge.send(type="call", id=self._calls, tool=tool, arguments=arguments)
        return self._calls

    async def call(self, tool: str, **arguments: Any) -> Frame | None:
        """Return the frame that answers a call; None when the host is gone before that."""
        number = await self.ask(tool, **arguments)
        while number not in self._answers:
            frame = await self.bridge.receive()
            if frame is None:
                return None
            await self._hear(frame)
        return self._answers.pop(number)

    async def kill_host(self) -> None:
        """End the host as nobody could resist, and attach to the next one."""
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = self.pi.host
            os.kill(pid, signal.SIGKILL)
            await wait_end(pid)
        await self.attach()

    async def kill_bridge(self) -> None:
        """End the session's program, and attach anew."""
        await self.bridge.kill()
        await self.attach()

    async def reload(self) -> None:
        """Leave for a moment, as a session does that is loaded anew."""
        with suppress(AssertionError, trio.BrokenResourceError):
            await self.bridge.send(type="goodbye", reason="reload")
        await self.attach()

    async def steer(self) -> None:
        """Tell the builder something, if it is at work."""
        await self.call("pinata_steer", run=self.runs[0], task="fix", message="Mind the gap.")

    async def cancel(self) -> None:
        """End the second run, unless it has ended."""
        answer = await self.call("pinata_cancel", run=self.runs[1])
        self.is_cancelled |= answer is not None and answer["type"] == "result"

    async def repair(self) -> None:
        """Have the builder mend its change, if it may; nobody waits for it."""
        await self.ask("pinata_repair", run=self.runs[0], task="fix", feedback="Once more.")

    async def resume(self) -> None:
        """Have the first run go on, if nobody owns it."""
        await self.ask("resume", run=self.runs[0])

    async def jump(self, minutes: int) -> None:
        """Set the clock of all programs."""
        (self.pi.project.folder / "offset").write_text(str(minutes * 60_000))
        await trio.lowlevel.checkpoint()

    async def finish(self) -> dict[str, Frame]:
        """Have both runs come to their end and return their summaries."""
        await self.attach()
        return {run: await self._finished(run) for run in self.runs}

    async def _finished(self, run: str) -> Frame:
        refusals: list[Frame] = []
        reasons: list[str] = []
        while len(refusals) < _PATIENCE:
            answer = await self.call("pinata_status", run=run)
            assert answer is not None
            assert answer["type"] == "result", answer
            summary: Frame = answer["answer"]
            if summary["status"] == "running":
                await self.listen(0.1)
            elif summary["status"] == "succeeded" or self._stays(run):
                return summary
            else:
                again = await self.call("rerun", run=run)
                assert again is not None
                if again["type"] == "error":
                    refusals.append(again)
                    reasons = [f"{task['id']}: {task.get('reason')}" for task in summary["tasks"]]
                    await self.listen(0.1)
        raise AssertionError(f"run {run} does not come to its end: {refusals[-1]}, {reasons}")

    def _stays(self, run: str) -> bool:
        return run == self.runs[1] and self.is_cancelled

    async def hear_out(self) -> None:
        """Hear of every settlement there is."""
        with trio.fail_after(60):
            while not self.settlements() <= set(self.told):
                await self.listen(0.1)

    def settlements(self) -> set[str]:
        """Return the keys of all settlements that the logs hold."""
        kinds = {
            run: sum(isinstance(each.event, RunSettled) for each in self.events(run))
            for run in self.runs
        }
        return {f"{run}/{n}" for run, count in kinds.items() for n in range(1, count + 1)}

    def started(self, run: str) -> list[str]:
        """Return each attempt as often as its agent was started."""
        return [
            str(each.event.attempt)
            for each in self.events(run)
            if isinstance(each.event, AttemptStarted)
        ]


@asynccontextmanager
async def open_schedule(pi: Pi) -> AsyncIterator[Schedule]:
    """Have a session with two runs under way."""
    schedule = Schedule(pi)
    try:
        await schedule.attach()
        for _ in range(2):
            answer = await schedule.call("pinata_run", **steady_job(pi.project))
            assert answer is not None
            assert answer["type"] == "result", answer
            schedule.runs.append(answer["answer"]["run"])
        yield schedule
    finally:
        await schedule.detach()


def clock_environment(project: Project) -> dict[str, str]:
    """Return what lets programs of the project see the clock that `jump` sets."""
    root = project.program_env["PYTHONPATH"]
    offset, site = project.folder / "offset", project.folder / "site"
    return {"TEST_CLOCK": str(offset), "PYTHONPATH": f"{site}:{root}"}


def summary_of(answer: Frame) -> Frame:
    """Return of a run's summary what does not depend on when and how often things were tried."""
    tasks = [
        {
            "id": task["id"],
            "status": task["status"],
            "changed": task.get("changedFiles"),
            "tree": task.get("artifact", {}).get("result", {}).get("tree"),
            "verdict": task.get("verdict"),
            "brief": task.get("brief"),
        }
        for task in answer["tasks"]
    ]
    return {"status": answer["status"], "tasks": tasks}
