"""What a live view shows of a run, row by row."""

import pytest

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    Event,
    ModelThrottled,
    RunSettled,
    RunStarted,
    TaskQueued,
    ToolStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status, Stop, StopCause
from engine.core.view import RunView, UsageView
from pinata.faces.board import Board, Cursor, amount, board, duration, price

A, B, C, D = (TaskId(name) for name in "abcd")
PLAN = {A: (), B: (A,), C: (A, B), D: ()}


def seen(*events: Event) -> RunView:
    view = RunView()
    opening: list[Event] = [RunStarted(len(PLAN)), *(TaskQueued(task) for task in PLAN)]
    for seq, event in enumerate([*opening, *events]):
        view.apply(seq, 1_000 * seq, event)
    return view


def shown(*events: Event, rows: int = 10) -> Board:
    return board("01234567", seen(*events), PLAN, now_ms=100_000, most_rows=rows)


def doing(*events: Event) -> dict[str, str]:
    return {row.task: row.activity for row in shown(*events).rows}


def settled(task: TaskId, status: Status, reason: str | None = None) -> AttemptSettled:
    return AttemptSettled(AttemptId(task, 1), AttemptOutcome(status, reason))


def test_waiting_tasks_say_what_for() -> None:
    one = AttemptId(A, 1)
    assert doing(AttemptStarted(one)) == {
        "a": "",
        "b": "waits for a",
        "c": "waits for a, b",
        "d": "waits for room",
    }
    assert doing(AttemptStarted(one), settled(A, Status.SUCCEEDED))["c"] == "waits for b"
    many = {TaskId(f"t{number}"): () for number in range(5)}
    plan = {**many, D: tuple(many)}
    rows = board("0", RunView(), plan, now_ms=0, most_rows=9).rows
    assert rows[-1].activity == "waits for t0, t1, t2, …"


def test_running_tasks_say_what_they_do() -> None:
    one = AttemptId(A, 1)
    tool = ToolStarted(one, "call", "bash", "rm \x1b[1m x")
    assert doing(AttemptStarted(one), tool)["a"] == "bash rm \\x1b[1m x"
    assert doing(AttemptStarted(one), ModelThrottled(one, 2.5))["a"] == (
        "waits 2.5 s for its provider"
    )
    stop = AttemptStopping(one, Stop(StopCause.CANCEL, "enough"))
    assert doing(AttemptStarted(one), stop)["a"] == "stopping: enough"


def test_row_holds_time_turns_calls_tokens_and_cost() -> None:
    one = AttemptId(A, 1)
    usage = UsageReported(one, 3, 4, 1_200, 34, 0.125)
    (row, *_) = shown(AttemptStarted(one), usage).rows
    assert (row.status, row.task, row.time) == (Status.RUNNING, "a", "1:35")
    assert (row.turns, row.calls, row.tokens, row.cost) == ("3", "4", "1.2k", "$0.12")


def test_ended_tasks_say_why_unless_they_succeeded() -> None:
    first = AttemptStarted(AttemptId(A, 1))
    assert doing(first, settled(A, Status.SUCCEEDED))["a"] == ""
    assert doing(first, settled(A, Status.FAILED, "it broke"))["a"] == "failed: it broke"


def test_title_and_total_speak_of_the_whole_run() -> None:
    one = AttemptId(A, 1)
    events = (AttemptStarted(one), UsageReported(one, 1, 0, 10, 5, None))
    whole = shown(*events)
    assert whole.title == "run 01234567 running, 3 queued, 1 running"
    assert whole.total == "1:40, 15 tokens, $0.00+"
    end = shown(*events, settled(A, Status.FAILED, "no"), RunSettled(Status.FAILED, "no"))
    assert end.title.startswith("run 01234567 failed")
    assert end.total.startswith("0:08")


def test_what_is_at_work_or_went_wrong_has_room_first() -> None:
    events = (
        AttemptStarted(AttemptId(A, 1)),
        settled(A, Status.SUCCEEDED),
        AttemptStarted(AttemptId(B, 1)),
        settled(B, Status.FAILED, "no"),
        AttemptStarted(AttemptId(D, 1)),
    )
    two = shown(*events, rows=2)
    assert [row.task for row in two.rows] == ["b", "d"]
    assert two.hidden == "and 1 queued, 1 succeeded"
    assert shown(*events).hidden is None


def test_task_under_the_cursor_is_shown_however_little_it_matters() -> None:
    plan: dict[TaskId, tuple[TaskId, ...]] = {TaskId(f"t{number}"): () for number in range(9)}

    def rows(cursor: Cursor | None) -> list[str]:
        found = board("0", RunView(), plan, now_ms=0, most_rows=3, cursor=cursor)
        assert found.hidden == "and 6 queued"
        return [row.task for row in found.rows]

    assert rows(None) == ["t0", "t1", "t2"]
    assert rows(Cursor(TaskId("t7"), has_moved=False)) == ["t0", "t1", "t7"]
    assert rows(Cursor(TaskId("t4"), has_moved=True)) == ["t3", "t4", "t5"]
    assert rows(Cursor(TaskId("t0"), has_moved=True)) == ["t0", "t1", "t2"]
    assert rows(Cursor(TaskId("t8"), has_moved=True)) == ["t6", "t7", "t8"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, ""),
        (999, "999"),
        (1_000, "1.0k"),
        (99_940, "99.9k"),
        (99_960, "100k"),
        (999_400, "999k"),
        (999_600, "1.0M"),
        (10**12, "1.0T"),
    ],
)
def test_numbers_stay_short(number: int, text: str) -> None:
    assert amount(number) == text
    assert len(text) <= 5


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0:00"),
        (999, "0:00"),
        (61_000, "1:01"),
        (3_600_000, "1:00:00"),
        (86_399_000, "23:59:59"),
    ],
)
def test_times_look_like_a_clocks(ms: int, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (UsageView(), ""),
        (UsageView(cost_usd=0.001), "<$.01"),
        (UsageView(cost_usd=12.5), "$12.50"),
        (UsageView(cost_is_partial=True), "$0.00+"),
        (UsageView(cost_usd=0.5, cost_is_partial=True), "$0.50+"),
    ],
)
def test_prices_are_told_and_unknown_ones_marked(usage: UsageView, text: str) -> None:
    assert price(usage) == text
