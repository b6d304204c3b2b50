"""Real programs for tests, and a way to hear from them without waiting for time to pass."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from engine.system.identity import all_pids, read_stat
from engine.system.output import Output, ToMemory
from engine.system.process import ProcessSpec

ENV = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


def shell(script: str, *args: str) -> tuple[str, ...]:
    """Return the argv of a shell script; `args` are $1 and so on."""
    return ("sh", "-c", script, "sh", *args)


def python(code: str, *args: str) -> tuple[str, ...]:
    """Return the argv of a Python program; `args` are sys.argv[1:]."""
    return (sys.executable, "-S", "-E", "-c", code, *args)


def spec(
    argv: tuple[str, ...],
    *,
    cwd: Path = Path("/"),
    stdin: bytes = b"",
    output: Output | None = None,
    term_grace_s: float = 2.0,
    mark: str | None = None,
) -> ProcessSpec:
    """Return a spec with a small environment."""
    return ProcessSpec(argv, cwd, ENV, stdin, output or ToMemory(), term_grace_s, mark)


class Beacon:
    """A named pipe on which programs report, one line at a time, that they have come so far."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._received = b""

    async def line(self) -> str:
        """Wait for the next line."""
        while b"\n" not in self._received:
            await trio.lowlevel.wait_readable(self._fd)
            self._received += os.read(self._fd, 4096)
        line, self._received = self._received.split(b"\n", 1)
        return line.decode()

    async def pid(self) -> int:
        """Wait for a line that is a process's number."""
        return int(await self.line())


@contextmanager
def open_beacon(folder: Path) -> Iterator[Beacon]:
    """Make a beacon in `folder`; its path is what programs write to."""
    path = folder / "beacon"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield Beacon(path, fd)
    finally:
        os.close(fd)


def is_running(pid: int) -> bool:
    """Whether a process with this number exists and is not dead."""
    stat = read_stat(pid)
    return stat is not None and not stat.is_dead


async def wait_end(pid: int) -> None:
    """Return when a process that is no child of ours has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        await trio.lowlevel.checkpoint()
        return
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)


def group_members(group: int) -> list[int]:
    """Return the living members of a process group."""
    stats = map(read_stat, all_pids())
    return [one.pid for one in stats if one is not None and one.group == group and not one.is_dead]
