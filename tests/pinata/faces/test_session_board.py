"""What a session shows of its runs while they work, and when it shows nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.events import TextDelta, ToolStarted, UsageReported
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import Status
from engine.records.event import Logged
from pinata.faces.session_board import MOST_ROWS, PAUSE_S, SessionBoard
from pinata.work.observer import OpenedRun
from tests.support.views import CHECK, FIX, LOOK, opened, settled, started


class LoopClock:
    """The time of the loop as the time of day."""

    def now_ms(self) -> int:
        return round(trio.current_time() * 1000)


@dataclass
class Screen:
    """What a client shows, and when it was told."""

    frames: list[Mapping[str, Any]] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)

    async def send(self, frame: Mapping[str, Any]) -> bool:
        await trio.lowlevel.checkpoint()
        self.frames.append(frame)
        self.at_s.append(trio.current_time())
        return True

    @property
    def lines(self) -> list[str] | None:
        found = [frame["lines"] for frame in self.frames if frame["type"] == "widget"]
        return list(found[-1]) if found and found[-1] is not None else None

    @property
    def status(self) -> str | None:
        found: list[str | None] = [f["text"] for f in self.frames if f["type"] == "status"]
        return found[-1] if found else None


def at_work(*tasks: TaskId, agent: str = "builder") -> OpenedRun:
    run = opened(*map(started, tasks), agent=agent)
    return replace(run, backends=dict.fromkeys(run.after, "in-process"))


async def test_each_agent_at_work_has_a_row_and_all_is_cleared_at_the_end(
    autojump_clock: MockClock,
) -> None:
    board, screen = SessionBoard(LoopClock()), Screen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.show, screen.send)
        await wait_all_tasks_blocked()
        assert screen.frames == []
        run = board.begin()
        run.run_opened(at_work(FIX, LOOK))
        run.noted(UsageReported(AttemptId(FIX, 1), 3, 5, 12_000, 300, 0.034))
        run.noted(ToolStarted(AttemptId(FIX, 1), "1", "bash", "pytest -q"))
        await trio.sleep(2.5 * PAUSE_S)
        assert screen.lines == [
            "  task agent   backend    time turns calls tokens  cost",
            "▸ fix  builder in-process 0:01     3     5  12.3k $0.03 bash pytest -q",
            "▸ look builder in-process 0:01",
        ]
        assert screen.status == "pinata: 2 agents at work in 1 run, 0 of 3 tasks settled"
        run.happened(Logged(10, 0, settled(FIX, Status.SUCCEEDED)))
        await trio.sleep(2.5 * PAUSE_S)
        assert screen.status == "pinata: 1 agent at work in 1 run, 1 of 3 tasks settled"
        board.end(run)
        await trio.sleep(2.5 * PAUSE_S)
        assert [frame["type"] for frame in screen.frames[-2:]] == ["status", "widget"]
        assert [frame.get("text", frame.get("lines")) for frame in screen.frames[-2:]] == [None] * 2
        nursery.cancel_scope.cancel()


async def test_nothing_is_sent_more_often_than_twice_a_second(autojump_clock: MockClock) -> None:
    board, screen = SessionBoard(LoopClock()), Screen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.show, screen.send)
        run = board.begin()
        run.run_opened(at_work(FIX))
        for number in range(200):
            run.noted(ToolStarted(AttemptId(FIX, 1), "1", "bash", f"sleep {number}"))
            await trio.sleep(0.05)
        widgets = [f for f in screen.frames if f["type"] == "widget"]
        assert 15 <= len(widgets) <= 21
        count = len(screen.frames)
        # Letters that a model writes change nothing that is shown.
        run.noted(TextDelta(AttemptId(FIX, 1), "a"))
        await trio.sleep(PAUSE_S)
        run.noted(TextDelta(AttemptId(FIX, 1), "b"))
        assert len(screen.frames) <= count + 2
        nursery.cancel_scope.cancel()


async def test_board_without_runs_has_no_timer(autojump_clock: MockClock) -> None:
    board, screen = SessionBoard(LoopClock()), Screen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.show, screen.send)
        run = board.begin()
        run.run_opened(at_work(FIX))
        board.end(run)
        await wait_all_tasks_blocked()
        await trio.sleep(2.5 * PAUSE_S)
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf")
        nursery.cancel_scope.cancel()


async def test_run_that_is_being_prepared_shows_nothing(autojump_clock: MockClock) -> None:
    board = SessionBoard(LoopClock())
    run = board.begin()
    assert board.shown().status is None
    assert board.find(RunId("0123456789abcdef")) is None
    run.run_opened(at_work())
    assert board.find(RunId("0123456789abcdef")) is not None
    shown = board.shown()
    assert shown.status == "pinata: 0 agents at work in 1 run, 0 of 3 tasks settled"
    assert shown.lines is None


async def test_more_agents_than_there_is_room_for_are_counted(autojump_clock: MockClock) -> None:
    names = [TaskId(f"t{number:02}") for number in range(20)]
    board = SessionBoard(LoopClock())
    board.begin().run_opened(opened(*map(started, names), plan=dict.fromkeys(names, ())))
    lines = board.shown().lines
    assert lines is not None
    assert len(lines) == MOST_ROWS + 2 == 10
    assert lines[-1] == "  and 12 agents more"


async def test_several_runs_are_told_apart(autojump_clock: MockClock) -> None:
    board = SessionBoard(LoopClock())
    board.begin().run_opened(at_work(FIX))
    board.begin().run_opened(replace(at_work(CHECK), id=RunId("fedcba9876543210")))
    lines = board.shown().lines
    assert lines is not None
    assert [line.split()[1] for line in lines[1:]] == ["01234567/fix", "fedcba98/check"]


async def test_what_a_model_says_cannot_move_the_cursor(autojump_clock: MockClock) -> None:
    board = SessionBoard(LoopClock())
    run = board.begin()
    run.run_opened(at_work(FIX, agent="a\x1b[31m\u202eb\n"))
    run.noted(ToolStarted(AttemptId(FIX, 1), "1", "bash", "a\x1b[2J\r\n" + "x" * 500))
    shown = board.shown()
    assert shown.lines is not None
    assert all(line.isprintable() and len(line) < 200 for line in shown.lines)
