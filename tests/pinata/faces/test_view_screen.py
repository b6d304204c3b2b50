"""A view of a run as a terminal shows it, from its values alone."""

from collections.abc import Sequence
from dataclasses import replace

import pyte
import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from agents.transcript import SaidMessage
from engine.core.events import (
    AttemptSettled,
    ToolStarted,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from pinata.faces.view_paint import change, lines_of, paint
from pinata.faces.view_screen import (
    Scene,
    Size,
    Talk,
    first_state,
    last_picture,
    picture,
    talk_lines,
    wrap,
)
from pinata.faces.view_state import Draft, ViewState
from pinata.work.observer import OpenedRun
from tests.support.views import CHECK, FIX, LOOK, opened, settled, started

WIDE, NARROW = Size(100, 12), Size(60, 12)
HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eno\r\x9b31m"


def scene(run: OpenedRun, *, notice: str = "", talk: Talk | None = None) -> Scene:
    return Scene(run, run.view, 65_000, notice, talk or Talk())


def shown(what: Scene, state: ViewState, size: Size = WIDE) -> list[str]:
    return show(paint(picture(what, state, size), size), size)


def screen_of(lines: Sequence[str], size: Size) -> pyte.Screen:
    screen = pyte.Screen(size.columns, size.lines)
    pyte.Stream(screen).feed(change(None, lines))
    return screen


def show(lines: Sequence[str], size: Size) -> list[str]:
    return [line.rstrip() for line in screen_of(lines, size).display]


RUN = opened(started(FIX), ToolStarted(AttemptId(FIX, 1), "call", "bash", "make test"))


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_table_has_its_cursor_and_its_keys_at_any_width(size: Size) -> None:
    lines = paint(picture(scene(RUN), ViewState(CHECK), size), size)
    assert len(lines) == size.lines
    screen = screen_of(lines, size)
    rows = [line.rstrip() for line in screen.display]
    assert rows[0] == "run 01234567 running, 2 queued, 1 running"
    assert [row.split()[1] for row in rows[2:5]] == ["fix", "check", "look"]
    assert rows[2].endswith("bash make test")
    assert rows[-1] == "↑↓ task  ⏎ read  s/S steer  c/C cancel task/run  q leave"
    marked = [row for row in range(size.lines) if screen.buffer[row][3].reverse]
    assert marked == [3]


def test_tasks_without_room_are_counted_and_the_cursor_stays_in_sight() -> None:
    plan: dict[TaskId, Sequence[TaskId]] = {TaskId(f"t{number:03}"): () for number in range(1000)}
    run = opened(plan=plan)
    for task in ("t000", "t500", "t999"):
        rows = shown(scene(run), ViewState(TaskId(task), has_moved=True), NARROW)
        assert len([row for row in rows if row.startswith("· t")]) == 6
        assert sum(f" {task} " in row for row in rows) == 1
        assert rows[8] == "and 994 queued"


@pytest.mark.parametrize("lines", range(1, 8))
def test_terminal_of_few_lines_shows_what_fits(lines: int) -> None:
    size = Size(60, lines)
    for state in (ViewState(FIX), ViewState(FIX, is_reading=True)):
        drawn = paint(picture(scene(RUN), state, size), size)
        assert len(drawn) == lines
        assert "run 01234567" in drawn[0] or "fix (builder)" in drawn[0] or lines <= 2


def test_status_line_says_what_became_of_a_request_and_then_the_notice() -> None:
    noticed = scene(RUN, notice="nobody owns it")
    assert shown(noticed, ViewState(FIX))[-2] == "nobody owns it"
    refused = ViewState(FIX, said=f"no: {HOSTILE}")
    assert shown(noticed, refused)[-2].startswith("no: \\x1b[2J\\x1b]0;title\\x07")


def test_cancelling_the_run_is_asked_about() -> None:
    rows = shown(scene(RUN), ViewState(FIX, asks=True))
    assert rows[-2:] == ["cancel the whole run 01234567? y/n", "y cancel it  n go on"]


def test_message_is_typed_where_its_end_is_always_seen() -> None:
    rows = shown(scene(RUN), ViewState(FIX, draft=Draft(FIX, "use the\nother")))
    assert rows[-2] == "to fix: use the other"
    assert rows[-1].startswith("⏎ send")
    long = Draft(FIX, "x" * 100 + "漢字" * 30 + "the end", follow_up=True)
    rows = shown(scene(RUN), ViewState(FIX, draft=long), NARROW)
    assert rows[-2].startswith("to fix at its end: ")
    assert rows[-2].endswith("the end")
    refused = ViewState(FIX, draft=Draft(FIX, "x"), said="too long")
    assert shown(scene(RUN), refused)[-2:] == ["to fix: x", "too long"]


def test_conversation_shows_its_end_and_scrolls_back() -> None:
    said = [SaidMessage("system", "secret"), SaidMessage("user", "mend it")]
    said += [SaidMessage("assistant", f"step {number}") for number in range(30)]
    what = scene(RUN, talk=Talk(said, "writing this"))
    reading = ViewState(FIX, is_reading=True)
    rows = shown(what, reading, NARROW)
    assert rows[0] == "fix (builder) running, 1:05, bash make test"
    assert rows[8:10] == ["assistant: step 29", "assistant: writing this"]
    assert picture(what, reading, NARROW).sight.most_back == 23
    back = shown(what, replace(reading, lines_back=23), NARROW)
    assert back[1:3] == ["user: mend it", "assistant: step 0"]
    assert shown(what, replace(reading, lines_back=99), NARROW) == back
    assert not any("secret" in row for row in back)


def test_title_of_a_conversation_tells_attempt_and_end() -> None:
    run = opened(started(FIX, 2), AttemptSettled(AttemptId(FIX, 2), _broken()))
    rows = shown(scene(run), ViewState(FIX, is_reading=True))
    assert rows[0] == "fix (builder) failed, attempt 2, 0:00, it broke"


def _broken() -> AttemptOutcome:
    return AttemptOutcome(Status.FAILED, "it broke")


@pytest.mark.parametrize(
    ("talk", "first"),
    [
        (Talk(), "…"),
        (Talk(trouble="the link is gone"), "the link is gone"),
        (Talk([]), "nothing has been said yet"),
        (Talk([], "well"), "assistant: well"),
    ],
)
def test_conversation_that_is_not_there_says_why(talk: Talk, first: str) -> None:
    assert shown(scene(RUN, talk=talk), ViewState(FIX, is_reading=True))[1] == first


def test_nothing_that_was_said_steers_the_terminal() -> None:
    run = opened(
        started(FIX),
        ToolStarted(AttemptId(FIX, 1), "call", "bash", HOSTILE),
        settled(LOOK, Status.FAILED, HOSTILE),
    )
    talk = Talk([SaidMessage(f"tool {HOSTILE}", HOSTILE)], HOSTILE)
    what = scene(run, notice=HOSTILE, talk=talk)
    for state in (
        ViewState(FIX),
        ViewState(FIX, is_reading=True),
        ViewState(FIX, draft=Draft(FIX, HOSTILE), said=HOSTILE),
    ):
        sent = "".join(paint(picture(what, state, WIDE), WIDE))
        for part in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\u202e", "\r"):
            assert part not in sent
    talk = Talk(trouble=HOSTILE)
    assert "\x1b" not in "".join(talk_lines(talk, 80))


def test_cursor_begins_on_what_works_then_on_what_went_wrong_then_on_the_first() -> None:
    assert first_state(opened(), None) == ViewState(FIX)
    done = settled(FIX, Status.SUCCEEDED)
    wrong = opened(started(FIX), done, started(CHECK), settled(CHECK, Status.REJECTED, "no"))
    assert first_state(wrong, None).task == CHECK
    assert first_state(opened(started(FIX), done, started(LOOK)), None).task == LOOK
    assert first_state(RUN, CHECK) == ViewState(CHECK, is_reading=True)


def test_last_picture_has_no_cursor_and_leaves_a_line_to_the_shell() -> None:
    lines = lines_of(last_picture(scene(RUN), NARROW), NARROW)
    assert len(lines) == 6
    assert not any("\x1b[7m" in line for line in lines)
    low = Size(60, 7)
    assert len(lines_of(last_picture(scene(RUN), low), low)) == 6


def test_lines_are_cut_between_words_where_possible() -> None:
    assert list(wrap("one two three four", 10)) == ["one two", "three four"]
    assert list(wrap("  indented", 20)) == ["  indented"]
    assert list(wrap("a\tb", 20)) == ["a   b"]
    assert list(wrap("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]
    assert list(wrap("", 10)) == [""]
    assert list(wrap("漢字漢字漢字漢字", 10)) == ["漢字漢字漢", "字漢字"]


@given(st.text(alphabet="a漢 🎉-", max_size=80), st.integers(1, 30))
def test_no_line_is_wider_than_it_may_be_and_nothing_gets_lost(text: str, columns: int) -> None:
    rows = list(wrap(text, columns))
    assert all(cell_len(row) <= max(10, columns) for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


@given(st.lists(st.text(alphabet="ab", max_size=4), max_size=5), st.data())
def test_change_leads_from_any_screen_to_any_other(before: list[str], data: st.DataObject) -> None:
    now = data.draw(st.lists(st.text(alphabet="ab", max_size=4), max_size=5))
    screen = pyte.Screen(4, 5)
    stream = pyte.Stream(screen)
    stream.feed(change(None, before))
    stream.feed(change(before, now))
    assert [row.rstrip() for row in screen.display] == now + [""] * (5 - len(now))


def test_only_what_changed_is_sent() -> None:
    assert change(["a", "b"], ["a", "b"]) == ""
    assert change(["a", "b"], ["a", "c"]) == "\x1b[2;1H\x1b[2Kc"
