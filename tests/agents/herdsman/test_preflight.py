from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec

import pytest

from agents.herdsman.errors import Category, HerdError
from agents.herdsman.findings import Unreadable
from agents.herdsman.identity import Label
from agents.herdsman.ownership import Family
from agents.herdsman.preflight import (
    ClosePlan,
    check_inspect,
    check_interrupt,
    check_reply,
    check_steer,
    check_transcript,
    plan_close,
)
from agents.herdsman.presence import Observed, Presence
from agents.herdsman.projection import Evidence
from agents.herdsman.record import Contents, State, UnclearPending
from agents.herdsman.runtime import Lifecycle
from tests.support.herd_records import (
    LEAD,
    LOST,
    TASK,
    UNKNOWN,
    WORKSPACE,
    asking,
    live,
    mailbox,
    request,
    result_error,
    session,
    waiting,
)

P = ParamSpec("P")

IDLE = Lifecycle.IDLE
ACTIVE = mailbox("scout", active=TASK)
ASKING = asking(ACTIVE)
RESULT = frozenset({TASK})
PARENT = mailbox("parent", active=TASK)


def under(parent: str, label: str, **more: object) -> Contents:
    return mailbox(label, owner=session(parent), **more)


def plan(
    target: Contents,
    *others: Contents,
    is_lead: bool = True,
    unreadable: Sequence[Unreadable] = (),
    seen: dict[str, Observed] | None = None,
) -> ClosePlan:
    def observe(state: State) -> Observed:
        return (seen or {}).get(state.of.label, live(Contents(state)))

    family = Family((target, *others), WORKSPACE)
    return plan_close(target, family, observe, is_lead=is_lead, unreadable=unreadable)


def labels(made: ClosePlan) -> list[Label]:
    return [step.contents.state.of.label for step in made.steps]


def refused(call: Callable[P, object], *args: P.args, **options: P.kwargs) -> tuple[Category, str]:
    """Return how a call is refused: its category and what it says."""
    with pytest.raises(HerdError) as caught:
        call(*args, **options)
    return caught.value.trouble.category, caught.value.trouble.message


def test_live_leaf_is_closed_alone() -> None:
    made = plan(ACTIVE)
    assert labels(made) == ["scout"]
    assert (made.target.contents, made.target.parent, made.below) == (ACTIVE, None, ())
    assert made.target.observed.presence is Presence.LIVE
    assert made.target.identity == ACTIVE.state.identity


def test_lost_agent_can_be_closed_without_a_stop() -> None:
    assert plan(ACTIVE, seen={"scout": LOST}).target.observed == LOST


def test_who_works_for_another_is_closed_before_it() -> None:
    family = [
        under("parent", "b"),
        under("parent", "a"),
        under("a", "a1"),
        mailbox("bystander"),
        under("bystander", "b1"),
    ]
    made = plan(PARENT, *family)
    assert labels(made) == ["a1", "b", "a", "parent"]
    assert [step.parent and step.parent.of.label for step in made.steps] == [
        "a",
        "parent",
        "parent",
        None,
    ]


def test_agent_in_doubt_is_not_closed() -> None:
    category, message = refused(plan, ACTIVE, seen={"scout": UNKNOWN})
    assert category is Category.TARGET_AMBIGUOUS
    assert "scout" in message


def test_descendant_in_doubt_keeps_its_parent_open() -> None:
    category, message = refused(plan, PARENT, under("parent", "a"), seen={"a": UNKNOWN})
    assert category is Category.TARGET_AMBIGUOUS
    assert "'a'" in message


@pytest.mark.parametrize(
    "contents",
    [
        replace(ACTIVE, results=RESULT),
        mailbox("scout", completed=TASK, results=RESULT),
        replace(
            ACTIVE, pending=waiting(ACTIVE.state, "next"), results=frozenset({request("next")})
        ),
        replace(ACTIVE, pending=UnclearPending("two"), results=frozenset({request("any")})),
    ],
    ids=["active", "completed", "unanswered", "unclear"],
)
def test_result_that_is_to_be_delivered_is_not_thrown_away(contents: Contents) -> None:
    category, message = refused(plan, contents)
    assert category is Category.TARGET_AMBIGUOUS
    assert "result" in message


def test_result_of_a_descendant_keeps_its_parent_open() -> None:
    child = under("parent", "a", active=TASK, results=RESULT)
    assert refused(plan, PARENT, child)[0] is Category.TARGET_AMBIGUOUS


def test_agent_whose_result_is_delivered_or_lost_can_be_closed() -> None:
    assert labels(plan(mailbox("scout", completed=TASK))) == ["scout"]
    assert labels(plan(Contents(result_error(ACTIVE.state)))) == ["scout"]


def test_question_does_not_keep_an_agent_open() -> None:
    assert labels(plan(ASKING)) == ["scout"]


def test_agent_that_is_being_started_is_not_closed() -> None:
    starting = mailbox("scout", is_starting=True)
    assert refused(plan, starting)[0] is Category.AGENT_BUSY


def broken(**known: Any) -> Unreadable:
    return Unreadable("0" * 32, "its state is damaged", **known)


def test_mailbox_that_cannot_be_read_stops_closes_of_a_lead_and_of_nobody_else() -> None:
    category, message = refused(plan, ACTIVE, unreadable=[broken()])
    assert category is Category.TARGET_AMBIGUOUS
    assert f"the mailbox {'0' * 32} cannot be read" in message
    assert labels(plan(ACTIVE, unreadable=[broken()], is_lead=False)) == ["scout"]


@pytest.mark.parametrize(
    ("known", "is_in_the_way"),
    [
        ({}, True),
        ({"workspace": WORKSPACE}, True),
        ({"workspace": "/other"}, False),
        ({"owner": session("parent")}, True),
        ({"owner": session("a")}, True),
        ({"owner": LEAD}, False),
        ({"workspace": WORKSPACE, "owner": session("bystander")}, False),
        ({"workspace": WORKSPACE, "owner": session("parent")}, True),
        ({"workspace": "/other", "owner": session("parent")}, False),
    ],
)
def test_mailbox_that_cannot_be_read_is_in_the_way_where_it_may_be_a_descendants(
    known: dict[str, Any], *, is_in_the_way: bool
) -> None:
    family = (PARENT, under("parent", "a"))
    seen = [broken(workspace="/other"), broken(**known)]
    if is_in_the_way:
        assert refused(plan, *family, unreadable=seen)[0] is Category.TARGET_AMBIGUOUS
    else:
        assert labels(plan(*family, unreadable=seen)) == ["a", "parent"]


@pytest.mark.parametrize(
    ("parent", "child", "is_in_the_way"),
    [(False, False, False), (True, False, True), (False, True, True), (None, False, True)],
)
def test_agents_that_start_none_have_nobody_hidden(
    *, parent: bool | None, child: bool, is_in_the_way: bool
) -> None:
    family = (
        mailbox("parent", delegates=parent, active=TASK),
        under("parent", "a", delegates=child),
    )
    if is_in_the_way:
        assert refused(plan, *family, unreadable=[broken()])[0] is Category.TARGET_AMBIGUOUS
    else:
        assert labels(plan(*family, unreadable=[broken()])) == ["a", "parent"]


def test_delegating_agent_closes_its_agent_alone() -> None:
    assert labels(plan(PARENT, under("parent", "a"), is_lead=False)) == ["parent"]


def cascades_in_doubt() -> Sequence[tuple[Contents, ...]]:
    child = under("parent", "a")
    return [
        (mailbox("twin", session=session("parent")),),
        (child, mailbox("twin", session=session("a"))),
        (child, under("parent", "b", session=session("a"))),
        (child, under("a", "loop", session=session("parent"))),
    ]


@pytest.mark.parametrize(
    "others",
    cascades_in_doubt(),
    ids=["target twice", "descendant twice", "two children in one session", "back to the target"],
)
def test_cascade_that_two_could_be_meant_by_is_not_closed(others: tuple[Contents, ...]) -> None:
    assert refused(plan, PARENT, *others)[0] is Category.TARGET_AMBIGUOUS


def test_cascade_in_a_circle_is_not_closed() -> None:
    target = under("a", "parent")
    assert refused(plan, target, under("parent", "a"))[0] is Category.TARGET_AMBIGUOUS


def test_agent_that_works_can_be_steered_and_interrupted() -> None:
    evidence = Evidence(ACTIVE, live(ACTIVE))
    check_steer(evidence)
    check_interrupt(evidence)
    check_inspect(evidence)
    check_transcript(evidence, transcript_ready=True)


def test_parent_that_waits_can_be_steered_and_says_why_it_cannot_be_interrupted() -> None:
    child = under("parent", "a", active=request("child"))
    evidence = Evidence(PARENT, live(PARENT, IDLE), (child,))
    check_steer(evidence)
    category, message = refused(check_interrupt, evidence)
    assert category is Category.AGENT_BUSY
    assert "agents of its own" in message


CALLS: list[Callable[[Evidence], object]] = [
    check_steer,
    check_interrupt,
    check_reply,
    check_inspect,
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_nothing_is_said_to_an_agent_that_is_not_proved_to_be_there(
    call: Callable[[Evidence], object],
) -> None:
    assert refused(call, Evidence(ASKING, UNKNOWN))[0] is Category.TARGET_AMBIGUOUS
    with pytest.raises(HerdError) as caught:
        call(Evidence(ASKING, LOST))
    assert caught.value.trouble.category is Category.TARGET_NOT_FOUND
    assert "agent_close" in caught.value.trouble.next_action


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_agent_that_is_done_and_gone_is_not_to_be_closed_before_its_result_is_told(
    call: Callable[[Evidence], object],
) -> None:
    done = replace(ACTIVE, results=RESULT)
    with pytest.raises(HerdError) as caught:
        call(Evidence(done, LOST))
    assert caught.value.trouble.category is Category.TARGET_NOT_FOUND
    assert "is done" in str(caught.value)
    assert "delivered by itself" in caught.value.trouble.next_action


@pytest.mark.parametrize(
    ("contents", "lifecycle", "said", "remedy"),
    [
        (ASKING, Lifecycle.WORKING, "waits for an answer", "agent_reply"),
        (
            replace(ACTIVE, pending=waiting(ACTIVE.state)),
            Lifecycle.WORKING,
            "not answered",
            "do not submit it again",
        ),
        (mailbox("scout", completed=TASK), IDLE, "is over", "agent_transcript reads it"),
        (Contents(result_error(ACTIVE.state)), IDLE, "could not be saved", "delegate anew"),
        (mailbox("scout", is_starting=True), IDLE, "being started", "agent_list"),
        (ACTIVE, IDLE, "is settling", "agent_list"),
    ],
    ids=["question", "unanswered", "over", "result lost", "starting", "settling"],
)
def test_refusal_says_what_the_agent_does_and_what_helps(
    contents: Contents, lifecycle: Lifecycle, said: str, remedy: str
) -> None:
    evidence = Evidence(contents, live(contents, lifecycle))
    for check in (check_steer, check_interrupt):
        with pytest.raises(HerdError) as caught:
            check(evidence)
        trouble = caught.value.trouble
        assert trouble.category is Category.AGENT_BUSY
        assert said in trouble.message
        assert remedy in trouble.next_action


def test_question_is_given_back_for_its_reply() -> None:
    assert check_reply(Evidence(ASKING, live(ASKING, IDLE))) == ASKING.ask


def test_reply_to_an_agent_that_asks_nothing_is_refused() -> None:
    for contents in (
        ACTIVE,
        replace(ASKING, pending=waiting(ASKING.state)),
        replace(ASKING, results=RESULT),
    ):
        evidence = Evidence(contents, live(contents, IDLE))
        assert refused(check_reply, evidence)[0] is Category.AGENT_BUSY


def test_reply_to_a_question_that_cannot_be_read_is_refused_as_our_failure() -> None:
    faulty = replace(ASKING, ask=None, ask_fault="it is no JSON")
    category, message = refused(check_reply, Evidence(faulty, live(ASKING, IDLE)))
    assert category is Category.INTERNAL_FAILURE
    assert "it is no JSON" in message


def test_reply_to_a_question_that_is_another_one_or_gone_is_not_found() -> None:
    assert ASKING.ask is not None
    other = replace(ASKING.ask, request=request("else"))
    for contents in (replace(ASKING, ask=None), replace(ASKING, ask=other)):
        evidence = Evidence(contents, live(ASKING, IDLE))
        assert refused(check_reply, evidence)[0] is Category.TARGET_NOT_FOUND


def test_transcript_can_be_read_of_a_lost_agent_and_of_none_in_doubt() -> None:
    check_transcript(Evidence(ACTIVE, LOST), transcript_ready=True)
    for observed in (UNKNOWN, live(ACTIVE, Lifecycle.UNKNOWN)):
        evidence = Evidence(ACTIVE, observed)
        assert (
            refused(check_transcript, evidence, transcript_ready=True)[0]
            is Category.TARGET_AMBIGUOUS
        )


def test_transcript_that_does_not_exist_yet_is_not_to_be_polled() -> None:
    with pytest.raises(HerdError) as caught:
        check_transcript(Evidence(ACTIVE, live(ACTIVE)), transcript_ready=False)
    assert caught.value.trouble.category is Category.AGENT_BUSY
    assert "do not poll" in caught.value.trouble.next_action
