"""What each key of the view does."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from engine.core.ids import TaskId
from pinata.faces.view_keys import Key, Named, Pasted, Typed
from pinata.faces.view_state import (
    Act,
    Cancel,
    Draft,
    Effect,
    Sight,
    Steer,
    ViewState,
    press,
    returned,
)

A, B, C = map(TaskId, "abc")
SIGHT = Sight((A, B, C), {B}, page=10, most_back=25)
ON_B = ViewState(B)


def after(state: ViewState, *keys: Key | str) -> tuple[ViewState, list[Effect]]:
    """Return the state after some keys, a text being typed, and what they led to."""
    effects = []
    for each in keys:
        for key in map(Typed, each) if isinstance(each, str) else (each,):
            state, effect = press(state, key, SIGHT)
            effects += [] if effect is None else [effect]
    return state, effects


@pytest.mark.parametrize(
    ("key", "task"),
    [
        (Named.UP, A),
        (Typed("k"), A),
        (Named.DOWN, C),
        (Typed("j"), C),
        (Named.PAGE_UP, A),
        (Named.PAGE_DOWN, C),
        (Named.HOME, A),
        (Typed("G"), C),
    ],
)
def test_cursor_moves_and_stays_within_the_tasks(key: Key, task: TaskId) -> None:
    moved = ViewState(task, has_moved=True)
    assert after(ON_B, key) == (moved, [])
    assert after(ON_B, key, key) == (moved, [])


def test_key_without_a_meaning_does_nothing() -> None:
    for key in (Typed("x"), Named.TAB, Named.BACKSPACE, Pasted("q")):
        assert after(ON_B, key) == (ON_B, [])
        reading = replace(ON_B, is_reading=True)
        assert after(reading, key) == (reading, [])


def test_conversation_is_opened_scrolled_and_left() -> None:
    reading = replace(ON_B, is_reading=True)
    assert after(ON_B, Named.ENTER) == (reading, [])
    assert after(reading, Named.UP, Named.UP, "j")[0].lines_back == 1
    assert after(reading, *[Named.PAGE_UP] * 9)[0].lines_back == 25
    assert after(reading, "g", " ")[0].lines_back == 15
    assert after(reading, "gG")[0].lines_back == 0
    assert after(reading, Named.PAGE_DOWN)[0].lines_back == 0
    for key in (Typed("q"), Named.ESCAPE, Named.ENTER):
        assert after(replace(reading, lines_back=7), key) == (ON_B, [])


def test_conversation_that_became_shorter_scrolls_at_once() -> None:
    state = replace(ON_B, is_reading=True, lines_back=400)
    assert after(state, Named.DOWN)[0].lines_back == 24


@pytest.mark.parametrize(
    "state",
    [
        ON_B,
        replace(ON_B, is_reading=True),
        replace(ON_B, draft=Draft(B, "x")),
        replace(ON_B, asks=True),
    ],
)
def test_interruption_leaves_from_everywhere_and_redrawing_changes_nothing(
    state: ViewState,
) -> None:
    assert after(state, Named.INTERRUPT) == (state, [Act.LEAVE])
    assert after(state, Named.REDRAW) == (state, [Act.REDRAW])


@pytest.mark.parametrize("key", [Typed("q"), Named.ESCAPE])
def test_table_is_left_with_q_or_escape(key: Key) -> None:
    assert after(ON_B, key) == (ON_B, [Act.LEAVE])


@pytest.mark.parametrize(("key", "follow_up"), [("s", False), ("S", True)])
def test_message_is_typed_and_sent(key: str, follow_up: bool) -> None:  # noqa: FBT001 - a parameter of the test
    typed = after(ON_B, key, "quiz C")[0]
    assert typed.draft == Draft(B, "quiz C", follow_up)
    assert after(typed, Named.ENTER) == (ON_B, [Steer(Draft(B, "quiz C", follow_up))])


def test_message_is_edited() -> None:
    def text(*keys: Key | str) -> str:
        draft = after(ON_B, "s", *keys)[0].draft
        assert draft is not None
        return draft.text

    assert text("abc", Named.BACKSPACE, "d") == "abd"
    assert text("ab cd  ", Named.ERASE_WORD) == "ab "
    assert text("abcd", Named.ERASE_WORD, "e") == "e"
    assert text("ab cd", Named.ERASE_LINE) == ""
    assert text(Named.BACKSPACE, Named.UP, Named.HOME) == ""
    assert text("look: ", Pasted("q\nC"), "!") == "look: q\nC!"
    assert len(text(Pasted("x" * 100_000), Pasted("x" * 100_000))) == 128 << 10


def test_tab_decides_when_the_message_is_read() -> None:
    once = after(ON_B, "s", Named.TAB)[0].draft
    assert once == Draft(B, "", follow_up=True)
    assert after(ON_B, "s", Named.TAB, Named.TAB)[0].draft == Draft(B)


def test_message_that_is_dropped_or_blank_goes_nowhere() -> None:
    assert after(ON_B, "sdo it", Named.ESCAPE) == (ON_B, [])
    assert after(ON_B, "s  ", Named.ENTER) == (ON_B, [])


def test_only_running_tasks_are_steered() -> None:
    state, effects = after(ViewState(A), "s")
    assert (state.draft, effects) == (None, [])
    assert state.said.startswith("a is not running")
    assert after(state, "j")[0].said == ""


def test_refused_message_can_be_mended_unless_another_is_typed() -> None:
    message = Draft(B, "too long")
    assert returned(ON_B, message, "no") == replace(ON_B, draft=message, said="no")
    other = replace(ON_B, draft=Draft(C, "mine"))
    assert returned(other, message, "no") == replace(other, said="no")
    asking = replace(ON_B, asks=True)
    assert returned(asking, message, "no") == replace(asking, said="no")


def test_task_is_cancelled_at_once_and_the_run_after_a_question() -> None:
    assert after(ON_B, "c") == (ON_B, [Cancel(B)])
    asking, effects = after(ON_B, "C")
    assert (asking, effects) == (replace(ON_B, asks=True), [])
    assert after(asking, "y") == (ON_B, [Cancel(None)])
    for key in (Typed("n"), Named.ESCAPE, Named.ENTER, Typed("q"), Pasted("y")):
        assert after(asking, key) == (replace(ON_B, said="the run goes on"), [])


def test_view_is_busy_while_a_person_reads_types_or_is_asked() -> None:
    assert not ON_B.is_busy
    for state in (after(ON_B, Named.ENTER)[0], after(ON_B, "s")[0], after(ON_B, "C")[0]):
        assert state.is_busy


KEYS = st.one_of(
    st.sampled_from(Named), st.characters().map(Typed), st.text(max_size=5).map(Pasted)
)


@given(st.lists(KEYS, max_size=30))
def test_cursor_is_on_a_task_whatever_is_pressed(keys: list[Key]) -> None:
    state = after(ON_B, *keys)[0]
    assert state.task in SIGHT.tasks
    assert 0 <= state.lines_back <= SIGHT.most_back
