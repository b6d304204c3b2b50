"""What an agent writes is shown until it is part of what was said."""

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    MessageEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.records.event import Logged
from pinata.faces.view_talk import Writing

ONE, OTHER = AttemptId(TaskId("fix"), 1), AttemptId(TaskId("look"), 1)


def logged(writing: Writing, *events: Event) -> None:
    for seq, event in enumerate(events):
        writing.happened(Logged(seq, 0, event))


def test_text_grows_until_its_message_was_read() -> None:
    writing = Writing()
    writing.noted(TextDelta(ONE, "I wi"))
    writing.noted(TextDelta(ONE, "ll"))
    assert writing.text(ONE, writing.length(ONE)) == "I will"
    before = writing.length(ONE)
    writing.noted(MessageEnded(ONE, "stop"))
    assert writing.length(ONE) > before
    assert writing.text(ONE, before) == "I will"
    assert writing.text(ONE, writing.length(ONE)) == ""
    writing.noted(TextDelta(ONE, "Next"))
    assert writing.text(ONE, before) == "Next"


def test_what_comes_after_the_end_of_a_message_leaves_it_one() -> None:
    writing = Writing()
    writing.noted(TextDelta(ONE, "done"))
    writing.noted(MessageEnded(ONE, "stop"))
    read = writing.length(ONE)
    writing.noted(ToolEnded(ONE, "call", "bash", is_error=False))
    assert writing.length(ONE) > read
    assert writing.text(ONE, read) == ""


def test_what_was_noted_is_not_taken_twice_from_the_log() -> None:
    writing = Writing()
    writing.noted(TextDelta(ONE, "once"))
    logged(writing, TextDelta(ONE, "once"), TextDelta(OTHER, "from the log"))
    assert writing.text(ONE, 0) == "once"
    assert writing.text(OTHER, 0) == "from the log"


def test_conversation_may_have_grown_whenever_its_attempt_moves_on() -> None:
    writing = Writing()
    done = AttemptOutcome(Status.SUCCEEDED)
    logged(writing, RunStarted(2), AttemptStarted(ONE), AttemptSettled(ONE, done))
    assert (writing.length(ONE), writing.length(OTHER)) == (2, 0)
    writing.noted(ThinkingDelta(ONE, "hm"))
    writing.noted(UsageReported(ONE, 1, 1, 1, 1, 0.0))
    assert writing.length(ONE) == 2


def test_only_the_end_of_a_long_text_is_kept() -> None:
    writing = Writing()
    for _ in range(3):
        writing.noted(TextDelta(ONE, "x" * 5_000))
    writing.noted(TextDelta(ONE, "end"))
    assert writing.text(ONE, 0) == "x" * 7_997 + "end"


def test_fresh_start_drops_what_may_have_holes_and_asks_for_what_was_said() -> None:
    writing = Writing()
    writing.noted(MessageEnded(ONE, "stop"))
    writing.noted(TextDelta(ONE, "half"))
    before = writing.length(ONE)
    writing.forget()
    assert writing.text(ONE, 0) == ""
    assert writing.length(ONE) > before
