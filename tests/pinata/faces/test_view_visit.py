"""A person in front of a view, on a real terminal in this process."""

import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest
import trio
import trio.testing

from agents.transcript import SaidMessage
from engine.core.errors import ConflictError
from engine.core.events import MessageEnded, RunSettled, TextDelta, ToolStarted
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import Status
from engine.store import RunFolder
from pinata.faces.view_state import Ending
from pinata.faces.view_terminal import open_terminal
from pinata.faces.view_visit import Visit, Wish
from pinata.work.observer import OpenedRun
from pinata.work.viewed import Source, StoredSource
from tests.support.clock import FakeClock
from tests.support.terminals import Pty, open_pty
from tests.support.views import CHECK, FIX, LOOK, ToldSource, opened, settled, started

ONE = AttemptId(FIX, 1)
RUN = opened(started(FIX), started(LOOK))
EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class Seat:
    """The place in front of a view.

    Attributes:
        ending: why the view is over; None while it is not.
    """

    pty: Pty
    visit: Visit
    clock: FakeClock
    ending: Ending | None = None

    async def press(self, keys: str) -> None:
        self.pty.press(keys.encode())
        await trio.lowlevel.checkpoint()

    async def shown(self, text: str) -> None:
        await trio.to_thread.run_sync(self.pty.wait_shown, text)

    async def gone(self, text: str) -> None:
        await trio.to_thread.run_sync(
            self.pty.wait, lambda: not any(text in line for line in self.pty.lines)
        )


def stored(source_run: Path, *, settles: bool = False) -> StoredSource:
    run = opened(settled(FIX, Status.FAILED)) if settles else RUN
    return StoredSource(RunFolder(source_run / run.id), "nobody owns it", run, 65_000)


class SilentSource(ToldSource):
    """A source that answers no message before it shall.

    Attributes:
        steered: set once it has a message.
        answers: set by the test.
    """

    def __init__(self, run: OpenedRun) -> None:
        super().__init__(run)
        self.steered = trio.Event()
        self.answers = trio.Event()

    async def steer(self, task: TaskId, text: str, *, follow_up: bool) -> None:
        self.steered.set()
        await self.answers.wait()
        await super().steer(task, text, follow_up=follow_up)


@asynccontextmanager
async def seat(
    source: Source | None,
    folder: Path,
    task: TaskId | None = None,
    *,
    keeps: bool = False,
    environment: Mapping[str, str] = EMPTY,
    again: Source | None = None,
) -> AsyncIterator[Seat]:
    """Sit in front of a view inside the block, which ends once the view is over.

    Where the run is lost it is shown from `again`, if there is such a source.
    """
    lying = stored(folder)
    clock = FakeClock(65_000)
    wish = Wish(lying, task, keeps, environment, clock)
    with trio.fail_after(20), open_pty(200) as pty:
        async with open_terminal(pty.fd, pty.write) as terminal:
            taken = Seat(pty, Visit(wish, terminal), clock)

            async def watch() -> None:
                taken.ending = await taken.visit.show(source or lying)
                if again is not None:
                    assert taken.ending is Ending.LOST
                    taken.ending = await taken.visit.show(again)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                yield taken


async def test_person_moves_reads_and_leaves(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    source.said = [SaidMessage("assistant", "I look first.")]
    async with seat(source, tmp_path) as person:
        await person.shown("run 01234567 running, 1 queued, 2 running")
        await person.press("j\x1b[B")
        await person.press("\r")
        await person.shown("look (builder) running, 1:05")
        await person.shown("assistant: I look first.")
        await person.press("q")
        await person.shown("q leave")
        await person.press("\x1b")
    assert person.ending is Ending.LEFT
    assert source.asked == [("messages", LOOK, 1)]


async def test_what_an_agent_says_and_does_is_shown_as_it_comes(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    source.said = [SaidMessage("assistant", "I look first.")]
    async with seat(source, tmp_path, FIX) as person:
        await person.shown("I look first.")
        source.note(TextDelta(ONE, "Then "), TextDelta(ONE, "I mend."))
        await person.shown("assistant: Then I mend.")
        source.said.append(SaidMessage("assistant", "Then I mend. Done."))
        source.note(MessageEnded(ONE, "stop"), ToolStarted(ONE, "c", "bash", "make"))
        await person.shown("assistant: Then I mend. Done.")
        await person.shown("1:05, bash make")
        source.open_anew(opened(started(FIX), settled(FIX, Status.FAILED, "it broke")))
        await person.shown("fix (builder) failed")
        await person.press("qq")
    assert person.ending is Ending.LEFT


async def test_who_has_scrolled_back_reads_on_undisturbed(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    source.said = [SaidMessage("assistant", f"step {number}") for number in range(40)]
    async with seat(source, tmp_path, FIX) as person:
        await person.shown("step 39")
        await person.press("g")
        await person.shown("step 0")
        source.said.append(SaidMessage("assistant", "step 40"))
        source.note(MessageEnded(ONE, "stop"), ToolStarted(ONE, "c", "bash", "make"))
        await person.shown("bash make")
        assert len(source.asked) == 1
        await person.press("G")
        await person.shown("step 40")
        await person.press("qq")


async def test_task_that_has_not_begun_has_nothing_to_read(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path, CHECK) as person:
        await person.shown("no agent has started yet")
        await person.press("qq")
    assert source.asked == []


async def test_conversation_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    source.refusal = ConflictError("\x1b[31mnot now")
    async with seat(source, tmp_path, FIX) as person:
        await person.shown("\\x1b[31mnot now")
        await person.press("qq")


async def test_message_goes_to_the_task_and_a_refused_one_can_be_mended(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path) as person:
        await person.shown("q leave")
        await person.press("suse tabs\r")
        await person.shown("fix: the message waits for its agent")
        source.refusal = ConflictError("its agent has ended")
        await person.press("S\x1b[200~and q\nquit\x1b[201~\r")
        await person.shown("its agent has ended")
        await person.shown("to fix at its end: and q quit")
        source.refusal = None
        await person.press("!\r")
        await person.shown("waits for its agent")
        await person.press("q")
    assert source.asked == [
        (FIX, "use tabs", False),
        (FIX, "and q\nquit", True),
        (FIX, "and q\nquit!", True),
    ]


async def test_tasks_and_the_run_are_cancelled_and_errors_end_nothing(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path) as person:
        await person.shown("q leave")
        await person.press("c")
        await person.shown("fix: being cancelled")
        await person.press("Gc")
        await person.shown("look: has ended")
        await person.press("C")
        await person.shown("cancel the whole run 01234567? y/n")
        await person.press("y")
        await person.shown("the run: being cancelled")
        source.refusal = ConflictError("run has settled")
        await person.press("c")
        await person.shown("run has settled")
        await person.press("q")
    assert source.asked == [("cancel", FIX), ("cancel", LOOK), ("cancel", None), ("cancel", LOOK)]


async def test_agents_change_nothing(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path, environment={"PINATA_AGENT": "1"}) as person:
        await person.shown("q leave")
        await person.press("c")
        await person.shown("only the coordinator may change anything")
        await person.press("q")
    assert source.asked == []


async def test_view_ends_with_its_run_and_has_its_last_scene(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path) as person:
        await person.shown("running")
        source.happen(settled(FIX, Status.SUCCEEDED), RunSettled(Status.FAILED, "no"))
        source.end()
    assert person.ending is Ending.ENDED
    scene = person.visit.scene
    assert scene is not None
    assert (scene.view.status, scene.view.tasks[FIX].status) == (Status.FAILED, Status.SUCCEEDED)


@pytest.mark.parametrize("busy", ["\r", "shello", "C"])
async def test_view_stays_until_a_person_has_done(tmp_path: Path, busy: str) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path) as person:
        await person.shown("q leave")
        await person.press(busy)
        await person.gone("q leave")
        source.happen(RunSettled(Status.FAILED, "no"))
        source.end()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert person.ending is None
        await person.press("\x1b")
    assert person.ending is Ending.ENDED


async def test_kept_view_stays_and_refuses_requests(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path, keeps=True) as person:
        await person.shown("q leave")
        source.happen(RunSettled(Status.FAILED, "no"))
        source.end()
        await person.shown("run 01234567 failed")
        source.leave()
        await person.press("c")
        await person.shown("run 0123456789abcdef has settled")
        await person.press("q")
    assert person.ending is Ending.ENDED
    assert source.asked == []


async def test_kept_view_shows_a_run_that_goes_on(tmp_path: Path) -> None:
    source = ToldSource(RUN)
    async with seat(source, tmp_path, keeps=True) as person:
        await person.shown("q leave")
        source.happen(RunSettled(Status.FAILED, "no"))
        source.end()
        await person.shown("run 01234567 failed")
        source.reopen(opened(started(CHECK)))
        await person.shown("run 01234567 running, 2 queued, 1 running")
        await person.press("q")
    assert person.ending is Ending.LEFT


@pytest.mark.parametrize("keeps", [False, True])
async def test_run_that_was_lost_goes_on_from_elsewhere_as_it_was_left(
    tmp_path: Path,
    keeps: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    source, other = ToldSource(RUN), ToldSource(RUN)
    async with seat(source, tmp_path, keeps=keeps, again=other) as person:
        await person.shown("q leave")
        await person.press("jjsmind the")
        await person.shown("to look: mind the")
        source.end(ConflictError("its owner does not answer"))
        # A picture of it may still be under way.
        await other.watched.wait()
        await person.press(" tests\r")
        await person.shown("look: the message waits")
        await person.press("q")
    assert person.ending is Ending.LEFT
    assert other.asked == [(LOOK, "mind the tests", False)]


async def test_message_without_an_answer_is_given_back_when_the_run_is_lost(tmp_path: Path) -> None:
    source, other = SilentSource(RUN), ToldSource(RUN)
    async with seat(source, tmp_path, again=other) as person:
        await person.shown("q leave")
        await person.press("suse tabs\r")
        await source.steered.wait()
        source.end(ConflictError("its owner does not answer"))
        await person.shown("whether this has arrived is not known")
        await person.shown("to fix: use tabs")
        await person.press("\r")
        await person.shown("fix: the message waits for its agent")
        await person.press("q")
    assert other.asked == [(FIX, "use tabs", False)]


async def test_view_stays_until_a_message_is_answered(tmp_path: Path) -> None:
    source = SilentSource(RUN)
    async with seat(source, tmp_path) as person:
        await person.shown("q leave")
        await person.press("suse tabs\r")
        await source.steered.wait()
        source.refusal = ConflictError("the run has settled")
        source.end()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert person.ending is None
        source.answers.set()
        await person.shown("the run has settled")
        await person.press("\x1b")
    assert person.ending is Ending.ENDED


async def test_run_that_was_lost_for_good_is_shown_from_its_folder(tmp_path: Path) -> None:
    source, lying = ToldSource(RUN), stored(tmp_path)
    source.refusal = ConflictError("the link is gone")
    async with seat(source, tmp_path, FIX, again=lying) as person:
        await person.shown("the link is gone")
        source.end(ConflictError("its owner is gone"))
        await person.shown("its agent has not started")
        await person.press("q")
    assert person.ending is Ending.ENDED


async def test_stored_run_is_shown_with_clocks_that_stand_still(tmp_path: Path) -> None:
    async with seat(None, tmp_path, keeps=True) as person:
        await person.shown("nobody owns it")
        await person.shown("1:05")
        await person.press("c")
        await person.shown("nobody owns it")
        await person.press("\r")
        await person.shown("its agent has not started")
        await person.press("qq")
    assert person.ending is Ending.ENDED
    async with seat(None, tmp_path) as person:
        pass
    assert person.ending is Ending.ENDED


async def test_screen_is_drawn_anew_when_a_person_asks(tmp_path: Path) -> None:
    async with seat(None, tmp_path, keeps=True) as person:
        await person.shown("q leave")
        person.pty.screen.reset()
        await person.press("\x0c")
        await person.shown("q leave")
        await person.press("q")


@pytest.mark.slow
async def test_clocks_go_on_while_a_run_works(tmp_path: Path) -> None:
    async with seat(ToldSource(RUN), tmp_path) as person:
        await person.shown("look  1:05")
        person.clock.advance(60_000)
        await person.shown("look  2:05")
        await person.press("q")


@pytest.mark.parametrize("works", [True, False], ids=["running", "stored"])
async def test_only_a_run_that_works_has_a_timer(
    tmp_path: Path,
    works: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    async with seat(ToldSource(RUN) if works else None, tmp_path, keeps=True) as person:
        await person.shown("q leave")
        await trio.testing.wait_all_tasks_blocked(0.15)
        next_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        assert (next_s <= 1) is works
        await person.press("q")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
async def test_signal_leaves(tmp_path: Path, number: int) -> None:
    async with seat(ToldSource(RUN), tmp_path) as person:
        await person.shown("q leave")
        os.kill(os.getpid(), number)
    assert person.ending is Ending.LEFT


async def test_terminal_of_another_size_is_drawn_anew(tmp_path: Path) -> None:
    async with seat(ToldSource(RUN), tmp_path) as person:
        await person.shown("calls tokens")
        person.pty.resize(60, 10)
        os.kill(os.getpid(), signal.SIGWINCH)
        await person.shown("cll")
        assert len(person.pty.lines) == 10
        await person.press("q")


async def test_run_that_was_not_opened_can_be_left(tmp_path: Path) -> None:
    async with seat(ToldSource(None), tmp_path) as person:
        await person.press("jq")
    assert (person.ending, person.visit.scene) == (Ending.LEFT, None)


async def test_terminal_that_is_gone_ends_the_view(tmp_path: Path) -> None:
    lying = stored(tmp_path)
    source = ToldSource(RUN)
    wish = Wish(lying, None, keeps=True, environment={}, clock=FakeClock())
    master, slave = os.openpty()
    with trio.fail_after(20):
        async with open_terminal(slave, lambda _: False) as terminal:
            assert await Visit(wish, terminal).show(source) is Ending.LEFT
        async with open_terminal(slave, lambda _: True) as terminal, trio.open_nursery() as nursery:
            nursery.start_soon(Visit(wish, terminal).show, source)
            await trio.testing.wait_all_tasks_blocked()
            os.close(master)
    os.close(slave)
