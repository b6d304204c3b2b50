"""What a host sends of its own accord to clients with a person before them, and what they type."""

import pytest
import trio
import trio.testing

from engine.records.host import status
from pinata.work.host_calls import COMMAND
from pinata.work.host_seat import Send
from tests.support.hosts import Stage, played_host


class Showing:
    """Shows each client that it is there, and knows when it is there no longer."""

    def __init__(self) -> None:
        self.clients = 0

    async def show(self, send: Send) -> None:
        self.clients += 1
        try:
            await send(status(f"client {self.clients}"))
            await trio.sleep_forever()
        finally:
            self.clients -= 1


@pytest.mark.parametrize("mode", ["tui", "rpc"])
async def test_client_with_a_person_is_shown_the_work_until_it_leaves(mode: str) -> None:
    showing = Showing()
    async with played_host(show=showing.show) as host:
        client = await host.attach(mode=mode)
        assert (await client.expect("status"))["text"] == "client 1"
        await client.send(type="goodbye", reason="reload")
        assert await client.receive() is None
        await trio.testing.wait_all_tasks_blocked()
        assert showing.clients == 0


@pytest.mark.parametrize("mode", ["print", "json", None])
async def test_client_without_a_person_is_shown_nothing(mode: str | None) -> None:
    showing = Showing()
    async with played_host(show=showing.show) as host:
        client = await host.attach(mode=mode)
        await client.silence()
        assert showing.clients == 0


async def test_what_is_typed_is_answered_like_a_call() -> None:
    stage = Stage()
    async with played_host(stage) as host:
        client = await host.attach()
        await client.send(type="command", id=7, text="status 'my run'")
        await trio.testing.wait_all_tasks_blocked()
        (asked,) = stage.asked
        assert (asked.tool, asked.arguments) == (COMMAND, {"text": "status 'my run'"})
        stage.end(0)
        frame = await client.expect("result")
        assert (frame["id"], frame["answer"]["tool"]) == (7, COMMAND)
