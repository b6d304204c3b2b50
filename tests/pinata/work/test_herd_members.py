"""Agents that own agents: what these come to reaches them, and a death leaves nothing for ever."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.closing import close
from agents.herdsman.controller import Controller
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import HerdError
from agents.herdsman.runtime import RESULT, HerdTool
from pinata.work.herd_members import Attendants
from tests.support.clock import patient_clock
from tests.support.deaths import dying_at, passed_points, unharmed
from tests.support.herd_lives import Life, open_life
from tests.support.herd_talk import Turn
from tests.support.herd_told import Book

PARENT, CHILD = "parent", "child"
Point = tuple[str, int]


@pytest.fixture
def herd_clock() -> MockClock:
    return patient_clock()


def no_tools(controller: Callable[[], Controller], names: Sequence[str]) -> Sequence[HerdTool]:
    """Return nothing to delegate by: the tests do it for the agents."""
    return ()


@asynccontextmanager
async def open_family(
    folder: Path, book: Book, number: int
) -> AsyncIterator[tuple[Life, Attendants]]:
    """Have a life whose agents may own agents."""
    async with open_life(folder, book, number=number) as life:
        desk = life.desk
        desk.define("boss", "agents: [scout]")
        attendants = Attendants(
            desk.premises,
            desk.runtime,
            no_tools,
            desk.home,
            desk.agent_dir,
            lambda: None,
            life.controller.roster,
        )
        desk.attendant = attendants.attendant
        life.begin(desk.controller())
        yield life, attendants


async def put_to_work(controller: Controller, definition: str, label: str) -> None:
    await delegate(
        controller, definition=definition, task=f"task of {label}", label=label, files=()
    )


async def begin(life: Life, attendants: Attendants) -> None:
    """Have a parent at work that has a child at work."""
    parent, child = (life.desk.runtime.script(label) for label in (PARENT, CHILD))
    parent.play(Turn("I have delegated", takes_s=5), Turn("all of it is done", takes_s=1))
    child.play(Turn("the part is done", takes_s=10))
    await put_to_work(life.controller, "boss", PARENT)
    [owner] = attendants.controllers.values()
    await put_to_work(owner, "scout", CHILD)


async def test_result_of_a_child_reaches_its_parent_whose_own_comes_after_it(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    book = Book()
    async with open_family(tmp_path, book, 1) as (life, attendants):
        await begin(life, attendants)
        conversation = life.desk.runtime.agent(PARENT).conversation
        await life.settle()
        [heard] = conversation.heard(RESULT)
        assert "the part is done" in heard
        assert await life.desk.labels() == []
        assert attendants.controllers == {}
    [told] = book.told
    assert "all of it is done" in told.text
    assert told.details["agentLabel"] == PARENT


def points_of_a_family(folder: Path) -> list[Point]:
    """Return the crash points from when both are at work, each with how often it was passed."""
    found: list[Point] = []

    async def run() -> None:
        async with open_family(folder, Book(), 1) as (life, attendants):
            await begin(life, attendants)
            with passed_points() as names:
                await life.settle()
            counts: Counter[str] = Counter()
            for name in names:
                counts[name] += 1
                # Of a file that is replaced: here, where the machine does not die with the host,
                # they leave the same behind as the point before.
                if not name.endswith((".written", ".durable")):
                    found.append((name, counts[name]))

    trio.run(run, clock=patient_clock())
    return found


async def dies_and_is_cleared_up(folder: Path, point: Point) -> str:
    """Have a host die at a point; return how its parent ended that the next one found."""
    book = Book()
    with dying_at(*point) as death:
        async with open_family(folder, book, 1) as (life, attendants):
            with unharmed():
                await begin(life, attendants)
            await life.settle()
    if not death.happened:
        # Both of them work at once, and what one has done when the other looks is not always alike.
        return "not reached"
    async with open_family(folder, book, 2) as (life, _):
        await life.settle()
        how = "told"
        if book.results == []:
            answer = await close(life.controller, agent=PARENT)
            how = "kept" if "kept_results" in answer else "lost"
        await life.settle()
        assert await life.desk.labels() == [], point
        with pytest.raises(HerdError):
            await close(life.controller, agent=PARENT)
    assert len(book.results) == (how == "told"), point
    return how


@pytest.mark.slow
@pytest.mark.unmeasured
def test_host_that_dies_anywhere_leaves_a_family_that_can_be_cleared_up(tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    for number, point in enumerate(points_of_a_family(tmp_path / "whole")):

        async def run(folder: Path, point: Point = point) -> None:
            ends[await dies_and_is_cleared_up(folder, point)] += 1

        trio.run(run, tmp_path / str(number), clock=patient_clock())
    missed = ends.pop("not reached", 0)
    assert set(ends) == {"told", "kept", "lost"}
    assert missed < ends.total() / 10
