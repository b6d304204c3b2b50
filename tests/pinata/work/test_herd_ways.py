from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.identity import GenerationId, Label
from agents.herdsman.runtime import Launch, SavedSession
from agents.herdsman.session_file import begin_managed_session
from engine.core.errors import ExternalError
from engine.system import faults
from pinata.work.herd_ways import come_up
from tests.support.herd_records import LEAD, session, uid
from tests.support.herd_stage import PlayedAttendant


@pytest.fixture
def saved(tmp_path: Path) -> SavedSession:
    path, name, label = tmp_path / "s.jsonl", session("scout"), Label("scout")
    begin_managed_session(path, name, cwd="/", definition="scout", label=label, now_ms=1)
    return SavedSession(name, path, "/", "scout", label)


def launch_of(continued: SavedSession | None) -> Launch:
    return Launch(
        generation=GenerationId(uid("generation")),
        owner=LEAD,
        workspace="/",
        label=Label("scout"),
        cwd="/",
        definition=HerdDefinition("scout", "d", "Look.\n", (Source.USER,)),
        persona="Look.\n",
        model=None,
        session=continued,
        attendant=PlayedAttendant(),
    )


@asynccontextmanager
async def opening(fault: Exception | None = None) -> AsyncIterator[str]:
    await trio.lowlevel.checkpoint()
    if fault is not None:
        raise fault
    yield "conversation"


async def fail(launch: Launch, saved: SavedSession) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(ExternalError, match="no way"):
            await come_up(stack, opening(ExternalError("no way")), launch, saved)


async def test_a_session_made_for_an_agent_that_does_not_come_up_is_removed(
    saved: SavedSession,
) -> None:
    await fail(launch_of(None), saved)
    assert not saved.file.exists()


async def test_a_session_that_was_there_before_stays(saved: SavedSession) -> None:
    await fail(launch_of(saved), saved)
    assert saved.file.exists()


async def test_a_session_of_an_agent_that_came_up_stays_whatever_happens_then(
    saved: SavedSession,
) -> None:
    async with AsyncExitStack() as stack:
        assert await come_up(stack, opening(), launch_of(None), saved) == "conversation"
        stack.push_async_callback(trio.lowlevel.checkpoint)
        with trio.CancelScope() as scope:
            scope.cancel()
            await stack.aclose()
    assert scope.cancelled_caught
    assert saved.file.exists()


async def test_a_start_that_is_cancelled_leaves_no_session(saved: SavedSession) -> None:
    async with AsyncExitStack() as stack:
        with trio.CancelScope() as scope:
            scope.cancel()
            await come_up(stack, opening(), launch_of(None), saved)
    assert not saved.file.exists()


async def test_why_an_agent_did_not_come_up_is_told_though_its_session_stays(
    saved: SavedSession, caplog: pytest.LogCaptureFixture
) -> None:
    faults.install("error:herd.session.discarding:1:EIO")
    try:
        await fail(launch_of(None), saved)
    finally:
        faults.install("")
    assert "is left" in caplog.text
