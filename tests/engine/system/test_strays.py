import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from engine.core.errors import ExternalError
from engine.system import family, strays
from engine.system.identity import identify, read_stat
from engine.system.process import run
from engine.system.strays import end_marked, end_recorded, end_unclaimed
from tests.support.guard import blocking_allowed
from tests.support.programs import ENV, Beacon, group_members, is_running, python, shell, spec

# Other test runs on this machine must not find our processes, nor we theirs.
TOKEN = secrets.token_hex(16)

# Leaves the group and the session, and its parent, as daemon(7) has it.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        with open(sys.argv[1], "w") as beacon:
            beacon.write(f"{os.getpid()}\\n")
        time.sleep(60)
    os._exit(0)
os.wait()
with open(sys.argv[2]) as go:
    go.read()
"""


@pytest.fixture
def go(tmp_path: Path) -> Path:
    path = tmp_path / "go"
    os.mkfifo(path)
    return path


def start(argv: tuple[str, ...], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with blocking_allowed():
        return subprocess.Popen(argv, env=ENV | environment, start_new_session=True)


@contextmanager
def bystander(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that is nobody's business, in a session of its own."""
    child = start(("sleep", "60"), environment)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


async def start_daemon(mark: str | None, beacon: Beacon, go: Path, *, wiped: bool = False) -> int:
    """Run a program that leaves a daemon behind, perhaps one without a mark; return its pid."""
    prefix = ("env", "-i") if wiped else ()
    pids: list[int] = []

    async def release() -> None:
        pids.append(await beacon.pid())
        await trio.to_thread.run_sync(go.write_bytes, b"go\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release)
        await run(spec((*prefix, *python(DAEMON, str(beacon.path), str(go))), mark=mark))
    return pids[0]


@pytest.mark.usefixtures("adopting")
async def test_a_daemon_that_kept_its_environment_ends_with_its_call(
    beacon: Beacon, go: Path
) -> None:
    daemon = await start_daemon(f"{TOKEN}/fix@1", beacon, go)
    assert read_stat(daemon) is None


@pytest.mark.usefixtures("adopting")
async def test_a_daemon_that_wiped_its_environment_ends_with_its_call_too(
    beacon: Beacon, go: Path
) -> None:
    daemon = await start_daemon(f"{TOKEN}/fix@1", beacon, go, wiped=True)
    assert not is_running(daemon)


@pytest.mark.usefixtures("adopting")
async def test_a_daemon_that_claims_a_call_that_is_none_ends_too(beacon: Beacon, go: Path) -> None:
    forged = ("env", "-i", f"{strays.CALL_VARIABLE}=1.1")
    argv = (*forged, *python(DAEMON, str(beacon.path), str(go)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run(spec(argv, mark=f"{TOKEN}/fix@1")))
        daemon = await beacon.pid()
        await trio.to_thread.run_sync(go.write_bytes, b"go\n")
    assert not is_running(daemon)


@pytest.mark.usefixtures("adopting")
async def test_a_daemon_that_belongs_to_nobody_can_be_ended_at_any_time(
    beacon: Beacon, go: Path
) -> None:
    daemon = await start_daemon(None, beacon, go)
    assert is_running(daemon)
    await end_unclaimed()
    assert not is_running(daemon)


@pytest.mark.usefixtures("adopting")
async def test_a_daemon_is_found_on_a_kernel_that_does_not_list_children(
    beacon: Beacon, go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.open

    def open_but_no_list(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith("/children"):
            raise FileNotFoundError
        return original(path, flags, mode)

    monkeypatch.setattr(os, "open", open_but_no_list)
    assert os.getppid() in family._child_pids()
    daemon = await start_daemon(f"{TOKEN}/fix@1", beacon, go)
    assert read_stat(daemon) is None


@pytest.mark.usefixtures("adopting")
async def test_a_daemon_is_found_while_another_call_is_running(beacon: Beacon, go: Path) -> None:
    async with trio.open_nursery() as nursery:
        other = trio.Event()
        nursery.start_soon(
            lambda: run(spec(("sleep", "60"), mark=f"{TOKEN}/fix@1"), started=lambda _: other.set())
        )
        await other.wait()
        daemon = await start_daemon(f"{TOKEN}/fix@1", beacon, go)
        assert read_stat(daemon) is None
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("adopting")
async def test_the_end_of_a_call_spares_the_daemon_of_another_with_the_same_mark(
    beacon: Beacon, go: Path
) -> None:
    async with trio.open_nursery() as nursery:
        argv = python(DAEMON, str(beacon.path), str(go))
        nursery.start_soon(lambda: run(spec(argv, mark=f"{TOKEN}/fix@1")))
        daemon = await beacon.pid()
        await run(spec(("true",), mark=f"{TOKEN}/fix@1"))
        assert is_running(daemon)
        await trio.to_thread.run_sync(go.write_bytes, b"go\n")
    assert read_stat(daemon) is None


@pytest.mark.usefixtures("adopting")
async def test_an_adopted_process_that_died_unseen_is_collected_by_a_later_call(
    beacon: Beacon, go: Path
) -> None:
    daemon = await start_daemon(None, beacon, go)
    assert is_running(daemon)
    os.kill(daemon, signal.SIGKILL)
    await trio.to_thread.run_sync(os.waitid, os.P_PID, daemon, os.WEXITED | os.WNOWAIT)
    assert read_stat(daemon) is not None
    await run(spec(("true",), mark=f"{TOKEN}/fix@1"))
    assert read_stat(daemon) is None


@pytest.mark.usefixtures("adopting")
async def test_nothing_is_collected_while_a_child_is_being_born(beacon: Beacon, go: Path) -> None:
    daemon = await start_daemon(None, beacon, go)
    os.kill(daemon, signal.SIGKILL)
    await trio.to_thread.run_sync(os.waitid, os.P_PID, daemon, os.WEXITED | os.WNOWAIT)
    with family.birth():
        family.collect_adopted()
        assert read_stat(daemon) is not None
    family.collect_adopted()
    assert read_stat(daemon) is None


@pytest.mark.usefixtures("adopting")
async def test_many_calls_at_once_keep_their_own_exit_codes() -> None:
    codes: list[int | None] = []

    async def fail_with(code: int) -> None:
        codes.append((await run(spec(shell("exit $1", str(code)), mark=f"{TOKEN}/x"))).code)

    async with trio.open_nursery() as nursery:
        for code in range(60):
            nursery.start_soon(fail_with, code)
    assert sorted(code for code in codes if code is not None) == list(range(60))


async def test_nothing_is_adopted_by_a_process_that_did_not_ask_for_it(
    beacon: Beacon, go: Path
) -> None:
    daemon = await start_daemon(f"{TOKEN}/fix@1", beacon, go)
    assert is_running(daemon)
    assert [one.pid for one in await end_marked(f"{TOKEN}/")] == [daemon]
    assert not is_running(daemon)


async def test_every_process_with_the_mark_ends_and_no_other(tmp_path: Path) -> None:
    with (
        bystander({"PINATA_MARK": f"{TOKEN}/git"}) as git,
        bystander({"PINATA_MARK": f"{TOKEN}/fix@2", "OTHER": "1"}) as fix,
        bystander({"PINATA_MARK": TOKEN[:-1]}) as shorter,
        bystander({"NOT_PINATA_MARK": f"{TOKEN}/git"}) as other,
        bystander({"OTHER": f"PINATA_MARK={TOKEN}/git"}) as mention,
    ):
        expected = {identify(git.pid), identify(fix.pid)}
        assert set(await end_marked(f"{TOKEN}/")) == expected
        assert [is_running(one.pid) for one in (git, fix, shorter, other, mention)] == [
            False,
            False,
            True,
            True,
            True,
        ]
        assert await end_marked(f"{TOKEN}/") == []


# Two groups, in each of which a process forks the next one and dies, again and again. Few and slow
# enough to leave the machine usable should they escape.
LEAPFROGS = """
import os, sys, time
os.fork()
if os.getpid() != os.getpgrp():
    os.setsid()
with open(sys.argv[1], "a") as beacon:
    beacon.write(f"{os.getpid()}\\n")
if os.fork() == 0:
    for _ in range(500):
        if os.fork():
            os._exit(0)
        time.sleep(0.002)
time.sleep(60)
"""


async def test_marked_processes_that_keep_forking_all_end(beacon: Beacon) -> None:
    child = start(python(LEAPFROGS, str(beacon.path)), {"PINATA_MARK": f"{TOKEN}/fix@1"})
    groups = [await beacon.pid() for _ in range(2)]
    await end_marked(f"{TOKEN}/")
    child.wait()
    assert [group_members(group) for group in groups] == [[], []]


async def test_a_recorded_process_ends_only_while_it_is_the_same_one() -> None:
    with bystander({}) as child:
        identity = identify(child.pid)
        assert identity is not None
        me = identify(os.getpid())
        first = identify(1)
        assert me is not None
        assert first is not None
        strangers = [
            replace(identity, start_ticks=identity.start_ticks - 1),
            replace(identity, boot_id="another boot"),
            me,
            first,
        ]
        assert await end_recorded(strangers) == []
        assert is_running(child.pid)
        assert await end_recorded([identity]) == [identity]
        assert not is_running(child.pid)
        assert await end_recorded([identity]) == []


async def test_a_recorded_leader_takes_its_group_along(beacon: Beacon) -> None:
    argv = shell("sh -c 'echo $$ > $0; exec sleep 60' $1 & wait", str(beacon.path))
    child = start(argv, {})
    member = await beacon.pid()
    identity = identify(child.pid)
    assert identity is not None
    assert await end_recorded([identity]) == [identity]
    child.wait()
    assert not is_running(member)


def test_a_process_that_is_gone_has_no_environment_and_is_not_killed() -> None:
    child = subprocess.Popen(["true"], env=ENV)
    identity = identify(child.pid)
    assert identity is not None
    child.wait()
    assert strays._environment(child.pid) == {}
    assert not strays._is_mine(child.pid)
    strays._kill(identity)


def test_a_number_that_belongs_to_another_process_is_not_killed() -> None:
    with bystander({}) as child:
        identity = identify(child.pid)
        assert identity is not None
        strays._kill(replace(identity, start_ticks=identity.start_ticks + 1))
        assert is_running(child.pid)


@pytest.mark.usefixtures("adopting")
async def test_an_adopted_child_that_does_not_die_is_left_in_the_end(
    beacon: Beacon, go: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = await start_daemon(None, beacon, go)
    with monkeypatch.context() as patched:
        patched.setattr(strays, "_END_LIMIT_S", 0.2)
        patched.setattr(os, "kill", lambda *_: None)
        with trio.fail_after(10):
            await end_unclaimed()
    assert is_running(daemon)
    assert "cannot end what came back to this process" in caplog.text
    await end_unclaimed()
    assert not is_running(daemon)


async def test_what_does_not_die_is_named_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strays, "_END_LIMIT_S", 0.05)
    monkeypatch.setattr(strays, "_kill", lambda *_, **__: set())
    with bystander({}) as immortal:
        identity = identify(immortal.pid)
        assert identity is not None
        with pytest.raises(ExternalError, match=f"cannot end process {immortal.pid}"):
            await end_recorded([identity])
