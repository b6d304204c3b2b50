"""What starting a program and making a record durable cost over the bare calls."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, medians_ms
from engine.core.events import TaskQueued
from engine.core.ids import RunId, TaskId
from engine.core.spec import Mode
from engine.eventlog import open_event_log
from engine.system.clock import SystemClock
from engine.system.process import ProcessSpec, run


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        return [await _program(Path(scratch)), await _append(Path(scratch))]


async def _program(scratch: Path) -> Figure:
    env = {"PATH": os.environ["PATH"]}
    spec = ProcessSpec(argv=("true",), cwd=scratch, env=env)

    def plain() -> None:
        subprocess.run(["true"], cwd=scratch, env=env, capture_output=True, check=True)

    ours, bare = await medians_ms(
        lambda: run(spec), lambda: trio.to_thread.run_sync(plain), rounds=100
    )
    return Figure("running a program, more than bare", ours - bare, "ms", 1.5)


async def _append(scratch: Path) -> Figure:
    record = b"x" * 120 + b"\n"
    with (scratch / "plain").open("ab", buffering=0) as file:

        def plain() -> None:
            file.write(record)
            os.fsync(file.fileno())

        async with open_event_log(
            scratch / "log", run=RunId("bench"), clock=SystemClock(), mode=Mode.LEAN
        ) as log:
            event = TaskQueued(TaskId("task"))
            ours, bare = await medians_ms(
                lambda: log.append([event]), lambda: trio.to_thread.run_sync(plain), rounds=200
            )
    return Figure("durable append of an event", ours, "ms", 2, bare)
