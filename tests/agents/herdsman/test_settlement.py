"""When an assignment is over, and what it came to."""

from dataclasses import replace

import pytest

from agents.herdsman.identity import GenerationId, Handle, Label
from agents.herdsman.record import (
    ContextUsage,
    Failure,
    FailureCode,
    Injection,
    RequestKind,
    Result,
    State,
)
from agents.herdsman.runtime import Ended
from agents.herdsman.settlement import (
    Undelivered,
    belongs,
    completed,
    may_settle,
    result_of,
    too_large,
    unwritten,
    why_not_ask,
)
from tests.support.herd_records import NOW_MS, TASK, ask_id, request, state_of, uid

ACTIVE = state_of("scout", active=TASK, last_activity_ms=NOW_MS)
LATER_MS = NOW_MS + 7
USAGE = ContextUsage(1000, 200_000, 0.5)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ACTIVE, True),
        (state_of("scout"), False),
        (state_of("scout", completed=TASK), False),
        (replace(ACTIVE, pending_ask=ask_id("which")), False),
        (replace(ACTIVE, injection=Injection(request("r"), RequestKind.INTERRUPT)), False),
    ],
    ids=["active", "never assigned", "completed", "asking", "replacement waits"],
)
def test_rest_is_an_end_only_with_an_assignment_that_waits_for_nothing(
    state: State, *, expected: bool
) -> None:
    assert may_settle(state) is expected


def test_text_that_was_said_last_is_the_result() -> None:
    ended = Ended(usage=USAGE)
    assert result_of(ACTIVE, "All is well.", ended, LATER_MS) == Result(
        ACTIVE.of, TASK, "completed", LATER_MS, text="All is well.", usage=USAGE
    )


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_end_without_a_text_is_a_failure_that_names_the_provider(text: str) -> None:
    result = result_of(ACTIVE, text, Ended(fault="529 overloaded"), LATER_MS)
    assert (result.status, result.text) == ("failed", None)
    assert result.error is not None
    assert result.error.code is FailureCode.EMPTY_RESULT
    assert "529 overloaded" in result.error.message
    plain = result_of(ACTIVE, text, Ended(), LATER_MS)
    assert plain.error == Failure(
        FailureCode.EMPTY_RESULT, "the agent ended without saying anything"
    )


def test_halves_of_characters_are_left_out_of_what_is_stored() -> None:
    result = result_of(ACTIVE, "a\ud800b", Ended(), LATER_MS)
    assert result.text == "a?b"
    failed = result_of(ACTIVE, "", Ended(fault="\udc00" + "x" * 5_000), LATER_MS)
    assert failed.error is not None
    assert failed.error.message.isascii()
    assert len(failed.error.message) < 2_100


def test_text_that_no_record_can_hold_is_a_failure_that_names_both_lengths() -> None:
    result = too_large(ACTIVE, 5_242_880, 4_194_304, Ended(usage=USAGE), LATER_MS)
    assert result.error is not None
    assert result.error.code is FailureCode.RESULT_TOO_LARGE
    assert "5,242,880" in result.error.message
    assert "4,194,304" in result.error.message
    assert result.usage == USAGE


def test_completed_assignment_is_active_no_more_and_shows_no_activity() -> None:
    assert completed(ACTIVE, LATER_MS) == replace(
        ACTIVE, active=None, completed=TASK, last_activity_ms=None, updated_ms=LATER_MS
    )


def test_result_that_could_not_be_written_ends_the_assignment_and_says_what_helps() -> None:
    result = result_of(ACTIVE, "All is well.", Ended(), NOW_MS)
    after = unwritten(ACTIVE, result, "no space left on device", 8, LATER_MS)
    assert (after.active, after.completed, after.fault()) == (None, None, None)
    error = after.result_error
    assert error is not None
    assert (error.of, error.request, error.status) == (ACTIVE.of, TASK, "completed")
    assert (error.attempts, error.failed_ms) == (8, LATER_MS)
    assert "no space left on device" in error.message
    assert "agent_close" not in error.message
    assert "close" in error.next_action


@pytest.mark.parametrize(
    "other",
    [
        state_of("scout", active=request("other")),
        state_of("scout"),
        replace(ACTIVE, of=replace(ACTIVE.of, generation=GenerationId(uid("other")))),
        replace(ACTIVE, of=replace(ACTIVE.of, handle=Handle("elsewhere"))),
    ],
)
def test_result_belongs_to_one_assignment_of_one_generation(other: State) -> None:
    result = result_of(ACTIVE, "All is well.", Ended(), NOW_MS)
    assert belongs(result, ACTIVE)
    assert not belongs(result, other)


CHILD, SECOND = Label("a-child"), Label("b-child")


@pytest.mark.parametrize(
    ("state", "undelivered", "reason"),
    [
        (ACTIVE, Undelivered(), None),
        (ACTIVE, Undelivered(asking=(CHILD, SECOND)), None),
        (ACTIVE, Undelivered(asking=(CHILD,), others=(SECOND,)), "b-child"),
        (state_of("scout"), Undelivered(), "no assignment"),
        (replace(ACTIVE, pending_ask=ask_id("which")), Undelivered(), "not answered yet"),
        (
            replace(ACTIVE, injection=Injection(request("r"), RequestKind.REPLY)),
            Undelivered(),
            "has not been read",
        ),
    ],
)
def test_question_is_allowed_unless_something_comes_first(
    state: State, undelivered: Undelivered, reason: str | None
) -> None:
    found = why_not_ask(state, undelivered)
    assert found is None if reason is None else reason in (found or "")
