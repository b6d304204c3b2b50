from dataclasses import replace
from typing import Any

import pytest

from agents.herdsman.identity import Label
from agents.herdsman.presence import Observed
from agents.herdsman.projection import (
    AgentState,
    Evidence,
    available_tools,
    project,
)
from agents.herdsman.record import Contents, RequestKind, UnclearPending
from agents.herdsman.runtime import Lifecycle
from tests.support.herd_records import (
    LOST,
    TASK,
    UNKNOWN,
    asking,
    live,
    mailbox,
    request,
    result_error,
    session,
    waiting,
)

IDLE, DONE, BUSY = Lifecycle.IDLE, Lifecycle.DONE, Lifecycle.WORKING
STUCK, UNSEEN = Lifecycle.BLOCKED, Lifecycle.UNKNOWN

FRESH = mailbox("scout")
ACTIVE = mailbox("scout", active=TASK)
ASKING = asking(ACTIVE)
COMPLETED = mailbox("scout", completed=TASK, results=frozenset({TASK}))
CLEANED = mailbox("scout", completed=TASK)
PUBLISHED = replace(ACTIVE, results=frozenset({TASK}))
FAILED = Contents(result_error(FRESH.state))
STARTING = replace(FRESH, is_starting=True)
UNANSWERED = replace(ACTIVE, pending=waiting(ACTIVE.state))
UNCLEAR = replace(ACTIVE, pending=UnclearPending("two requests"))
CHILD = mailbox("child", owner=session("scout"), active=request("child"))


def seen(contents: Contents, lifecycle: Lifecycle) -> Observed:
    return live(contents, lifecycle)


@pytest.mark.parametrize(
    ("contents", "observed", "children", "state"),
    [
        pytest.param(COMPLETED, seen(COMPLETED, IDLE), (), "settling", id="a result of the past"),
        pytest.param(PUBLISHED, seen(ACTIVE, BUSY), (), "settling", id="a result of the present"),
        pytest.param(FAILED, seen(FAILED, IDLE), (), "settling", id="a lost result"),
        pytest.param(CLEANED, LOST, (), "settling", id="a delivered result and no agent"),
        pytest.param(PUBLISHED, UNKNOWN, (), "settling", id="a result and an agent in doubt"),
        pytest.param(
            replace(PUBLISHED, is_starting=True), LOST, (), "settling", id="a result and a start"
        ),
        pytest.param(STARTING, LOST, (), "starting", id="a start, nothing there"),
        pytest.param(STARTING, seen(STARTING, BUSY), (), "starting", id="a start, agent there"),
        pytest.param(
            replace(ACTIVE, is_starting=True),
            seen(ACTIVE, BUSY),
            (),
            "working",
            id="a start that is over",
        ),
        pytest.param(ACTIVE, LOST, (), "lost", id="no agent"),
        pytest.param(UNANSWERED, LOST, (), "lost", id="no agent to answer"),
        pytest.param(ASKING, UNKNOWN, (), "unknown", id="an agent in doubt"),
        pytest.param(UNANSWERED, seen(ACTIVE, BUSY), (), "settling", id="a request unanswered"),
        pytest.param(UNCLEAR, seen(ACTIVE, BUSY), (), "settling", id="an unclear request"),
        pytest.param(ACTIVE, seen(ACTIVE, BUSY), (), "working", id="work"),
        pytest.param(ASKING, seen(ASKING, BUSY), (), "working", id="an ask whose turn goes on"),
        pytest.param(ASKING, seen(ASKING, IDLE), (), "blocked", id="an ask"),
        pytest.param(ASKING, seen(ASKING, STUCK), (), "blocked", id="an ask in a dialog"),
        pytest.param(ASKING, seen(ASKING, UNSEEN), (), "unknown", id="an ask, unseen"),
        pytest.param(ACTIVE, seen(ACTIVE, STUCK), (), "blocked", id="a dialog"),
        pytest.param(ACTIVE, seen(ACTIVE, IDLE), (CHILD,), "blocked", id="rest amid children"),
        pytest.param(ACTIVE, seen(ACTIVE, DONE), (CHILD,), "blocked", id="done amid children"),
        pytest.param(ACTIVE, seen(ACTIVE, IDLE), (), "settling", id="rest"),
        pytest.param(ACTIVE, seen(ACTIVE, DONE), (), "settling", id="done"),
        pytest.param(ACTIVE, seen(ACTIVE, UNSEEN), (CHILD,), "unknown", id="work unseen"),
        pytest.param(FRESH, seen(FRESH, IDLE), (), "settling", id="nothing assigned"),
        pytest.param(FRESH, seen(FRESH, DONE), (), "settling", id="nothing assigned, done"),
        pytest.param(FRESH, seen(FRESH, BUSY), (), "unknown", id="work that nobody assigned"),
        pytest.param(FRESH, seen(FRESH, STUCK), (), "unknown", id="a dialog of nobody's"),
        pytest.param(FRESH, seen(FRESH, UNSEEN), (), "unknown", id="nothing assigned, unseen"),
    ],
)
def test_state_follows_from_the_first_evidence_that_counts(
    contents: Contents, observed: Observed, children: tuple[Contents, ...], state: str
) -> None:
    assert project(contents, observed, children) is AgentState(state)


def tools(
    contents: Contents,
    observed: Observed,
    children: tuple[Contents, ...] = (),
    *,
    is_direct: bool = True,
    transcript_ready: bool = True,
    closable: bool = True,
) -> list[str]:
    """Return what is listed, without the prefix that all of the names have."""
    listed = available_tools(
        Evidence(contents, observed, children),
        is_direct=is_direct,
        transcript_ready=transcript_ready,
        closable=closable,
    )
    assert all(name.startswith("agent_") for name in listed)
    return [name.removeprefix("agent_") for name in listed]


def test_agent_that_works_offers_everything_but_a_reply_in_a_fixed_order() -> None:
    assert tools(ACTIVE, live(ACTIVE)) == ["inspect", "transcript", "steer", "interrupt", "close"]


def test_request_that_is_unanswered_takes_steer_and_interrupt_away_until_it_is_answered() -> None:
    assert tools(UNANSWERED, live(ACTIVE)) == ["inspect", "transcript", "close"]
    assert tools(replace(UNANSWERED, pending=ACTIVE.pending), live(ACTIVE)) == [
        "inspect",
        "transcript",
        "steer",
        "interrupt",
        "close",
    ]


def test_question_offers_a_reply_and_neither_steer_nor_interrupt_even_while_its_turn_ends() -> None:
    assert project(ASKING, live(ASKING)) is AgentState.WORKING
    for lifecycle in (BUSY, IDLE):
        assert tools(ASKING, live(ASKING, lifecycle)) == [
            "inspect",
            "transcript",
            "reply",
            "close",
        ]


def test_question_whose_record_is_missing_offers_no_reply() -> None:
    assert tools(replace(ASKING, ask=None), live(ASKING, IDLE)) == [
        "inspect",
        "transcript",
        "close",
    ]


@pytest.mark.parametrize("field", ["of", "ask", "request", "session"])
def test_question_that_differs_from_the_state_in_anything_offers_no_reply(field: str) -> None:
    assert ASKING.ask is not None
    other: dict[str, Any] = {
        "of": replace(ASKING.state.of, label=Label("else")),
        "ask": request("else"),
        "request": request("else"),
        "session": session("else"),
    }
    wrong = replace(ASKING, ask=replace(ASKING.ask, **{field: other[field]}))
    assert "reply" not in tools(wrong, live(ASKING, IDLE))


def test_reply_that_is_on_its_way_is_not_offered_again() -> None:
    answered = replace(ASKING, pending=waiting(ASKING.state, kind=RequestKind.REPLY))
    assert "reply" not in tools(answered, live(ASKING, IDLE))


def test_parent_that_waits_for_its_child_can_be_steered_and_not_interrupted() -> None:
    parent = live(ACTIVE, IDLE)
    assert tools(ACTIVE, parent, (CHILD,)) == ["inspect", "transcript", "steer", "close"]
    assert project(ACTIVE, parent) is AgentState.SETTLING
    assert tools(ACTIVE, parent) == ["inspect", "transcript", "close"]


def test_agent_in_a_dialog_can_neither_be_steered_nor_interrupted() -> None:
    assert tools(ACTIVE, live(ACTIVE, STUCK), (CHILD,)) == ["inspect", "transcript", "close"]


def test_transcript_is_offered_only_when_something_is_saved() -> None:
    assert "transcript" not in tools(ACTIVE, live(ACTIVE), transcript_ready=False)
    assert tools(ACTIVE, LOST) == ["transcript", "close"]
    assert tools(ACTIVE, LOST, transcript_ready=False) == ["close"]


@pytest.mark.parametrize(
    ("contents", "observed"),
    [
        (ACTIVE, UNKNOWN),
        (PUBLISHED, UNKNOWN),
        (ASKING, live(ASKING, UNSEEN)),
        (FRESH, live(FRESH, BUSY)),
    ],
    ids=["in doubt", "in doubt with a result", "unseen with a question", "work of nobody's"],
)
def test_unknown_offers_nothing(contents: Contents, observed: Observed) -> None:
    assert tools(contents, observed) == []


def test_one_that_works_for_somebody_else_offers_nothing_whatever_its_state() -> None:
    for contents, observed in [
        (ACTIVE, live(ACTIVE)),
        (ASKING, live(ASKING, IDLE)),
        (ACTIVE, LOST),
    ]:
        assert tools(contents, observed, is_direct=False) == []


def test_close_is_offered_only_where_it_would_be_allowed() -> None:
    assert "close" not in tools(FAILED, LOST, closable=False)
    assert tools(FAILED, LOST) == ["transcript", "close"]
    assert tools(FAILED, live(FAILED, IDLE)) == ["inspect", "transcript", "close"]


def test_agent_that_is_being_started_offers_no_change() -> None:
    assert tools(STARTING, live(STARTING, IDLE)) == ["inspect", "transcript"]
