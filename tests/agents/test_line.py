from math import inf

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agents.line import Line


async def _pass(line: Line, log: list[str], name: str) -> None:
    async with line.passed():
        log.append(name)


async def test_waiters_pass_in_the_order_in_which_they_came(autojump_clock: MockClock) -> None:
    opens_at = trio.current_time() + 5
    line = Line(lambda: max(0.0, opens_at - trio.current_time()))
    log: list[str] = []
    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            nursery.start_soon(_pass, line, log, name)
            await wait_all_tasks_blocked()
        assert log == []
    assert log == ["a", "b", "c"]
    assert trio.current_time() == opens_at
    assert line.inside == 0


async def test_whoever_leaves_lets_the_next_one_in() -> None:
    line = Line(lambda: inf if line.inside else 0.0)
    log: list[str] = []
    async with trio.open_nursery() as nursery, line.passed():
        nursery.start_soon(_pass, line, log, "next")
        await wait_all_tasks_blocked()
        assert (log, line.inside) == ([], 1)
    assert log == ["next"]


async def test_a_waiter_that_is_cancelled_leaves_nothing_behind() -> None:
    line = Line(lambda: inf if line.inside else 0.0)
    log: list[str] = []
    async with trio.open_nursery() as nursery, line.passed():
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as waiters:
                waiters.start_soon(_pass, line, log, "never")
                waiters.start_soon(_pass, line, log, "nor")
                await wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        nursery.start_soon(_pass, line, log, "next")
        await wait_all_tasks_blocked()
    assert log == ["next"]
    assert line.inside == 0


async def test_a_delay_that_grew_meanwhile_is_waited_out(autojump_clock: MockClock) -> None:
    opens_at = trio.current_time() + 1
    line = Line(lambda: max(0.0, opens_at - trio.current_time()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pass, line, [], "a")
        await trio.sleep(0.5)
        opens_at = trio.current_time() + 10
        line.wake()
    assert trio.current_time() == opens_at


async def test_a_line_in_which_only_a_change_helps_has_no_timer() -> None:
    line = Line(lambda: inf)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pass, line, [], "a")
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
        nursery.cancel_scope.cancel()
