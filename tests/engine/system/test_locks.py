import errno
import fcntl
import os
import signal
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import WeakValueDictionary

import pytest
import trio
import trio.testing

from engine.core.errors import ExternalError, HeldElsewhereError
from engine.system import locks
from engine.system.holder import read_holder, read_live_holder
from engine.system.locks import claim, claimed_if_free, hold
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


async def wait_for_queue(path: Path, waiting: int) -> None:
    """Return once so many stand behind the one whose turn it is."""
    with trio.fail_after(30):
        while True:
            queue = locks._queues.get(WeakValueDictionary()).get(str(path))
            if queue is not None and queue.statistics().tasks_waiting == waiting:
                return
            await trio.lowlevel.checkpoint()


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


async def test_a_lock_goes_round_in_the_order_in_which_it_was_asked_for(tmp_path: Path) -> None:
    order: list[int] = []
    (tmp_path / "link").symlink_to(tmp_path)

    async def take_turn(number: int, path: Path) -> None:
        async with hold(path, what="it", holder=str(number)):
            order.append(number)

    async with trio.open_nursery() as nursery, hold(tmp_path / "lock", what="it", holder="first"):
        for number in range(6):
            folder = tmp_path / "link" if number % 2 else tmp_path
            nursery.start_soon(take_turn, number, folder / "lock")
            await wait_for_queue(tmp_path / "lock", number + 1)
    assert order == list(range(6))


async def test_who_stands_in_the_queue_asks_the_kernel_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    flock = fcntl.flock

    def count(fd: int, operation: int) -> None:
        asked.append(operation)
        flock(fd, operation)

    async def take_turn() -> None:
        async with hold(tmp_path / "lock", what="it", holder="one of many"):
            pass

    async with trio.open_nursery() as nursery, hold(tmp_path / "lock", what="it", holder="first"):
        monkeypatch.setattr(fcntl, "flock", count)
        for _ in range(5):
            nursery.start_soon(take_turn)
        await wait_for_queue(tmp_path / "lock", 5)
        assert asked == []
    # Each took the lock at its first attempt and gave it back; the first one only gave it back.
    assert len([each for each in asked if each != fcntl.LOCK_UN]) == 5


async def test_a_turn_is_not_lost_with_a_waiter_that_gives_up(tmp_path: Path) -> None:
    order: list[str] = []
    scopes: dict[str, trio.CancelScope] = {}

    async def take_turn(name: str) -> None:
        with trio.CancelScope() as scopes[name]:
            async with hold(tmp_path / "lock", what="it", holder=name):
                order.append(name)

    async with trio.open_nursery() as nursery, hold(tmp_path / "lock", what="it", holder="first"):
        for place, name in enumerate(("second", "third", "fourth"), 1):
            nursery.start_soon(take_turn, name)
            await wait_for_queue(tmp_path / "lock", place)
        scopes["third"].cancel()
        await wait_for_queue(tmp_path / "lock", 2)
    # The second has its turn by now, and gives it up at the moment when it would have gone on.
    assert order == ["second", "fourth"]
    assert not locks._queues.get()


async def test_the_first_of_the_queue_can_give_up_while_another_process_has_the_lock(
    tmp_path: Path,
) -> None:
    """A claim stands for the other process: the queue does not know it either."""
    order: list[str] = []
    impatient = trio.CancelScope()

    async def give_up() -> None:
        with impatient:
            async with hold(tmp_path / "lock", what="it", holder="first"):
                order.append("first")

    async def take_turn() -> None:
        async with hold(tmp_path / "lock", what="it", holder="second"):
            order.append("second")

    lock = claim(tmp_path / "lock", what="it", holder="another process")
    async with trio.open_nursery() as nursery, lock:
        nursery.start_soon(give_up)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take_turn)
        await wait_for_queue(tmp_path / "lock", 1)
        impatient.cancel()
        await wait_for_queue(tmp_path / "lock", 0)
    assert order == ["second"]


def test_loops_in_several_threads_share_the_lock_and_no_queue(tmp_path: Path) -> None:
    held: list[int] = []

    async def take_turns(number: int) -> None:
        for _ in range(5):
            async with hold(tmp_path / "lock", what="it", holder=str(number)):
                held.append(number)
                await trio.lowlevel.checkpoint()
                assert held.pop() == number

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(trio.run, take_turns, number) for number in range(3)]:
            done.result(timeout=60)
    assert held == []


async def test_whether_somebody_holds_a_lock_can_be_seen_without_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert read_live_holder(path) is None
    async with claim(path, what="it", holder="me"):
        assert read_live_holder(path) == "me"
    assert read_live_holder(path) is None


async def test_a_holder_is_seen_whatever_the_list_of_all_locks_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list leaves out other namespaces, and has other devices on some file systems."""
    path = tmp_path / "lock"
    read_text = Path.read_text

    def read(of: Path, *args: str, **more: str) -> str:
        return "" if of == Path("/proc/locks") else read_text(of, *args, **more)

    monkeypatch.setattr(Path, "read_text", read)
    async with claim(path, what="it", holder="me"):
        assert read_live_holder(path) == "me"
    assert read_live_holder(path) is None


async def test_a_look_never_stands_in_the_way_of_a_claim(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            read_live_holder(path)

    with ThreadPoolExecutor(2) as threads:
        looks = [threads.submit(look) for _ in range(2)]
        try:
            for _ in range(200):
                async with claim(path, what="it", holder="me"):
                    pass
        finally:
            is_over.set()
        for each in looks:
            each.result(timeout=60)


async def test_the_next_holder_is_seen_when_a_fork_still_has_the_file_of_the_last(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lock"
    async with claim(path, what="it", holder="the first"):
        # As a program that is being started has it for a moment.
        fds = [int(fd) for fd in os.listdir("/proc/self/fd") if _leads_to(fd, path)]
        copies = [os.dup(fd) for fd in fds]
    assert copies
    try:
        assert read_live_holder(path) is None
        async with claim(path, what="it", holder="the second"):
            for each in copies:
                os.close(each)
            copies.clear()
            assert read_live_holder(path) == "the second"
    finally:
        for each in copies:
            os.close(each)


def _leads_to(fd: str, path: Path) -> bool:
    try:
        return Path(f"/proc/self/fd/{fd}").readlink() == path
    except FileNotFoundError:
        return False


async def test_who_holds_what_may_not_be_opened_is_taken_for_somebody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = tmp_path / "lock"
    path.write_bytes(b"another user")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        assert read_live_holder(path) == "another user"


def test_a_lock_is_claimed_for_a_moment_only_if_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with claimed_if_free(path, holder="me") as is_free:
        assert is_free
        assert not path.exists()
    path.touch()
    for _ in range(2):
        with claimed_if_free(path, holder="me") as is_free:
            assert is_free
            with claimed_if_free(path, holder="you") as is_free_too:
                assert not is_free_too
    with path.open() as held:
        # Whoever cannot be seen has it all the same.
        fcntl.flock(held, fcntl.LOCK_EX)
        with claimed_if_free(path, holder="me") as is_free:
            assert not is_free
