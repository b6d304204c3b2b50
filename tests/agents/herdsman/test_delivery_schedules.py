"""Whatever happens to an owner and its agents: each result is told once, and none is lost."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings, strategies as st

from agents.herdsman.record import State
from tests.support.clock import patient_clock
from tests.support.deaths import dying_at, passed_points, unharmed
from tests.support.herd_lives import Life, open_life
from tests.support.herd_told import Book

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
_IS_SOAK = settings.get_current_profile_name() == "soak"
_LIMIT_S = 24 * 3600
# More than there are crash points: one in so many lives has none.
_MOST_POINTS = 60


_CHANGES = {
    "busy": {"is_idle": False},
    "idle": {"is_idle": True},
    "away": {"is_away": True},
    "back": {"is_away": False},
}
_WAITS = {"wait": 0.05, "wait long": 10.0}
_OTHERS = ("ring", "leave branch", "save nothing", "kill an agent", "revive agents", "begin anew")
# Without agents nothing can go wrong.
ACTS = ("delegate",) * 3 + ("steer",) * 2 + (*_CHANGES, *_WAITS, *_OTHERS)


@dataclass(frozen=True)
class LifeStory:
    """What happens in one life of the process.

    Attributes:
        acts: each with a number that says more.
        point: which of all crash points is the last; beyond them, the process ends after its acts.
        passes: at which pass of it the process dies.
        is_revived: whether the agents outlived the process before.
    """

    acts: Sequence[tuple[str, int]]
    point: int
    passes: int
    is_revived: bool


STORIES = st.lists(
    st.builds(
        LifeStory,
        st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 9)), min_size=1, max_size=8),
        st.integers(0, _MOST_POINTS),
        st.integers(1, 4),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


class History:
    """All lives of one owner.

    Attributes:
        book: what it was told.
        accepted: tasks that agents took.
        ended: tasks of agents that were closed in the end.
        left: labels that are in use after all.
    """

    def __init__(self, folder: Path) -> None:
        self.book = Book()
        self.accepted: set[str] = set()
        self.ended: set[str] = set()
        self.left: list[str] = []
        self._folder = folder
        self._lives = 0
        self._labels = 0

    async def play(self, stories: Sequence[LifeStory]) -> None:
        """Let it all happen, and then all come in order again."""
        with trio.fail_after(_LIMIT_S):
            for story in stories:
                await self.live(story)
            self.book.faults = 0
            self.book.change(is_away=False, is_idle=True)
            with unharmed():
                await self._recover()

    async def live(self, story: LifeStory) -> None:
        """Let one life happen."""
        name = dict(enumerate(crash_points())).get(story.point, "none of them")
        with dying_at(name, story.passes):
            async with self.open_life() as life:
                with unharmed():
                    self.accepted |= {task for each in await life.states() if (task := each.active)}
                if story.is_revived:
                    await life.revive()
                for act, number in story.acts:
                    await self.act(life, act, number)

    def open_life(self) -> AbstractAsyncContextManager[Life]:
        """Have the next life inside the block."""
        self._lives += 1
        return open_life(self._folder, self.book, number=self._lives)

    async def act(self, life: Life, act: str, number: int) -> None:
        """Do one thing."""
        if act in _CHANGES:
            self.book.change(**_CHANGES[act])
        elif act in _WAITS:
            await trio.sleep(number * _WAITS[act])
        else:
            await self._act(life, act, number)

    async def _act(self, life: Life, act: str, number: int) -> None:
        match act:
            case "delegate":
                self._labels += 1
                task = await life.delegate(f"a{self._labels}")
                self.accepted |= set() if task is None else {task}
            case "steer":
                await life.steer(number)
            case "ring":
                for _ in range(number):
                    life.ring()
                    await trio.lowlevel.checkpoint()
            case "leave branch":
                self.book.leave_branch()
            case "save nothing":
                self.book.faults = number
            case "kill an agent":
                await life.kill(number)
            case "revive agents":
                await life.revive()
            case _:
                life.keep()

    async def _recover(self) -> None:
        """Have one more life, in which nothing goes wrong."""
        async with self.open_life() as life:
            await life.settle()
            await life.revive()
            await life.settle()
            left = await life.states()
            self.accepted |= {task for each in left if (task := _task(each)) is not None}
            self.ended = {task for each in left if (task := _task(each)) is not None}
            await life.close_all()
            self.left = await life.desk.labels()

    def check(self) -> None:
        """Check that each task came to one result, or was given up, and that nothing is left."""
        told = Counter(message.details["request"] for message in self.book.results)
        assert set(told.values()) <= {1}, told
        assert self.left == []
        assert told.keys() | self.ended >= self.accepted
        assert not told.keys() & self.ended
        for message in self.book.results:
            assert f"result of {message.details['agentLabel']}" in message.text
            assert message.details["resultIndex"] >= 1


def _task(state: State) -> str | None:
    return state.active or state.completed


@cache
def crash_points() -> list[str]:
    """Return the names of the crash points that an undisturbed life passes."""
    folder = Path(tempfile.mkdtemp(prefix="herd-"))
    history = History(folder)

    async def live() -> None:
        async with history.open_life() as life:
            for _ in range(2):
                await history.act(life, "delegate", 0)
            await life.settle()

    try:
        with passed_points() as names:
            trio.run(live, clock=patient_clock())
    finally:
        shutil.rmtree(folder)
    assert len(history.book.results) == 2
    return sorted(set(names))


def play(stories: Sequence[LifeStory]) -> None:
    # A loop cannot run in a loop.
    crash_points()
    folder = Path(tempfile.mkdtemp(prefix="herd-"))
    try:
        history = History(folder)
        trio.run(history.play, stories, clock=patient_clock())
        history.check()
    finally:
        shutil.rmtree(folder)


def test_every_crash_point_can_be_died_at() -> None:
    assert 10 < len(crash_points()) < _MOST_POINTS
    for part in ("herd.result.", "herd.state.", "herd.artifact.", "herd.reservation.", "played."):
        assert any(name.startswith(part) for name in crash_points()), part


@settings(max_examples=200 if _IS_SOAK else 6)
@given(stories=STORIES)
def test_whatever_happens_each_result_is_told_once_and_none_is_lost(
    stories: list[LifeStory],
) -> None:
    play(stories)
