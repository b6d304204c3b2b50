"""When a host looks after the runs of its session again, and who hears what it found."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.ids import RunId
from pinata.work.host_home import LEAST_PAUSE_S
from tests.support.hosts import Client, played_host

RUN = RunId("a" * 16)
BROKE = (
    f"run {RUN} broke off here: the disk is full; unless it has settled since, it is taken up "
    "again when this session calls for something, or comes back, and its end will be told"
)
GOES_ON = f"run {RUN} had lost its owner and goes on here"


@dataclass
class Homecomings:
    """Comes home and finds what a test says."""

    finds: list[Sequence[str] | Exception] = field(default_factory=list)
    times: int = 0

    async def __call__(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.times += 1
        found = self.finds.pop(0) if self.finds else ()
        if isinstance(found, Exception):
            raise found
        return found


async def call(client: Client) -> None:
    """Call for something that has no answer yet."""
    await client.send(type="call", id=str(trio.current_time()), tool="look", arguments={})


async def pause() -> None:
    await trio.sleep(LEAST_PAUSE_S)


async def test_run_that_breaks_off_is_told_at_once_and_taken_up_at_the_next_call(
    autojump_clock: MockClock,
) -> None:
    home = Homecomings([(), (GOES_ON,)])
    async with played_host(come_home=home) as host:
        client = await host.attach()
        host.runs.broken_off[RUN] = "the disk is full"
        host.server.look()
        assert await client.expect("notice") == {"type": "notice", "text": BROKE}
        host.server.look()
        await client.silence()
        assert home.times == 1
        # However soon after the look before.
        await client.send(type="hold", id=1)
        assert await client.expect("notice") == {"type": "notice", "text": GOES_ON}
        await client.expect("result")
        assert home.times == 2


async def test_session_that_comes_back_hears_of_it_and_has_it_taken_up(
    autojump_clock: MockClock,
) -> None:
    home = Homecomings()
    async with played_host(come_home=home) as host:
        first = await host.attach()
        await pause()
        host.runs.broken_off[RUN] = "the disk is full"
        await first.send(type="goodbye", reason="reload")
        assert await first.receive() is None
        client = host.connect()
        await client.send(**host.hello())
        assert (await client.expect("welcome"))["notices"] == [BROKE]
        assert home.times == 2
        await client.silence()


async def test_host_looks_again_only_for_a_reason_and_not_all_the_time(
    autojump_clock: MockClock,
) -> None:
    home = Homecomings()
    async with played_host(come_home=home) as host:
        client = await host.attach()
        await pause()
        await call(client)
        await wait_all_tasks_blocked()
        assert home.times == 1
        host.runs.broken_off[RUN] = "the disk is full"
        for _ in range(int(2.5 * LEAST_PAUSE_S)):
            await trio.sleep(1)
            await call(client)
        await wait_all_tasks_blocked()
        assert home.times == 4


async def test_run_that_could_not_be_taken_over_is_tried_again(autojump_clock: MockClock) -> None:
    home = Homecomings([("run ab is owned by process 7",)])
    async with played_host(come_home=home) as host:
        client = await host.attach()
        for times in (2, 2):
            await pause()
            await client.send(type="hold", id=1)
            await client.expect("result")
            assert home.times == times


async def test_fault_in_a_look_ends_no_host(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    home = Homecomings([ZeroDivisionError("bug")])
    async with played_host(come_home=home) as host:
        client = host.connect()
        await client.send(**host.hello())
        assert (await client.expect("welcome"))["notices"] == [
            "runs of this session could not be looked after by a fault of pinata"
        ]
        assert "ZeroDivisionError" in caplog.text
