"""Calls of a host's clients: what they answer, how they end, and how many there may be."""

import logging
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.errors import ConflictError
from engine.core.ids import RunId
from pinata.work.host_calls import MOST_CALLS, Asked
from tests.support.hosts import Client, Host, Settled, Stage, played_host

RUN = RunId("0123456789abcdef")


async def call(client: Client, id_: int | str = 1, tool: str = "pinata_run") -> None:
    await client.send(type="call", id=id_, tool=tool, arguments={"tasks": []})
    await wait_all_tasks_blocked()


async def test_call_is_made_from_where_the_client_stands_and_answered_by_its_id() -> None:
    async with played_host() as host:
        client = await host.attach(trust=True)
        await call(client, "a")
        assert host.stage.asked == [Asked("pinata_run", {"tasks": []}, Path("/src"), trust=True)]
        await host.stage.tells[0](3, "half way")
        told = await client.expect("progress")
        assert (told["id"], told["number"], told["message"]) == ("a", 3, "half way")
        host.stage.end(0)
        answer = {"tool": "pinata_run", "number": 0}
        assert await client.receive() == {"type": "result", "id": "a", "answer": answer}


async def test_calls_go_on_beside_each_other_and_one_that_breaks_off_ends_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with played_host() as host:
        client = await host.attach()
        for number in range(8):
            await call(client, number)
        host.stage.end(3, ZeroDivisionError("bug"))
        assert (await client.expect("error"))["error"] == (
            "pinata_run broke off by a fault of pinata: ZeroDivisionError"
        )
        host.stage.end(4, ConflictError("not now"))
        assert await client.receive() == {"type": "error", "id": 4, "error": "not now"}
        for number in (7, 0, 1, 2, 5, 6):
            host.stage.end(number)
            assert (await client.expect("result"))["id"] == number


async def test_flood_of_calls_is_refused_beyond_a_number_and_one_id_is_used_once() -> None:
    async with played_host() as host:
        client = await host.attach()
        for number in range(MOST_CALLS - 1):
            await call(client, number)
        await call(client, 0)
        assert (await client.expect("error"))["error"] == (
            "a call with the id 0 is under way: choose another id"
        )
        await call(client, "last")
        await call(client, "more")
        refused = await client.expect("error")
        assert refused["id"] == "more"
        assert refused["error"] == "64 calls are under way: wait until one has ended"
        # Neither does it help to come again.
        second = await host.attach()
        await call(second, "again")
        assert (await second.expect("error"))["id"] == "again"
        host.stage.end(0)
        await wait_all_tasks_blocked()
        await call(second, "again")
        await second.silence()


async def test_cancelling_a_call_without_a_run_answers_that() -> None:
    async with played_host() as host:
        client = await host.attach()
        await call(client)
        for id_ in (2, 1, 1):
            await client.send(type="cancel", id=id_)
        assert (await client.expect("error"))["error"] == "the call was cancelled"
        assert host.stage.cancelled == ["given up"]
        await client.silence()


async def test_cancelling_a_call_ends_its_run_in_order_and_answers_what_became_of_it() -> None:
    async with played_host(Stage(run=RUN), owed=[Settled(RUN)]) as host:
        client = await host.attach()
        await call(client)
        await client.send(type="cancel", id=1)
        result = await client.expect("delivery")  # from before
        result = await client.expect("result")
        assert host.stage.cancelled == ["cancelled by the coordinator"]
        assert "delivery" in result


async def test_calls_of_a_client_that_just_went_go_on_for_a_minute(
    autojump_clock: MockClock,
) -> None:
    async with played_host(Stage(run=RUN)) as host:
        client = await host.attach()
        await call(client)
        await client.stream.aclose()
        await trio.sleep(59)
        assert host.stage.cancelled == []
        await host.server.wait_left()
        assert host.stage.cancelled == ["the session has been away for 60 s"]


async def test_progress_and_result_for_a_client_that_is_gone_are_dropped() -> None:
    async with played_host() as host:
        client = await host.attach()
        await call(client)
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        await host.stage.tells[0](1, "half way")
        host.stage.end(0)
        await wait_all_tasks_blocked()
        second = await host.attach()
        await second.silence()


async def ask_and_quit(host: Host) -> None:
    client = await host.attach()
    await call(client)
    await client.send(type="goodbye", reason="quit")
    assert await client.receive() is None


@pytest.mark.parametrize("run", [None, RUN], ids=["without a run", "with a run"])
async def test_goodbye_for_good_ends_calls_before_the_host(run: RunId | None) -> None:
    async with played_host(Stage(run=run)) as host:
        await ask_and_quit(host)
        await host.server.wait_left()
        assert host.stage.cancelled == ["given up" if run is None else "the session has ended"]


async def test_run_that_opens_after_its_call_was_cancelled_is_cancelled() -> None:
    opening = trio.Event()
    async with played_host(Stage(run=RUN, opening=opening)) as host:
        client = await host.attach()
        await call(client)
        await client.send(type="cancel", id=1)
        await wait_all_tasks_blocked()
        opening.set()
        await client.expect("error")
        assert host.stage.cancelled == ["cancelled by the coordinator", "given up"]


async def test_call_for_a_run_that_survives_keeps_the_host_until_it_has_ended() -> None:
    async with played_host(Stage(run=RUN, survives=True)) as host:
        await ask_and_quit(host)
        assert not await host.has_left()
        assert host.stage.cancelled == []
        host.stage.end(0)
        await host.server.wait_left()
