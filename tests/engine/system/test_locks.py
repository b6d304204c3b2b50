import errno
import fcntl
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.core.errors import ExternalError, HeldElsewhereError
from engine.system.holder import read_holder, read_live_holder
from engine.system.locks import claim, hold
from tests.support.guard import blocking_allowed
from tests.support.programs import Beacon, python

ROOT = Path(__file__).resolve().parents[3]

HOLDER = """
import sys, trio
from pathlib import Path
from engine.system.locks import claim

async def main():
    async with claim(Path(sys.argv[1]), what="run 7", holder="process 4711 on a test"):
        with open(sys.argv[2], "w") as beacon:
            beacon.write("held\\n")
        await trio.sleep_forever()

trio.run(main)
"""


def start_holder(lock: Path, beacon: Beacon) -> "subprocess.Popen[bytes]":
    # -S hides the libraries, and this program needs them.
    argv = [part for part in python(HOLDER, str(lock), str(beacon.path)) if part != "-S"]
    with blocking_allowed():
        return subprocess.Popen(argv, cwd=ROOT)


async def test_a_second_claim_is_refused_with_the_name_of_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with claim(path, what="run 7", holder="me"):
        with pytest.raises(HeldElsewhereError, match=r"^run 7 is held by me$"):
            async with claim(path, what="run 7", holder="somebody else"):
                pass
    async with claim(path, what="run 7", holder="somebody else"):
        pass
    assert path.read_bytes() == b"somebody else"


async def test_a_lock_file_is_private_and_stays(tmp_path: Path) -> None:
    async with claim(tmp_path / "lock", what="it", holder="a long name of a holder"):
        pass
    async with hold(tmp_path / "lock", what="it", holder="short"):
        pass
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
    assert (tmp_path / "lock").read_bytes() == b"short"


async def test_a_lock_dies_with_its_holder_and_not_before(tmp_path: Path, beacon: Beacon) -> None:
    path = tmp_path / "lock"
    child = start_holder(path, beacon)
    await beacon.line()
    with pytest.raises(HeldElsewhereError, match="held by process 4711 on a test"):
        async with claim(path, what="run 7", holder="me"):
            pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    async with claim(path, what="run 7", holder="me"):
        pass


async def test_a_waiter_gets_the_lock_when_it_is_released(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    order: list[str] = []

    async def wait_for_it() -> None:
        async with hold(tmp_path / "lock", what="it", holder="second"):
            order.append("second")

    lock = hold(tmp_path / "lock", what="it", holder="first")
    async with trio.open_nursery() as nursery, lock:
        nursery.start_soon(wait_for_it)
        await trio.sleep(5)
        order.append("first")
    assert order == ["first", "second"]


async def test_waiting_for_a_lock_can_be_cancelled(tmp_path: Path) -> None:
    async with claim(tmp_path / "lock", what="it", holder="me"):
        with trio.move_on_after(0.02) as scope:
            async with hold(tmp_path / "lock", what="it", holder="other"):
                pass
        assert scope.cancelled_caught
    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0


async def test_a_cancelled_holder_releases_the_lock(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with claim(tmp_path / "lock", what="it", holder="me"):
            scope.cancel()
            await trio.lowlevel.checkpoint()
    async with claim(tmp_path / "lock", what="it", holder="me"):
        pass


async def test_a_holder_that_wrote_nothing_is_another_process(tmp_path: Path) -> None:
    async with claim(tmp_path / "lock", what="it", holder=""):
        with pytest.raises(HeldElsewhereError, match="held by another process"):
            async with claim(tmp_path / "lock", what="it", holder="me"):
                pass
    assert read_holder(tmp_path / "none") == "another process"


async def test_a_lock_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(ExternalError, match=f"cannot lock {tmp_path / 'link'}: "):
        async with claim(tmp_path / "link", what="it", holder="me"):
            pass


async def test_a_file_system_without_locks_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ExternalError, match=r"has no locks \(flock\); keep the repository on a"):
        async with claim(tmp_path / "lock", what="it", holder="me"):
            pass


async def test_claims_from_many_tasks_never_overlap(tmp_path: Path) -> None:
    held = 0

    async def take_turns() -> None:
        nonlocal held
        async with hold(tmp_path / "lock", what="it", holder="one of many"):
            held += 1
            await trio.lowlevel.checkpoint()
            assert held == 1
            held -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(take_turns)


async def test_whether_somebody_holds_a_lock_can_be_seen_without_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert read_live_holder(path) is None
    async with claim(path, what="it", holder="me"):
        assert read_live_holder(path) == "me"
    assert read_live_holder(path) is None
