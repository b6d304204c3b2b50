"""A person at a terminal is answered beside the session's program, and harms neither."""

import pytest
import trio

from engine.core.errors import ConflictError
from tests.support.hosts import Client, Host, Stage, played_host


async def visit(host: Host, owner: str | None = "child") -> Client:
    """Return the connection of a person that was welcomed."""
    client = host.connect()
    first = host.hello() | {"role": "person", "cwd": "/src", "trust": True}
    await client.send(**first, **({} if owner is None else {"owner": owner}))
    assert (await client.expect("welcome"))["tools"] == []
    return client


async def call(client: Client, number: int = 1, tool: str = "agent_list") -> None:
    await client.send(type="call", id=number, tool=tool, arguments={"agent": "eye"})


async def wait_asked(stage: Stage, count: int = 1) -> None:
    while len(stage.asked) < count:
        await trio.lowlevel.checkpoint()


async def test_call_is_made_for_the_owner_that_is_meant_from_where_the_person_stands() -> None:
    async with played_host() as host:
        client = await visit(host)
        await call(client, 7, "agent_close")
        await wait_asked(host.stage)
        (asked,) = host.stage.asked
        assert (asked.tool, asked.arguments, asked.owner) == (
            "agent_close",
            {"agent": "eye"},
            "child",
        )
        assert (str(asked.cwd), asked.trust) == ("/src", True)
        host.stage.end(0)
        answered = await client.expect("result")
        assert (answered["id"], answered["answer"]) == (7, {"tool": "agent_close", "number": 0})


async def test_calls_are_answered_one_after_the_other() -> None:
    async with played_host() as host:
        client = await visit(host)
        await call(client, 1)
        await call(client, 2)
        await wait_asked(host.stage)
        await client.silence()
        assert len(host.stage.asked) == 1
        host.stage.end(0)
        assert (await client.expect("result"))["id"] == 1
        await wait_asked(host.stage, 2)
        host.stage.end(1)
        assert (await client.expect("result"))["id"] == 2


async def test_call_that_is_refused_is_told_and_the_next_one_is_served() -> None:
    async with played_host() as host:
        client = await visit(host, None)
        host.stage.endings[0] = ConflictError("it is not there")
        await call(client)
        await wait_asked(host.stage)
        host.stage.end(0)
        assert (await client.expect("error"))["error"] == "it is not there"
        await call(client, 2)
        await wait_asked(host.stage, 2)
        assert host.stage.asked[1].owner is None
        host.stage.end(1)
        assert (await client.expect("result"))["id"] == 2


async def test_fault_of_pinata_in_a_call_is_told_and_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with played_host() as host:
        session = await host.attach()
        client = await visit(host)
        await call(client)
        await wait_asked(host.stage)
        host.stage.end(0, ZeroDivisionError("a secret of the heap"))
        told = (await client.expect("error"))["error"]
        assert told == "agent_list broke off by a fault of pinata: ZeroDivisionError"
        assert "a secret of the heap" in caplog.text
        await call(client, 2)
        await wait_asked(host.stage, 2)
        host.stage.end(1)
        assert (await client.expect("result"))["id"] == 2
        await session.silence()


@pytest.mark.parametrize(
    "frame", [{"type": "goodbye", "reason": "quit"}, {"type": "idle", "idle": True}, {"x": 1}]
)
async def test_what_is_no_call_is_refused_and_ends_the_visit_alone(
    frame: dict[str, object],
) -> None:
    async with played_host() as host:
        session = await host.attach()
        client = await visit(host)
        await client.send(**frame)
        assert (await client.expect("refused"))["error"]
        assert await client.receive() is None
        await session.silence()


async def test_visitor_who_leaves_in_the_midst_of_a_call_leaves_no_trace() -> None:
    async with played_host() as host:
        client = await visit(host)
        await call(client)
        await wait_asked(host.stage)
        await client.stream.aclose()
        host.stage.end(0)
        other = await visit(host)
        await call(other)
        await wait_asked(host.stage, 2)
        host.stage.end(1)
        assert (await other.expect("result"))["answer"]["number"] == 1
