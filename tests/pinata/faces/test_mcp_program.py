"""`pinata mcp` as a client starts it: a real process, spoken to by the library's own client."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp import ClientSession, MCPError, StdioServerParameters, types
from mcp.client import stdio

from engine.system.identity import all_pids, read_stat
from pinata.faces.mcp import LEAVING
from tests.support.programs import Beacon, is_running, open_beacon
from tests.support.projects import Project, approves, builder, reviewer, shell, statuses, submits

PAIR = [builder("fix", "a.txt"), reviewer("judge", "fix")]


@dataclass(slots=True)
class Heard:
    """What a server said without having been asked."""

    progress: list[str] = field(default_factory=list)
    logs: list[types.LoggingMessageNotificationParams] = field(default_factory=list)
    logged: trio.Event = field(default_factory=trio.Event)
    progressed: trio.Event = field(default_factory=trio.Event)

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        assert message is not None
        self.progress.append(message)
        self.progressed.set()
        self.progressed = trio.Event()

    async def wait_progress(self, text: str) -> None:
        """Wait until it was said that a call has come so far."""
        while not any(text in message for message in self.progress):
            await self.progressed.wait()

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params)
        self.logged.set()


@asynccontextmanager
async def connected(project: Project, heard: Heard) -> AsyncIterator[ClientSession]:
    """Start the program and be its client inside the block."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pinata", "mcp"],
        env=project.program_env,
        cwd=project.repo.root,
    )
    with (
        (project.folder / "stderr").open("w") as errors,
        trio.fail_after(120),  # what never happens fails the test that waits for it
    ):
        async with (
            stdio.stdio_client(server, errors) as (read, write),
            ClientSession(read, write, logging_callback=heard.on_log) as session,
        ):
            await session.initialize()
            yield session


async def call(
    session: ClientSession, tool: str, heard: Heard | None = None, **arguments: Any
) -> dict[str, Any]:
    """Call a tool and return what its answer holds, an error included."""
    got = await session.call_tool(
        tool, arguments, progress_callback=None if heard is None else heard.on_progress
    )
    (content,) = got.content
    assert isinstance(content, types.TextContent)
    answer: dict[str, Any] = json.loads(content.text)
    assert got.is_error == (set(answer) == {"error"})
    return answer


def server_pid() -> int:
    """Return the process that the client has started."""
    stats = map(read_stat, all_pids())
    (pid,) = [stat.pid for stat in stats if stat is not None and stat.parent == os.getpid()]
    return pid


@dataclass(slots=True)
class Stage:
    """A project whose builder says its shell's number, and goes on when it is told to."""

    project: Project
    beacon: Beacon
    go: Path

    def job(self, **fields: object) -> dict[str, Any]:
        pause = shell(f"echo $$ > {self.beacon.path}; read line < {self.go}")
        change = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
        return self.project.job(PAIR, {"fix": [pause, *change], "judge": [approves()]}, **fields)

    async def let_go(self) -> None:
        await trio.to_thread.run_sync(self.go.write_text, "\n")


@pytest.fixture(autouse=True)
def patient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client wait for the program's end even where the machine is busy."""
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 60.0)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    os.mkfifo(tmp_path / "go")
    with open_beacon(tmp_path) as beacon:
        yield Stage(Project.create(tmp_path, {"a.txt": "one\n"}), beacon, tmp_path / "go")


@pytest.mark.slow
async def test_client_delegates_follows_steers_integrates_and_leaves(stage: Stage) -> None:
    project, heard = stage.project, Heard()
    async with connected(project, heard) as session:
        assert len((await session.list_tools()).tools) == 10
        refused = await call(session, "pinata_status", run="ab", why="x")
        assert refused["error"].startswith('unknown field "why"')

        begun = await call(session, "pinata_run", **stage.job(background=True))
        await stage.beacon.pid()
        said = {"run": begun["run"], "task": "fix", "message": "Two words."}
        assert (await call(session, "pinata_steer", **said))["delivered"] == "steer"
        shown = await call(session, "pinata_status")
        assert statuses(shown) == {"fix": "running", "judge": "queued"}
        await stage.let_go()
        await heard.logged.wait()
        (log,) = heard.logs
        assert (log.level, log.data["run"], log.data["status"]) == (
            "info",
            begun["run"],
            "succeeded",
        )
        integrated = await call(session, "pinata_integrate", heard, run=begun["run"])
        assert integrated["status"] == "applied_unverified"

        # Left while a call waits for its run.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(call, session, "pinata_run", heard, **stage.job()))
            shell_pid = await stage.beacon.pid()
            await heard.wait_progress("0 of 2 tasks have settled; fix: bash echo")
            nursery.cancel_scope.cancel()
        while (shown := await call(session, "pinata_status"))["status"] == "running":
            pass
        assert shown["tasks"][0]["reason"] == "the call for it was cancelled"
        assert not is_running(shell_pid)

        await call(session, "pinata_run", **stage.job(background=True))
        shell_pid, program = await stage.beacon.pid(), server_pid()
    assert not is_running(program)
    assert not is_running(shell_pid)
    assert (await project.call("pinata_status", {}))["status"] == "cancelled"
    assert (project.folder / "stderr").read_text() == ""


@pytest.mark.slow
async def test_signal_ends_the_program_in_order(stage: Stage) -> None:
    project, heard = stage.project, Heard()
    async with connected(project, heard) as session:
        await call(session, "pinata_run", **stage.job(background=True))
        shell_pid, program = await stage.beacon.pid(), server_pid()
        os.kill(program, signal.SIGTERM)
        with pytest.raises(MCPError, match="Connection closed"):
            await call(session, "pinata_run", **stage.job())
    assert not is_running(shell_pid)
    shown = await project.call("pinata_status", {})
    assert (shown["status"], shown["tasks"][0]["reason"]) == ("cancelled", LEAVING)
    assert (project.folder / "stderr").read_text() == ""
