"""A bell wakes those who wait, each time, and nobody else."""

import trio
from trio.testing import wait_all_tasks_blocked

from engine.system.bell import Bell


async def test_ring_wakes_all_who_wait_and_nobody_who_comes_later() -> None:
    bell, woken = Bell(), []

    async def wait(name: str) -> None:
        await bell.wait()
        woken.append(name)

    async with trio.open_nursery() as nursery:
        bell.ring()
        for name in ("one", "two"):
            nursery.start_soon(wait, name)
        await wait_all_tasks_blocked()
        assert woken == []
        bell.ring()
        nursery.start_soon(wait, "late")
        await wait_all_tasks_blocked()
        assert sorted(woken) == ["one", "two"]
        bell.ring()
    assert woken[2:] == ["late"]


async def test_ring_after_the_next_one_was_taken_is_not_missed() -> None:
    bell = Bell()
    taken = bell.next
    bell.ring()
    await taken.wait()
    assert not bell.next.is_set()
