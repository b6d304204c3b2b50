"""Every settlement reaches a session once, however often its clients come and go."""

import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.errors import ExternalError
from engine.core.ids import RunId
from engine.core.outcome import Status
from pinata.work.host_calls import MOST_CALLS
from tests.support.hosts import Client, Settled, Stage, played_host

A, B = RunId("a" * 16), RunId("b" * 16)


async def acked(client: Client, kind: str = "delivery") -> str:
    """Return the key of the next frame, having confirmed it."""
    key: str = (await client.expect(kind))["delivery"]
    await client.send(type="ack", delivery=key)
    await wait_all_tasks_blocked()
    return key


async def test_what_is_owed_is_told_after_the_welcome_the_oldest_first() -> None:
    owed = [Settled(A, 2, Status.FAILED, "no", {"run": A}), Settled(B)]
    async with played_host(owed=owed) as host:
        client = await host.attach()
        assert await client.receive() == {
            "type": "delivery",
            "delivery": f"{A}/2",
            "run": A,
            "status": "failed",
            "text": "no",
            "answer": {"run": A},
        }
        assert (await client.expect("delivery"))["run"] == B
        await client.silence()
        assert host.debts.confirmed == []


async def test_what_was_confirmed_is_told_to_nobody_again_and_the_rest_is() -> None:
    async with played_host(owed=[Settled(A), Settled(B)]) as host:
        first = await host.attach()
        assert await acked(first) == f"{A}/1"
        await first.expect("delivery")
        second = await host.attach()
        assert await acked(second) == f"{B}/1"
        await second.stream.aclose()
        await (await host.attach()).silence()
        assert host.debts.confirmed == [f"{A}/1", f"{B}/1"]


async def test_end_of_a_run_is_told_when_it_comes_and_once_per_client() -> None:
    async with played_host() as host:
        client = await host.attach()
        await client.silence()
        host.debts.owed.append(Settled(A))
        for _ in range(3):
            host.server.look()
            await wait_all_tasks_blocked()
        await client.expect("delivery")
        await client.silence()


async def test_ack_of_what_was_never_sent_confirms_nothing() -> None:
    async with played_host() as host:
        client = await host.attach()
        await client.silence()
        host.debts.owed.append(Settled(A))
        await client.send(type="ack", delivery=f"{A}/1")
        await wait_all_tasks_blocked()
        assert host.debts.confirmed == []
        host.server.look()
        assert await acked(client) == f"{A}/1"


async def test_answer_of_a_call_tells_its_settlement_and_nothing_else_does() -> None:
    async with played_host(Stage(run=A)) as host:
        client = await host.attach()
        await client.send(type="call", id=1, tool="pinata_run", arguments={})
        await wait_all_tasks_blocked()
        host.debts.owed += [Settled(A), Settled(B), Settled(A, 2)]
        host.server.look()
        assert await acked(client) == f"{B}/1"
        await client.silence()
        host.stage.end(0)
        assert await acked(client, "result") == f"{A}/2"
        # One that it overtook is told now.
        assert await acked(client) == f"{A}/1"
        await client.silence()


async def test_result_for_a_client_that_is_gone_is_a_delivery_to_the_next() -> None:
    async with played_host(Stage(run=A)) as host:
        client = await host.attach()
        await client.send(type="call", id=1, tool="pinata_run", arguments={})
        await wait_all_tasks_blocked()
        await client.stream.aclose()
        host.debts.owed.append(Settled(A))
        host.stage.end(0)
        second = await host.attach()
        assert await acked(second) == f"{A}/1"


async def test_result_that_was_sent_and_not_confirmed_is_a_delivery_to_the_next() -> None:
    async with played_host(Stage(run=A)) as host:
        client = await host.attach()
        await client.send(type="call", id=1, tool="pinata_run", arguments={})
        await wait_all_tasks_blocked()
        host.debts.owed.append(Settled(A))
        host.stage.end(0)
        await client.expect("result")
        second = await host.attach()
        assert await acked(second) == f"{A}/1"


async def test_client_that_is_displaced_in_the_middle_gets_no_more() -> None:
    owed = [Settled(RunId(f"{number:016x}")) for number in range(20)]
    async with played_host(owed=owed) as host:
        first = await host.attach()
        await first.expect("delivery")
        second = await host.attach()
        assert [(await second.expect("delivery"))["run"] for _ in owed] == [x.run for x in owed]
        kinds = []
        while (frame := await first.receive()) is not None:
            kinds.append(frame["type"])
        assert kinds[-1] == "displaced"
        assert len(kinds) < len(owed)


async def test_client_that_took_nothing_keeps_nothing_from_the_one_after_it(
    autojump_clock: MockClock,
) -> None:
    owed = [Settled(RunId(letter * 16)) for letter in "abc"]
    async with played_host(owed=owed) as host:
        ours, theirs = trio.testing.lockstep_stream_pair()
        host.nursery.start_soon(host.server.converse, theirs)
        deaf = Client(ours)
        await deaf.send(**host.hello())
        await deaf.expect("welcome")
        await wait_all_tasks_blocked()
        second = await host.attach()
        assert [(await second.expect("delivery"))["delivery"] for _ in owed] == [
            each.key for each in owed
        ]
        assert trio.current_time() == 0


async def test_what_cannot_be_read_or_confirmed_is_told_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with played_host(Stage(run=B), owed=[Settled(A)]) as host:
        host.debts.failure = ExternalError("the disk is gone")
        client = await host.attach()
        await client.send(type="call", id=1, tool="pinata_run", arguments={})
        await wait_all_tasks_blocked()
        host.stage.end(0)
        assert "delivery" not in await client.expect("result")
        host.debts.failure = None
        host.server.look()
        key = (await client.expect("delivery"))["delivery"]
        host.debts.failure = ExternalError("the disk is full")
        await client.send(type="ack", delivery=key)
        await wait_all_tasks_blocked()
        host.debts.failure = None
        assert host.debts.confirmed == []
        second = await host.attach()
        assert await acked(second) == key
        assert host.debts.confirmed == [key]


async def test_session_without_a_person_is_held_until_it_has_heard_all() -> None:
    async with played_host() as host:
        client = await host.attach()
        host.runs.mortal, host.runs.surviving = 1, 1
        await client.send(type="hold", id=1)
        await client.silence()
        host.debts.owed += [Settled(A), Settled(B)]
        host.runs.end(surviving=1)
        assert [(await client.expect("delivery"))["run"] for _ in range(2)] == [A, B]
        assert await client.receive() == {"type": "result", "id": 1, "answer": {}}
        await client.silence()


async def test_hold_can_be_cancelled_and_there_may_be_so_many() -> None:
    async with played_host() as host:
        client = await host.attach()
        host.runs.mortal = 1
        for number in range(MOST_CALLS):
            await client.send(type="hold", id=number)
        await client.send(type="hold", id="more")
        assert (await client.expect("error"))["id"] == "more"
        await client.send(type="cancel", id=3)
        assert (await client.expect("error"))["error"] == "the call was cancelled"
