"""The table of acceptance."""

from dataclasses import replace
from typing import Any

import pytest

from agents.herdsman.accept import (
    Accepted,
    Known,
    Moment,
    Refused,
    accepted,
    judge,
    refused,
)
from agents.herdsman.marker import MARKER
from agents.herdsman.record import (
    Acknowledgement,
    Ask,
    Injection,
    RejectionCode,
    Request,
    RequestKind,
    State,
)
from tests.support.herd_records import (
    NOW_MS,
    TASK,
    ask_id,
    request,
    result_error,
    session,
    state_of,
    uid,
)

IDLE = state_of("scout")
ACTIVE = state_of("scout", active=TASK, last_activity_ms=NOW_MS)
ASKING = replace(ACTIVE, pending_ask=ask_id("which"))
QUESTION = Ask(ASKING.of, ask_id("which"), TASK, ASKING.session, "Which one?", NOW_MS)
AT_REST = Moment(is_idle=True)
AT_WORK = Moment(is_idle=False)
CONTROLS = (RequestKind.STEER, RequestKind.INTERRUPT)
LATER_MS = NOW_MS + 7


def asked(kind: RequestKind, name: str = "next", text: str = "go on") -> Request:
    """Return a request of the owner's; a reply answers the question above."""
    ask = ask_id("which") if kind is RequestKind.REPLY else None
    return Request(ACTIVE.of, request(name), kind, text, NOW_MS, ask)


def code_of(
    kind: RequestKind, state: State, moment: Moment, ask: Ask | None = None
) -> RejectionCode:
    """Return why a request is turned down."""
    verdict = judge(asked(kind), state, ask, moment)
    assert isinstance(verdict, Refused)
    assert verdict.message
    return verdict.code


def test_first_task_of_an_idle_agent_is_accepted() -> None:
    assert judge(asked(RequestKind.TASK), IDLE, None, AT_REST) == Accepted()


@pytest.mark.parametrize(
    ("state", "moment"),
    [
        (ACTIVE, AT_REST),
        (state_of("scout", completed=TASK), AT_REST),
        (IDLE, AT_WORK),
        (IDLE, Moment(is_idle=True, is_publishing=True)),
    ],
    ids=["active", "completed", "at work", "publishing"],
)
def test_task_is_refused_while_another_has_a_claim_on_the_agent(
    state: State, moment: Moment
) -> None:
    assert code_of(RequestKind.TASK, state, moment) is RejectionCode.BUSY


def test_task_after_a_lost_result_is_told_what_to_do_instead() -> None:
    state = result_error(ACTIVE)
    verdict = judge(asked(RequestKind.TASK), state, None, AT_REST)
    assert isinstance(verdict, Refused)
    assert verdict.code is RejectionCode.BUSY
    assert state.result_error is not None
    assert state.result_error.next_action in verdict.message


@pytest.mark.parametrize("kind", CONTROLS)
def test_control_of_an_agent_at_work_is_accepted(kind: RequestKind) -> None:
    assert judge(asked(kind), ACTIVE, None, AT_WORK) == Accepted()


@pytest.mark.parametrize("kind", CONTROLS)
@pytest.mark.parametrize(
    ("state", "moment", "code"),
    [
        (ASKING, AT_WORK, RejectionCode.BUSY),
        (
            replace(ACTIVE, injection=Injection(TASK, RequestKind.INTERRUPT)),
            AT_WORK,
            RejectionCode.BUSY,
        ),
        (ACTIVE, Moment(is_idle=True, is_publishing=True), RejectionCode.BUSY),
        (IDLE, AT_WORK, RejectionCode.IDLE),
        (ACTIVE, AT_REST, RejectionCode.IDLE),
    ],
    ids=["asking", "interrupt settling", "publishing", "no assignment", "at rest"],
)
def test_control_that_comes_at_the_wrong_time_is_refused(
    kind: RequestKind, state: State, moment: Moment, code: RejectionCode
) -> None:
    assert code_of(kind, state, moment, QUESTION) is code


def test_agent_that_waits_for_its_own_agents_can_be_steered_and_not_interrupted() -> None:
    moment = Moment(is_idle=True, waits_for_children=True)
    assert judge(asked(RequestKind.STEER), ACTIVE, None, moment) == Accepted()
    assert code_of(RequestKind.INTERRUPT, ACTIVE, moment) is RejectionCode.IDLE


@pytest.mark.parametrize("moment", [AT_REST, AT_WORK])
def test_answer_to_the_pending_question_is_accepted(moment: Moment) -> None:
    assert judge(asked(RequestKind.REPLY), ASKING, QUESTION, moment) == Accepted()


@pytest.mark.parametrize(
    ("state", "ask"),
    [
        (ACTIVE, QUESTION),
        (ASKING, None),
        (ASKING, replace(QUESTION, ask=ask_id("other"))),
        (ASKING, replace(QUESTION, request=request("other"))),
        (ASKING, replace(QUESTION, session=session("other"))),
        (replace(ASKING, pending_ask=ask_id("other")), replace(QUESTION, ask=ask_id("other"))),
    ],
    ids=["answered", "missing", "other ask", "other assignment", "other session", "other question"],
)
def test_answer_to_any_other_question_is_refused(state: State, ask: Ask | None) -> None:
    assert code_of(RequestKind.REPLY, state, AT_REST, ask) is RejectionCode.IDENTITY


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": uid("another")},
        {"owner": uid("another")},
        {"workspace": "/elsewhere"},
        {"handle": "elsewhere"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_request_that_is_for_another_generation_in_any_field_is_refused(
    changes: dict[str, Any],
) -> None:
    stale = replace(asked(RequestKind.STEER), of=replace(ACTIVE.of, **changes))
    verdict = judge(stale, ACTIVE, None, AT_WORK)
    assert isinstance(verdict, Refused)
    assert verdict.code is RejectionCode.IDENTITY


@pytest.mark.parametrize("kind", list(RequestKind))
def test_request_that_was_answered_is_not_answered_again(kind: RequestKind) -> None:
    said = Acknowledgement(request("next"), accepted=True, at_ms=NOW_MS)
    shown = [
        replace(ACTIVE, acknowledgement=said),
        state_of("scout", active=request("next")),
        state_of("scout", completed=request("next")),
        replace(ACTIVE, injection=Injection(request("next"), RequestKind.INTERRUPT)),
    ]
    assert [judge(asked(kind), state, None, AT_WORK) for state in shown] == [Known()] * 4


@pytest.mark.parametrize("rest", ["", f"{TASK}", f"{TASK} and more"])
def test_text_that_is_a_control_marker_reaches_no_model(rest: str) -> None:
    marker = asked(RequestKind.STEER, text=MARKER + rest)
    verdict = judge(marker, ACTIVE, None, AT_WORK)
    assert isinstance(verdict, Refused)
    assert verdict.code is RejectionCode.INVALID


def test_marker_of_an_older_protocol_is_ordinary_text() -> None:
    text = "__PI_HERDSMAN_AGENT_V3__:x"
    assert judge(asked(RequestKind.STEER, text=text), ACTIVE, None, AT_WORK) == Accepted()


def test_accepted_task_is_active_acknowledged_and_to_be_put_in_by_one_change() -> None:
    task = asked(RequestKind.TASK)
    assert accepted(IDLE, task, LATER_MS) == replace(
        IDLE,
        active=task.request,
        last_activity_ms=LATER_MS,
        injection=Injection(task.request, RequestKind.TASK),
        acknowledgement=Acknowledgement(task.request, accepted=True, at_ms=LATER_MS),
        updated_ms=LATER_MS,
    )


def test_accepted_answer_ends_the_question_by_the_same_change() -> None:
    reply = asked(RequestKind.REPLY)
    after = accepted(ASKING, reply, LATER_MS)
    assert (after.pending_ask, after.active) == (None, TASK)
    assert after.injection == Injection(reply.request, RequestKind.REPLY)
    assert after.fault() is None


def test_accepted_steer_is_queued_and_not_remembered() -> None:
    after = accepted(ACTIVE, asked(RequestKind.STEER), LATER_MS)
    assert (after.injection, after.active) == (None, TASK)


def test_accepted_interrupt_keeps_the_assignment_and_is_to_be_put_in() -> None:
    interrupt = asked(RequestKind.INTERRUPT)
    after = accepted(ACTIVE, interrupt, LATER_MS)
    assert after.active == TASK
    assert after.injection == Injection(interrupt.request, RequestKind.INTERRUPT)


def test_refusal_changes_nothing_but_the_acknowledgement() -> None:
    refusal = Refused(RejectionCode.BUSY, "not now")
    after = refused(ACTIVE, request("next"), refusal, LATER_MS)
    said = Acknowledgement(
        request("next"), accepted=False, at_ms=LATER_MS, code=RejectionCode.BUSY, message="not now"
    )
    assert after == replace(ACTIVE, acknowledgement=said, updated_ms=LATER_MS)
    assert after.fault() is None
