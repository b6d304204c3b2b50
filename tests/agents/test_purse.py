import trio
from trio.testing import wait_all_tasks_blocked

from agents.purse import Purse


class Request:
    """A request that is under way until it is told what it cost."""

    def __init__(self, purse: Purse, nursery: trio.Nursery) -> None:
        self.began = False
        self._purse = purse
        self._answered = trio.Event()
        self._cost_usd = 0.0
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        async with self._purse.reserved():
            self.began = True
            await self._answered.wait()
            self._purse.spend(self._cost_usd)

    async def answer(self, cost_usd: float) -> None:
        self._cost_usd = cost_usd
        self._answered.set()
        await wait_all_tasks_blocked()


async def _open(purse: Purse, nursery: trio.Nursery) -> Request:
    request = Request(purse, nursery)
    await wait_all_tasks_blocked()
    return request


async def test_without_a_limit_nobody_waits() -> None:
    purse = Purse()
    purse.spend(1e6)
    with trio.fail_after(1):
        async with purse.reserved(), purse.reserved():
            pass
    assert (purse.spent_usd, purse.left_usd) == (1e6, None)


async def test_what_a_request_is_expected_to_cost_is_set_aside_before_it_is_made() -> None:
    purse = Purse(1.0, spent_usd=0.3)
    async with trio.open_nursery() as nursery:
        await (await _open(purse, nursery)).answer(0.3)
        first, second = await _open(purse, nursery), await _open(purse, nursery)
        # 0.6 are spent and 0.3 are set aside for the first: that leaves too little for another.
        assert (first.began, second.began) == (True, False)
        await first.answer(0.05)
        assert second.began
        await second.answer(0.35)
    assert purse.spent_usd == 1.0
    assert purse.left_usd == 0.0


async def test_a_request_that_is_alone_is_never_held_back() -> None:
    purse = Purse(1.0)
    purse.spend(0.9)
    with trio.fail_after(1):
        async with purse.reserved():
            purse.spend(0.1)
        async with purse.reserved():
            pass


async def test_once_the_limit_is_passed_nothing_more_is_asked() -> None:
    purse = Purse(1.0)
    purse.spend(1.1)
    async with trio.open_nursery() as nursery:
        request = await _open(purse, nursery)
        assert not request.began
        nursery.cancel_scope.cancel()


async def test_an_unknown_price_sets_nothing_aside() -> None:
    purse = Purse(1.0)
    purse.spend(None)
    with trio.fail_after(1):
        async with purse.reserved(), purse.reserved():
            pass
    assert purse.spent_usd == 0.0
