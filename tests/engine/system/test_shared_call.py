"""Calls whose answers are shared, and never older than the wish for them."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.system.shared_call import SharedCall


class Calls:
    """Counts calls; each takes a second and answers with its number."""

    def __init__(self) -> None:
        self.shared = SharedCall[int]()
        self.begun: list[float] = []
        self.faulty: set[int] = set()

    async def _call(self) -> int:
        self.begun.append(trio.current_time())
        number = len(self.begun)
        await trio.sleep(1)
        if number in self.faulty:
            raise LookupError(number)
        return number

    async def get(self) -> int:
        return await self.shared.get(self._call)


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def test_who_comes_during_a_call_shares_the_next_one(
    calls: Calls, autojump_clock: MockClock
) -> None:
    got: list[tuple[int, int]] = []

    async def ask(who: int, after_s: float) -> None:
        await trio.sleep(after_s)
        got.append((who, await calls.get()))

    async with trio.open_nursery() as nursery:
        for who, after_s in enumerate((0, 0.1, 0.2, 0.9, 1.5)):
            nursery.start_soon(ask, who, after_s)
    assert sorted(got) == [(0, 1), (1, 2), (2, 2), (3, 2), (4, 3)]


async def test_one_after_the_other_makes_a_call_each(
    calls: Calls, autojump_clock: MockClock
) -> None:
    assert [await calls.get() for _ in range(3)] == [1, 2, 3]


async def test_after_a_call_that_failed_the_next_one_who_waits_makes_another(
    calls: Calls, autojump_clock: MockClock
) -> None:
    calls.faulty = {1, 2}
    got: list[int] = []

    async def ask() -> None:
        try:
            got.append(await calls.get())
        except LookupError as error:
            got.append(-error.args[0])

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
    assert got == [-1, -2, 3, 3]


async def test_who_is_cancelled_in_its_call_leaves_another_to_the_next(
    calls: Calls, autojump_clock: MockClock
) -> None:
    got: list[int] = []

    async def ask() -> None:
        got.append(await calls.get())

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0.5) as gone:
            async with trio.open_nursery() as given_up:
                given_up.start_soon(ask)
                await wait_all_tasks_blocked()
                nursery.start_soon(ask)
        assert gone.cancelled_caught
    assert got == [2]
    assert [when - calls.begun[0] for when in calls.begun] == [0, 0.5]
