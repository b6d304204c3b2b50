"""The live view as a terminal shows it: read from the screen, not from what was sent."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyte
import pytest
import trio

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    RunSettled,
    RunStarted,
    Sender,
    TaskQueued,
    ToolStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.faces.live import LiveView
from pinata.work.observer import OpenedRun
from tests.support.clock import FakeClock

FIX, CHECK = TaskId("mend-the-parser-of-dates"), TaskId("check")
PLAN: dict[TaskId, Sequence[TaskId]] = {FIX: (), CHECK: (FIX,)}
ONE = AttemptId(FIX, 1)


class Terminal:
    """A screen of some size, and all that was written to it."""

    def __init__(self, columns: int, lines: int = 12) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.Stream(self.screen)
        self.gate = threading.Event()
        self.gate.set()
        self.news = threading.Event()
        self.written = ""

    def write(self, text: str) -> bool:
        self.gate.wait(10)
        self.written += text
        self.stream.feed(text.replace("\n", "\r\n"))
        self.news.set()
        return True

    async def wait_shown(self, text: str) -> None:
        with trio.fail_after(5):
            while not any(text in line for line in self.lines):
                await trio.to_thread.run_sync(self.news.wait)
                self.news.clear()

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]


asked: list[str] = []


def cancelled(reason: str) -> None:
    asked.append(reason)


async def cancelled_for_good(reason: str, task: TaskId | None = None) -> None:
    raise AssertionError


def not_steered(
    task: TaskId, text: str, *, follow_up: bool = False, sender: Sender = Sender.PARENT
) -> None:
    raise AssertionError


def opened(
    plan: Mapping[TaskId, Sequence[TaskId]] = PLAN, view: RunView | None = None
) -> OpenedRun:
    return OpenedRun(
        id=RunId("0123456789abcdef"),
        folder=Path("/nowhere"),
        started_at_ms=0,
        agents={},
        after=plan,
        view=view or RunView(),
        cancel=cancelled,
        record_cancel=cancelled_for_good,
        steer=not_steered,
    )


def view_on(terminal: Terminal) -> LiveView:
    screen = terminal.screen
    return LiveView(
        FakeClock(65_000), write=terminal.write, width=screen.columns, height=screen.lines
    )


def tell(view: LiveView, *events: Event, first: int = 0) -> None:
    for seq, event in enumerate(events, first):
        view.happened(Logged(seq, 0, event))


OPENING = (RunStarted(2), TaskQueued(FIX), TaskQueued(CHECK), AttemptStarted(ONE))


@pytest.mark.parametrize("columns", [60, 100])
async def test_run_is_readable_from_its_first_to_its_last_frame(columns: int) -> None:
    terminal = Terminal(columns)
    view = view_on(terminal)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.show)
        view.run_opened(opened())
        tell(view, *OPENING)
        view.noted(UsageReported(ONE, 12, 34, 56_700, 89, 0.42))
        view.noted(ToolStarted(ONE, "call", "bash", "python -m pytest tests"))
        await terminal.wait_shown("bash")
        title, headings, fix, check, total = terminal.lines
        assert title == "run 01234567 running, 1 queued, 1 running"
        assert headings.split()[0] == "time"
        shown = ["▸", "1:05", "12", "34", "56.8k", "$0.42", "bash"]
        assert [word for word in fix.split() if word in shown] == shown
        assert fix.split()[1].startswith("mend-the-")
        assert check.endswith("waits for mend-the-…" if columns == 60 else f"waits for {FIX}")
        assert total == "1:05, 56.8k tokens, $0.42"
        done = AttemptSettled(ONE, AttemptOutcome(Status.FAILED, "it broke"))
        tell(view, done, RunSettled(Status.FAILED, "no"), first=len(OPENING))
        view.end()
    assert terminal.lines[0].startswith("run 01234567 failed")
    assert "failed: it broke" in terminal.lines[2]
    assert not terminal.screen.cursor.hidden


async def test_counts_that_are_logged_late_never_take_newer_ones_back() -> None:
    terminal = Terminal(100)
    view = view_on(terminal)
    view.run_opened(opened())
    other = AttemptId(CHECK, 1)
    tell(view, *OPENING, AttemptStarted(other))
    view.noted(UsageReported(ONE, 1, 1, 100, 10, 0.1))
    view.noted(UsageReported(ONE, 9, 8, 900, 70, 0.9))
    late = UsageReported(ONE, 1, 1, 100, 10, 0.1), UsageReported(other, 3, 2, 20, 0, 0.25)
    tell(view, *late, first=len(OPENING) + 1)
    view.end()
    await view.show()
    assert {"9", "8", "970", "$0.90"} <= set(terminal.lines[2].split())
    assert {"3", "2", "20", "$0.25"} <= set(terminal.lines[3].split())


async def test_tasks_without_room_are_counted() -> None:
    plan = {TaskId(f"t{number}"): () for number in range(50)}
    terminal = Terminal(60, lines=10)
    view = view_on(terminal)
    view.run_opened(opened(plan))
    tell(view, RunStarted(50), *(TaskQueued(task) for task in plan))
    view.end()
    await view.show()
    assert len(terminal.lines) == 9
    assert terminal.lines[-2] == "and 45 queued"


async def test_run_that_is_taken_up_shows_what_came_before() -> None:
    before = RunView()
    events: list[Event] = [*OPENING, AttemptSettled(ONE, AttemptOutcome(Status.SUCCEEDED))]
    for seq, event in enumerate(events):
        before.apply(seq, 0, event)
    terminal = Terminal(60)
    view = view_on(terminal)
    view.run_opened(opened(view=before))
    view.end()
    await view.show()
    assert terminal.lines[2].startswith("✓ mend")
    assert before.seq == len(OPENING)


async def test_slow_terminal_slows_nobody_and_gets_the_latest_frame() -> None:
    terminal = Terminal(60)
    view = view_on(terminal)
    terminal.gate.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.show)
        view.run_opened(opened())
        tell(view, *OPENING)
        with trio.fail_after(5):
            for number in range(2_000):
                view.noted(ToolStarted(ONE, "call", "bash", f"step {number}"))
                await trio.lowlevel.checkpoint()
        terminal.gate.set()
        view.end()
    assert any("bash step 1999" in line for line in terminal.lines)
    assert terminal.written.count("step") < 50


async def test_interruption_reaches_the_run_and_leaves_a_visible_cursor() -> None:
    terminal = Terminal(60)
    view = view_on(terminal)
    assert view.request_cancel("too early") is False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.show)
        view.run_opened(opened())
        tell(view, *OPENING)
        await terminal.wait_shown("running")
        asked.clear()
        assert view.request_cancel("enough") is True
        nursery.cancel_scope.cancel()
    assert asked == ["enough"]
    assert not terminal.screen.cursor.hidden


async def test_view_of_a_call_without_a_run_shows_nothing() -> None:
    terminal = Terminal(60)
    view = view_on(terminal)
    view.end()
    await view.show()
    assert terminal.lines == []
