"""Whatever an agent dies in the midst of: what it was told is read once, and one result is left."""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import REQUEST
from tests.support.clock import patient_clock
from tests.support.deaths import dying_at, passed_points
from tests.support.herd_members import Pen, open_pen
from tests.support.herd_talk import Call, Turn

ASKS = Turn("a question", calls=(Call("ask_owner", {"question": "a or b?"}),))
HANGS = Turn("half", hangs=True)
DONE = Turn("all done")

# Of a file that is replaced: here, where the machine does not die with the agent, they leave the
# same behind as the point before.
_SAME_AS_BEFORE = (".written", ".durable")
LONG = Turn("thinking", calls=(Call("bash"),), takes_s=1)


@dataclass(frozen=True)
class Story:
    """What an agent goes through.

    Attributes:
        begins: what it is past when it can die.
        goes_on: all that follows; played again from the beginning by those who come after.
    """

    begins: Callable[[Pen], Awaitable[None]]
    goes_on: Callable[[Pen], Awaitable[None]]


async def nothing(pen: Pen) -> None:
    await trio.lowlevel.checkpoint()


async def task_is_read(pen: Pen, turn: Turn) -> None:
    pen.script.play(turn)
    await pen.give("the task")
    await pen.wait_state(lambda state: state.injection is None)


async def task_alone(pen: Pen) -> None:
    await pen.wait_ready()
    state = await pen.state()
    if state.active is None and state.completed is None:
        pen.script.play(DONE)
        await pen.give("the task")
    await pen.wait_completed()


async def question(pen: Pen) -> None:
    if not await has_accepted(pen, "reply"):
        pen.script.play(ASKS)
        ask = await pen.wait_asking()
        pen.script.play(DONE)
        await pen.tell(pen.request("reply", RequestKind.REPLY, "the reply", ask=ask))
    await pen.wait_completed()


async def interrupt(pen: Pen) -> None:
    if not await has_accepted(pen, "interrupt"):
        pen.script.play(DONE)
        await pen.tell(pen.request("interrupt", RequestKind.INTERRUPT, "the interrupt"))
    await pen.wait_completed()


async def has_accepted(pen: Pen, name: str) -> bool:
    """Return whether the agent has taken that request on."""
    said = (await pen.state()).acknowledgement
    of = pen.request(name, RequestKind.STEER, "x").request
    return said is not None and said.accepted and said.request == of


STORIES: dict[str, Story] = {
    "task": Story(nothing, task_alone),
    "question": Story(lambda pen: task_is_read(pen, LONG), question),
    "interrupt": Story(lambda pen: task_is_read(pen, HANGS), interrupt),
}


def played(folder: Path, run: Callable[[Path], Awaitable[None]]) -> None:
    """Run in a loop of its own, with the clock of these tests."""
    trio.run(run, folder, clock=patient_clock())


def steps(folder: Path, story: Story) -> list[tuple[str, int]]:
    """Return the crash points that a story passes, each with how often it was passed by then."""
    found: list[tuple[str, int]] = []

    async def run(folder: Path) -> None:
        async with open_pen(folder) as pen:
            await pen.start()
            await story.begins(pen)
            with passed_points() as names:
                await story.goes_on(pen)
            counts: Counter[str] = Counter()
            for name in names:
                counts[name] += 1
                if not name.startswith("herd.") or not name.endswith(_SAME_AS_BEFORE):
                    found.append((name, counts[name]))

    played(folder, run)
    return found


async def dies_and_goes_on(folder: Path, story: Story, point: tuple[str, int]) -> None:
    """Play a story to the point where the agent dies, have it return, and check what is left."""
    async with open_pen(folder) as pen:
        pen.patience_s = 5
        await pen.start()
        await story.begins(pen)
        with dying_at(*point) as death:
            async with trio.open_nursery() as nursery:

                async def play() -> None:
                    await story.goes_on(pen)
                    nursery.cancel_scope.cancel()

                nursery.start_soon(play)
                await pen.agent.is_gone.wait()
                nursery.cancel_scope.cancel()
        assert death.happened, f"{point} was not passed"
        await pen.restart()
        # What an agent was at when it died, nobody goes on with; its owner sees that it rests.
        with suppress(trio.TooSlowError):
            await story.goes_on(pen)
        await pen.pass_time(1)
        state = await pen.state()
        heard = Counter(pen.talk.heard(REQUEST))
        assert set(heard.values()) <= {1}, heard
        assert heard["the task"] == 1
        assert len(pen.results()) == (state.completed is not None)
        assert state.injection is None
        assert pen.requests() == []
        if state.completed is not None:
            assert await pen.result() == "all done"
            assert pen.results() == [f"result-{state.completed}.json"]
        if await has_accepted(pen, "interrupt"):
            assert len(heard) == 2


@pytest.mark.slow
@pytest.mark.unmeasured
@pytest.mark.parametrize("name", list(STORIES))
def test_agent_that_dies_anywhere_reads_everything_once_and_leaves_one_result(
    tmp_path: Path, name: str
) -> None:
    story = STORIES[name]
    points = steps(tmp_path / "whole", story)
    assert len(points) > 5
    for number, point in enumerate(points):

        async def run(folder: Path, point: tuple[str, int] = point) -> None:
            await dies_and_goes_on(folder, story, point)

        played(tmp_path / str(number), run)


async def test_replacement_of_an_agent_that_died_before_it_is_read_once(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(HANGS)
        await pen.start()
        await pen.give()
        await pen.wait_state(lambda state: state.injection is None)
        pen.talk.abort_takes_s = 30
        assert (await pen.tell(pen.request("i", RequestKind.INTERRUPT, "by hand"))).accepted
        await pen.runtime.kill(pen.agent)
        assert len(pen.talk.heard(REQUEST)) == 1
        pen.script.play(DONE)
        await pen.restart()
        await pen.wait_completed()
        task, replacement = pen.talk.heard(REQUEST)
        assert task == "look around"
        assert replacement.endswith("by hand")
        assert await pen.result() == "all done"
        assert len(pen.results()) == 1
