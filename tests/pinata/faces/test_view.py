"""From where a view hears of a run."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.store import RunFolder
from engine.system import locks
from pinata.faces.view import _reach, _show_until_over
from pinata.faces.view_state import Ending
from pinata.work.session import Session
from pinata.work.viewed import Source, StoredSource
from tests.support.ledgers import PaperRun
from tests.support.linked import RUN, Linked


@pytest.fixture
def run(tmp_path: Path) -> PaperRun:
    session = Session.of("a session", {"XDG_STATE_HOME": str(tmp_path)})
    made = PaperRun(session, RunFolder(tmp_path / "pinata" / RUN))
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
    assert stored.reason == f"nobody works on run {run.run}: pinata rerun {run.run}, or resume"


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


class Shown:
    """A way to show runs that ends as the test says, once something has happened meanwhile.

    Attributes:
        sources: what it was to show, in order.
    """

    def __init__(
        self,
        *endings: Ending,
        meanwhile: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self.sources: list[Source] = []
        self._meanwhile = meanwhile
        self._endings = list(endings)

    async def show(self, source: Source) -> Ending:
        self.sources.append(source)
        await self._meanwhile()
        return self._endings.pop(0)


async def test_run_that_nobody_owned_was_not_lost(run: PaperRun, tmp_path: Path) -> None:
    over = await _show_until_over(Shown(Ending.ENDED), run.folder, tmp_path / "lock")
    assert over == (Ending.ENDED, f"nobody works on run {RUN}: pinata rerun {RUN}, or resume")


async def test_connection_is_made_anew_while_somebody_serves_the_run(
    run: PaperRun, tmp_path: Path
) -> None:
    shown = Shown(Ending.LOST, Ending.LOST, Ending.LEFT)
    async with Linked(run.folder).served():
        over = await _show_until_over(shown, run.folder, tmp_path / "lock")
    assert over == (Ending.LEFT, "")
    assert len({id(source) for source in shown.sources}) == 3
    assert not any(isinstance(source, StoredSource) for source in shown.sources)


@pytest.mark.parametrize("settles", [False, True])
async def test_lost_run_is_shown_from_its_folder_when_nobody_serves_it_any_more(
    run: PaperRun,
    tmp_path: Path,
    settles: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    may_leave, has_left = trio.Event(), trio.Event()

    async def own(task_status: trio.TaskStatus[None]) -> None:
        async with Linked(run.folder).served():
            task_status.started()
            await may_leave.wait()
        has_left.set()

    async def leave() -> None:
        may_leave.set()
        await has_left.wait()

    shown = Shown(Ending.LOST, Ending.ENDED, meanwhile=leave)
    if settles:
        run.settle()
    async with trio.open_nursery() as nursery:
        await nursery.start(own)
        over = await _show_until_over(shown, run.folder, tmp_path / "lock")
    lost = (Ending.LOST, f"nobody works on run {RUN}: pinata rerun {RUN}, or resume")
    assert over == ((Ending.ENDED, "") if settles else lost)
    assert isinstance(shown.sources[1], StoredSource)
