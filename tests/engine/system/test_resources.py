"""Resources is read from real programs; what they use is bounded from below, never timed."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import trio

from engine.system import identity, resources
from engine.system.identity import ProcessIdentity, all_pids, boot_id, listed_children, read_stat
from engine.system.meter import Program, Resources, measure_programs
from engine.system.process import run
from engine.system.resources import read_resources
from tests.support.programs import Beacon, python, spec

TOKEN = secrets.token_hex(16)
MARK = f"{TOKEN}/fix@1"
HELD = 30_000_000
BUSY_S = 0.2
# The kernel tells whole ticks, of each number of each process.
SEEN_S = BUSY_S / 2
IS_STORAGE_TOLD = Path("/proc/self/io").exists()
GONE = Program(MARK, "0.0", ProcessIdentity(2**22 - 1, 1, boot_id()))

# Computes for a while in a child, then holds memory in another one until it is told to go.
FAMILY = f"""
import os, sys, time
if os.fork() == 0:
    while time.process_time() < {BUSY_S}:
        pass
    os._exit(0)
os.wait()
if os.fork() == 0:
    held = bytearray(os.urandom(1)) * {HELD}
    with open(sys.argv[1], "w") as beacon:
        beacon.write("held\\n")
    time.sleep(60)
    os._exit(0)
with open(sys.argv[2]) as go:
    go.read()
"""
# Leaves its parent, its group and its session, and computes there.
DAEMON = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while time.process_time() < {BUSY_S}:
            pass
        with open(sys.argv[1], "w") as beacon:
            beacon.write("done\\n")
        time.sleep(60)
    os._exit(0)
os.wait()
with open(sys.argv[2]) as go:
    go.read()
"""


@dataclass(slots=True)
class Reader:
    """A meter that reads once more when a program ends."""

    program: Program = GONE
    last: list[Resources] = field(default_factory=list)

    def began(self, program: Program) -> None:
        self.program = program

    async def ended(self, program: Program) -> None:
        found = await trio.to_thread.run_sync(read_resources, (program,))
        self.last.append(found[program])


@pytest.fixture
def go(tmp_path: Path) -> Path:
    path = tmp_path / "go"
    os.mkfifo(path)
    return path


async def during_and_after(code: str, beacon: Beacon, go: Path) -> tuple[Resources, Resources]:
    """Return what a program uses once it has reported, and at its end."""
    reader = Reader()
    with measure_programs(TOKEN, reader):
        async with trio.open_nursery() as nursery:
            argv = python(code, str(beacon.path), str(go))
            nursery.start_soon(lambda: run(spec(argv, mark=MARK)))
            await beacon.line()
            found = await trio.to_thread.run_sync(read_resources, (reader.program, GONE))
            async with await trio.open_file(go, "w"):
                pass
    assert found[GONE] == Resources()
    (last,) = reader.last
    return found[reader.program], last


def listing(pid: int | None = None) -> list[int] | None:
    """Stand in for the list of a kernel that keeps one."""
    stats = [read_stat(each) for each in all_pids()]
    return [stat.pid for stat in stats if stat is not None and stat.parent == pid]


def no_listing(pid: int | None = None) -> list[int] | None:
    return None


@pytest.mark.slow
@pytest.mark.parametrize("children", [listing, no_listing])
async def test_a_program_uses_what_its_children_use(
    beacon: Beacon,
    go: Path,
    monkeypatch: pytest.MonkeyPatch,
    children: Callable[[int | None], list[int] | None],
) -> None:
    monkeypatch.setattr(resources, "listed_children", children)
    now, last = await during_and_after(FAMILY, beacon, go)
    assert now.processes == 2
    assert now.memory_bytes >= HELD
    assert now.cpu_s >= SEEN_S
    assert (now.read_bytes is not None) == IS_STORAGE_TOLD
    assert last.cpu_s >= SEEN_S
    assert (last.processes, last.memory_bytes) == (0, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("adopting")
async def test_a_daemon_counts_for_the_program_that_it_came_from(beacon: Beacon, go: Path) -> None:
    now, _ = await during_and_after(DAEMON, beacon, go)
    assert now.processes == 2
    assert now.cpu_s >= SEEN_S


async def test_storage_that_the_kernel_does_not_tell_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: psutil.Process) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "io_counters", refuse)
    own = identity.identify(os.getpid())
    assert own is not None
    me = Program(MARK, "0.0", own)
    found = (await trio.to_thread.run_sync(read_resources, (me,)))[me]
    assert (found.read_bytes, found.written_bytes) == (None, None)
    assert found.cpu_s > 0


def test_children_are_taken_from_the_kernels_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.open
    (tmp_path / "children").write_text("11 12 ")
    threads = len(os.listdir("/proc/self/task"))

    def open_list(path: str | Path, flags: int, mode: int = 0o777) -> int:
        listed = str(path).endswith("/children")
        return original(tmp_path / "children" if listed else path, flags, mode)

    monkeypatch.setattr(os, "open", open_list)
    assert listed_children() == [11, 12] * threads
    assert listed_children(GONE.leader.pid) == []


def test_a_thread_that_has_just_ended_has_no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: [str(GONE.leader.pid)])
    assert listed_children() == []
