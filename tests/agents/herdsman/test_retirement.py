"""When a session is retired."""

import pytest

from agents.herdsman.identity import SessionId
from agents.herdsman.retirement import Step, guidance, is_guided, is_retired, mark, step
from agents.herdsman.runtime import GUIDANCE, RETIRED, CompactionReason, Entry

SESSION = SessionId("mine")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (CompactionReason.THRESHOLD, Step.RETIRE_AND_GO_ON),
        (CompactionReason.OVERFLOW, Step.RETIRE_AND_COMPACT),
        (CompactionReason.MANUAL, Step.COMPACT),
    ],
)
def test_full_context_retires_the_session_instead_of_being_shortened(
    reason: CompactionReason, expected: Step
) -> None:
    assert step(reason, is_on=True, has_assignment=True) is expected


@pytest.mark.parametrize("reason", list(CompactionReason))
def test_without_an_assignment_or_when_it_is_off_everything_is_as_usual(
    reason: CompactionReason,
) -> None:
    assert step(reason, is_on=False, has_assignment=True) is Step.COMPACT
    assert step(reason, is_on=True, has_assignment=False) is Step.COMPACT


def test_mark_of_a_copied_history_does_not_retire_this_session() -> None:
    mine = Entry(RETIRED, mark(SESSION))
    theirs = Entry(RETIRED, mark(SessionId("theirs")))
    assert not is_retired([theirs, Entry(GUIDANCE, mark(SESSION))], SESSION)
    assert is_retired([theirs, mine], SESSION)


def test_agent_is_told_what_retirement_means_and_that_it_was_told_is_known() -> None:
    message = guidance(SESSION)
    assert "hand over" in message.text
    assert is_guided([Entry(message.kind, message.details)], SESSION)
    assert not is_guided([Entry(RETIRED, mark(SESSION))], SESSION)
