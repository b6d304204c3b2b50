import os
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.store import RunFolder
from engine.system import locks
from pinata.work.link_entry import NoLinkError
from pinata.work.reach import UnreachableError, reach
from tests.support.linked import LOOK, Linked


async def test_a_run_that_nobody_owns_is_not_waited_for(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / ("a" * 16))
    with pytest.raises(NoLinkError, match="no live process owns run aaaaaaaaaaaaaaaa, so nothing"):
        async with reach(folder, tmp_path / "lock", role="viewer"):
            raise AssertionError


async def test_an_owner_that_lets_nobody_in_is_named_after_a_moment(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    folder, lock = RunFolder(tmp_path / ("a" * 16)), tmp_path / "lock"
    async with locks.claim(lock, what="it", holder=f"process {os.getpid()}"):
        with pytest.raises(UnreachableError) as refused:
            async with reach(folder, lock, role="viewer"):
                raise AssertionError
    assert str(refused.value) == (
        f"run aaaaaaaaaaaaaaaa is held by process {os.getpid()}, which lets nobody in: "
        "try again in a moment"
    )


async def test_an_owner_that_has_only_just_begun_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    linked = Linked.create(tmp_path)
    reached = trio.Event()

    async def steer() -> None:
        async with reach(linked.folder, lock, role="coordinator") as link:
            await link.steer(LOOK, "Look twice.", follow_up=False)
        reached.set()

    with trio.fail_after(10):
        async with (
            locks.claim(lock, what="it", holder=f"process {os.getpid()}"),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(steer)
            await trio.testing.wait_all_tasks_blocked(0.01)
            async with linked.served():
                await reached.wait()
    assert linked.told == [(LOOK, "Look twice.", False, "parent")]
