import errno
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from engine.system import process
from engine.system.identity import ProcessIdentity
from engine.system.launch import LaunchError
from engine.system.process import ProcessExit, ProcessSpec, run
from tests.support.programs import Beacon, group_members, is_running, python, shell, spec

if TYPE_CHECKING:
    import subprocess


async def test_cancelling_asks_first_and_the_program_may_answer(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    script = 'trap "touch $1; exit" TERM; echo $$ > $2; while :; do sleep 0.01; done'
    beacon_path = tmp_path / "ready"
    os.mkfifo(beacon_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, spec(shell(script, str(asked), str(beacon_path))))
        await trio.to_thread.run_sync(beacon_path.read_bytes)
        nursery.cancel_scope.cancel()
    assert asked.exists()


STUBBORN = 'trap "" TERM; sh -c "echo \\$\\$ > $1; sleep 60; sleep 60" & wait; sleep 60'


async def test_cancelling_ends_a_grandchild_too_when_nobody_listens(beacon: Beacon) -> None:
    leaders: list[int] = []

    def started(identity: ProcessIdentity) -> None:
        leaders.append(identity.pid)

    async def stubborn() -> None:
        argv = shell(STUBBORN, str(beacon.path))
        with pytest.raises(trio.Cancelled):
            await run(spec(argv, term_grace_s=0.05), started=started)
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stubborn)
        grandchild = await beacon.pid()
        nursery.cancel_scope.cancel()
    assert group_members(leaders[0]) == []
    assert not is_running(grandchild)


async def test_a_stopped_program_is_ended_too(beacon: Beacon) -> None:
    async with trio.open_nursery() as nursery:
        script = "echo $$ > $1; kill -STOP $$"
        nursery.start_soon(run, spec(shell(script, str(beacon.path)), term_grace_s=0.05))
        pid = await beacon.pid()
        nursery.cancel_scope.cancel()
    assert not is_running(pid)


async def test_what_a_finished_program_left_in_its_group_dies(beacon: Beacon) -> None:
    script = 'sh -c "echo \\$\\$ > $1; exec sleep 60" & read line < $2; echo said'
    second = beacon.path.with_name("go")
    os.mkfifo(second)
    ended: list[ProcessExit] = []

    async def leave_one_behind() -> None:
        ended.append(await run(spec(shell(script, str(beacon.path), str(second)))))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave_one_behind)
        left = await beacon.pid()
        await trio.to_thread.run_sync(second.write_bytes, b"go\n")
    assert (ended[0].code, ended[0].stdout, ended[0].pipes_held) == (0, b"said\n", False)
    assert not is_running(left)


# Each generation forks the next one and dies, so the process that must be ended is always another.
# Few and slow enough to leave the machine usable should they escape.
LEAPFROG = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    signal.pause()
with open(sys.argv[1], "w") as beacon:
    beacon.write("ready\\n")
for _ in range(500):
    if os.fork():
        os._exit(0)
    time.sleep(0.002)
"""


async def test_processes_that_fork_while_they_are_being_killed_do_not_escape(
    beacon: Beacon,
) -> None:
    leaders: list[int] = []

    def started(identity: ProcessIdentity) -> None:
        leaders.append(identity.pid)

    async def leap() -> None:
        argv = python(LEAPFROG, str(beacon.path))
        await run(spec(argv, term_grace_s=0.05), started=started)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leap)
        await beacon.line()
        nursery.cancel_scope.cancel()
    assert group_members(leaders[0]) == []


async def test_cancelling_while_the_program_is_being_started_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = process._popen
    born: list[int] = []
    with trio.CancelScope() as scope:

        def cancelled_meanwhile(
            given: ProcessSpec, env: Mapping[str, str]
        ) -> "subprocess.Popen[bytes]":
            trio.from_thread.run_sync(scope.cancel)
            popen = original(given, env)
            born.append(popen.pid)
            return popen

        monkeypatch.setattr(process, "_popen", cancelled_meanwhile)
        await run(spec(("sleep", "60")))
    assert scope.cancelled_caught
    assert len(born) == 1
    assert not is_running(born[0])


async def test_a_cancelled_call_starts_nothing(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(spec(("touch", str(tmp_path / "made"))))
    assert scope.cancelled_caught
    assert not (tmp_path / "made").exists()


OUTSIDER = 'echo before; setsid sh -c "echo \\$\\$ > $1; exec sleep 60" & read line < $2'


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True], ids=["by itself", "by cancelling"])
async def test_an_outsider_that_holds_the_output_delays_the_end_only_a_little(
    beacon: Beacon, *, interrupted: bool
) -> None:
    go = beacon.path.with_name("go")
    os.mkfifo(go)
    ended: list[ProcessExit] = []

    async def leave_an_outsider() -> None:
        ended.append(await run(spec(shell(OUTSIDER, str(beacon.path), str(go)))))

    began = time.monotonic()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave_an_outsider)
        outsider = await beacon.pid()
        if interrupted:
            nursery.cancel_scope.cancel()
        else:
            await trio.to_thread.run_sync(go.write_bytes, b"go\n")
    assert time.monotonic() - began < 30
    assert is_running(outsider)
    os.kill(outsider, signal.SIGKILL)
    if not interrupted:
        assert (ended[0].code, ended[0].stdout, ended[0].pipes_held) == (0, b"before\n", True)


@pytest.mark.slow
async def test_an_outsider_that_holds_stdin_and_never_reads_does_not_hang_us(
    beacon: Beacon,
) -> None:
    go = beacon.path.with_name("go")
    os.mkfifo(go)
    script = 'setsid sh -c "exec >&- 2>&-; echo \\$\\$ > $1; exec sleep 60" <&0 & read line < $2'
    async with trio.open_nursery() as nursery:
        argv = shell(script, str(beacon.path), str(go))
        nursery.start_soon(run, spec(argv, stdin=b"x" * (1 << 20)))
        outsider = await beacon.pid()
        await trio.to_thread.run_sync(go.write_bytes, b"go\n")
    os.kill(outsider, signal.SIGKILL)


async def test_without_a_pidfd_programs_end_and_are_cancelled_all_the_same(
    monkeypatch: pytest.MonkeyPatch, beacon: Beacon
) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert (await run(spec(shell("exit 4")))).code == 4
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, spec(shell("echo $$ > $1; sleep 60", str(beacon.path))))
        pid = await beacon.pid()
        nursery.cancel_scope.cancel()
    assert not is_running(pid)


async def test_neither_descriptors_nor_busy_threads_are_left(beacon: Beacon) -> None:
    async def use_every_way_out() -> None:
        await run(spec(("cat",), stdin=b"x"))
        with pytest.raises(LaunchError):
            await run(spec(("no-such-program",)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, spec(shell("echo $$ > $1; sleep 60", str(beacon.path))))
            await beacon.pid()
            nursery.cancel_scope.cancel()

    await use_every_way_out()
    before = sorted(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    for _ in range(3):
        await use_every_way_out()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() <= threads
    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0


async def test_a_program_that_cannot_be_killed_is_left_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pids: list[int] = []

    def started(identity: ProcessIdentity) -> None:
        pids.append(identity.pid)
        scope.cancel()

    monkeypatch.setattr(process, "_KILL_LIMIT_S", 0.01)
    monkeypatch.setattr(process, "signal_group", lambda *_: True)
    with trio.CancelScope() as scope:
        await run(spec(("sleep", "60"), term_grace_s=0.01), started=started)
    assert f"process group {pids[0]} does not die" in caplog.text
    popen = process._undying.pop()
    popen.kill()
    await trio.to_thread.run_sync(popen.wait)
