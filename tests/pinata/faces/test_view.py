"""From where a view hears of a run."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio.testing

from engine.core.ids import RunId
from engine.store import RunFolder
from engine.system import locks
from pinata.faces.view import _reach
from pinata.work.session import Session
from pinata.work.viewed import Source, StoredSource
from tests.support.ledgers import PaperRun


@pytest.fixture
def run(tmp_path: Path) -> PaperRun:
    session = Session.of("a session", {"XDG_STATE_HOME": str(tmp_path)})
    made = PaperRun(session, RunFolder(tmp_path / "pinata" / RunId("a" * 16)))
    made.create()
    return made


async def reached(run: PaperRun, lock: Path) -> tuple[Source, StoredSource]:
    async with AsyncExitStack() as stack:
        return await _reach(stack, run.folder, lock)


async def test_run_that_nobody_owns_is_shown_as_stored_with_the_remedy(
    run: PaperRun, tmp_path: Path
) -> None:
    source, stored = await reached(run, tmp_path / "lock")
    assert source is stored
    assert stored.reason == f"nobody works on run {run.run}: pinata resume {run.run}"


async def test_owner_who_lets_nobody_in_is_waited_for_and_then_named(
    run: PaperRun, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    lock = tmp_path / "lock"
    async with locks.claim(lock, what="the run", holder="process 7"):
        source, stored = await reached(run, lock)
    assert source is stored
    assert "process 7, which lets nobody in" in stored.reason


async def test_settled_run_says_so_whoever_holds_it(run: PaperRun, tmp_path: Path) -> None:
    run.settle()
    _, stored = await reached(run, tmp_path / "lock")
    assert stored.reason == f"run {run.run} has settled"
