"""A session's program as Pi starts it, and the host behind it: real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from engine.system.identity import all_pids, read_stat
from pinata.work.frames import FrameReader, encode_frame
from pinata.work.session import Session
from tests.support.projects import Project

Frame = dict[str, Any]


@dataclass(slots=True)
class Bridge:
    """A `pinata pi` that is at work."""

    process: trio.Process
    reader: FrameReader

    async def send(self, **frame: Any) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(encode_frame(frame))

    async def receive(self) -> Frame | None:
        """Return the next frame that does not just show the work; None at the end."""
        while (frame := await self.reader.receive()) is not None:
            if frame["type"] not in ("progress", "status", "widget"):
                return frame
        return None

    async def expect(self, kind: str) -> Frame:
        frame = await self.receive()
        assert frame is not None, f"ended before {kind}"
        assert frame["type"] == kind, frame
        return frame

    async def answer(self, tool: str, id_: int = 1, **arguments: Any) -> Frame:
        """Call a tool and return the frame that answers."""
        await self.send(type="call", id=id_, tool=tool, arguments=arguments)
        frame = await self.receive()
        assert frame is not None
        assert frame.get("id") == id_, frame
        return frame

    async def acked(self) -> Frame:
        """Return the next delivery, which is confirmed for good then."""
        told = await self.expect("delivery")
        await self.send(type="ack", delivery=told["delivery"])
        await self.answer("runs", 99)
        return told

    async def leave(self, reason: str) -> None:
        """Say goodbye, as Pi's extension does, and wait for the program's end."""
        await self.send(type="goodbye", reason=reason)
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        assert await self.receive() is None
        assert await self.process.wait() == 0

    async def kill(self) -> None:
        """End the program as nobody could resist."""
        self.process.kill()
        await self.process.wait()


@dataclass(slots=True)
class Pi:
    """A person's Pi, as far as pinata sees of it: sessions come and go in a project.

    Attributes:
        env: what its programs see besides what the project gives.
        hosts: the processes of all hosts that were met.
    """

    project: Project
    key: str = "01a2-session"
    env: dict[str, str] = field(default_factory=dict)
    hosts: set[int] = field(default_factory=set)

    @property
    def session(self) -> Session:
        return Session.of(self.key, self.project.env)

    @property
    def host(self) -> int:
        """The process of the host that serves now."""
        pid: int = json.loads(self.session.host_file.read_text())["pid"]
        self.hosts.add(pid)
        return pid

    @asynccontextmanager
    async def started(self, *, says_hello: bool = True, **env: str) -> AsyncIterator[Bridge]:
        """Have a `pinata pi` inside the block; it is killed at the end if it still runs."""
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "pinata", "pi", "--session", self.key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.project.repo.root,
            env=self.project.program_env | self.env | env,
        )
        assert process.stdout is not None
        bridge = Bridge(process, FrameReader(process.stdout, 16 << 20))
        try:
            if says_hello:
                cwd = str(self.project.repo.root)
                say = {"session": self.key, "cwd": cwd, "mode": "rpc", "trust": False}
                await bridge.send(type="hello", v=1, role="session", **say)
            yield bridge
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout):
                    assert stream is not None
                    await stream.aclose()

    @asynccontextmanager
    async def attached(self) -> AsyncIterator[Bridge]:
        """Have one that was welcomed."""
        async with self.started() as bridge:
            await bridge.expect("welcome")
            self.hosts.add(self.host)
            yield bridge

    def hosts_alive(self) -> list[int]:
        """Return the processes that are, or try to be, a host of the session."""
        wanted = f"--session={self.key}".encode()
        found = []
        for pid in all_pids():
            stat = read_stat(pid)
            if stat is None or stat.is_dead:
                continue
            with suppress(OSError):
                if wanted in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    found.append(pid)
        return found


@contextmanager
def pi_in(project: Project) -> Iterator[Pi]:
    """Have a Pi inside the block; no host of its session may be left then."""
    pi = Pi(project, f"session-{project.folder.name}-{os.getpid()}")
    try:
        yield pi
        left = pi.hosts_alive()
    finally:
        for pid in pi.hosts_alive():
            os.kill(pid, signal.SIGKILL)
    assert left == [], "a host was left running"
