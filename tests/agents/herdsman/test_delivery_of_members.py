"""Agents that die while they write a result: it is told once if it is there, and else missed."""

from collections import Counter
from pathlib import Path

import pytest
import trio

from agents.herdsman.runtime import ATTENTION
from tests.support.clock import patient_clock
from tests.support.deaths import dying_at, passed_points, unharmed
from tests.support.herd_lives import WORK_S, Life, open_life
from tests.support.herd_told import Book

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
Point = tuple[str, int]


async def put_to_work(life: Life) -> None:
    """Delegate to an agent; it has read its task when this returns, and is not done."""
    life.book.is_away = True
    assert await life.delegate("scout") is not None
    await trio.sleep(WORK_S / 2)


def points_of_the_end(folder: Path) -> list[Point]:
    """Return the crash points that an agent passes from its last answer on."""
    found: list[Point] = []

    async def run() -> None:
        async with open_life(folder, Book(), number=1) as life:
            await put_to_work(life)
            with passed_points() as names:
                await life.settle()
            counts: Counter[str] = Counter()
            for name in names:
                counts[name] += 1
                found.append((name, counts[name]))

    trio.run(run, clock=patient_clock())
    return found


async def dies_and_is_missed(folder: Path, point: Point, *, is_revived: bool) -> bool:
    """Have an agent die at a point, and its owner look; return whether there was a result."""
    book = Book()
    with dying_at(*point) as death:
        async with open_life(folder, book, number=1) as life:
            with unharmed():
                await put_to_work(life)
            await life.settle()
    assert death.happened, point
    book.is_away = False
    async with open_life(folder, book, number=2) as life:
        [left] = await life.contents()
        if is_revived:
            await life.revive()
        await life.settle()
        if left.results:
            assert [one.details["request"] for one in book.results] == list(left.results), point
            assert "result of scout" in book.results[0].text
            assert await life.desk.labels() == []
        else:
            assert book.results == [], point
            assert await life.desk.labels() == ["scout"]
            if not is_revived:
                assert book.told[0].kind == ATTENTION
            await life.close_all()
    async with open_life(folder, book, number=3) as life:
        await life.settle()
        assert len(book.results) == len(left.results), point
    return bool(left.results)


@pytest.mark.parametrize("is_revived", [False, True], ids=["gone for good", "back again"])
def test_agent_that_dies_anywhere_at_its_end_has_its_result_told_once(
    tmp_path: Path, *, is_revived: bool
) -> None:
    points = points_of_the_end(tmp_path / "whole")
    had_result = []
    for number, point in enumerate(points):

        async def run(folder: Path, point: Point = point) -> None:
            had_result.append(await dies_and_is_missed(folder, point, is_revived=is_revived))

        trio.run(run, tmp_path / str(number), clock=patient_clock())
    # Both have been seen: deaths before the result was there, and after it.
    assert set(had_result) == {False, True}
    assert had_result == sorted(had_result)
