"""The bridge in this process: what it passes on, and what it says when there is nobody."""

from argparse import Namespace
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from agents.traffic import Traffic
from engine.core.errors import ConflictError, UsageError
from engine.core.limiter import Limiter
from pinata.faces import pi
from pinata.faces.wire import LineReader, LineWriter
from pinata.work.host import Setting, Work, open_host
from pinata.work.session import Session
from tests.support.hosts import Client, Debts, Stage, at_home

GIVEN = Namespace(command="pi", session="s1")


@dataclass(frozen=True, slots=True)
class Ends:
    """What stdin and stdout of the program are in a test."""

    program: trio.StapledStream[Any, Any]
    client: Client


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    ours, theirs = trio.testing.memory_stream_pair()

    @asynccontextmanager
    async def open_wire() -> AsyncIterator[tuple[LineReader, LineWriter]]:
        yield LineReader(theirs), LineWriter(theirs)

    monkeypatch.setattr(pi, "open_wire", open_wire)
    return Ends(ours, Client(ours))


def env_in(folder: Path) -> Mapping[str, str]:
    return {"XDG_STATE_HOME": str(folder)}


@asynccontextmanager
async def hosted(folder: Path, stage: Stage) -> AsyncIterator[None]:
    session = Session.of("s1", env_in(folder))
    setting = Setting({}, "1.2.3", (), Traffic(Limiter(), lambda: 0.5))
    async with open_host(session, setting, lambda _: Work(stage, Debts(), at_home)):
        yield


async def test_frames_are_carried_both_ways_until_the_session_leaves(
    ends: Ends, tmp_path: Path
) -> None:
    codes, stage = [], Stage()

    async def run() -> None:
        codes.append(await pi.COMMANDS["pi"](GIVEN, env_in(tmp_path)))

    async with hosted(tmp_path, stage), trio.open_nursery() as nursery:
        nursery.start_soon(run)
        client = ends.client
        await client.send(type="hello", v=1, role="session", session="s1", cwd="/src")
        await client.expect("welcome")
        text = "zwölf 😀 " * 100_000
        await client.send(type="call", id=1, tool="look", arguments={"text": text})
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert stage.asked[0].arguments == {"text": text}
        stage.end(0)
        await client.expect("result")
        await ends.program.send_eof()
    assert codes == [0]


async def test_bridge_ends_when_its_host_does(ends: Ends, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        async with hosted(tmp_path, Stage()):
            nursery.start_soon(pi.COMMANDS["pi"], GIVEN, env_in(tmp_path))
            await ends.client.send(type="hello", v=1, role="session", session="s1")
            await ends.client.expect("welcome")
        await ends.client.expect("refused")
        # What it still wants to say to the host goes nowhere, and ends nothing.
        await ends.client.send(type="ack", delivery="a/1")


async def test_session_that_says_nothing_needs_no_host(ends: Ends, tmp_path: Path) -> None:
    await ends.program.send_eof()
    assert await pi.COMMANDS["pi"](GIVEN, env_in(tmp_path)) == 0
    assert not (tmp_path / "pinata").exists()


@pytest.mark.parametrize("line", ["[]", "null", "hello", '{"a": 1, "a": 2}'])
async def test_first_line_that_is_no_frame_is_refused(
    ends: Ends, tmp_path: Path, line: str
) -> None:
    await ends.program.send_all(f"{line}\n".encode())
    with pytest.raises(UsageError, match="stdin: ") as caught:
        await pi.COMMANDS["pi"](GIVEN, env_in(tmp_path))
    assert await ends.client.receive() == {"type": "refused", "error": str(caught.value)}
    assert not (tmp_path / "pinata").exists()


async def test_agent_is_refused_before_it_says_anything(ends: Ends, tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="PINATA_AGENT=1"):
        await pi.COMMANDS["pi"](GIVEN, {**env_in(tmp_path), "PINATA_AGENT": "1"})
    assert "only the coordinator" in (await ends.client.expect("refused"))["error"]


async def test_host_that_is_gone_ends_no_more_than_what_was_to_be_said() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.aclose()

    said, heard = trio.testing.memory_stream_pair()
    await said.send_all(b"{}\n")
    await pi._send(LineReader(heard), ours)
