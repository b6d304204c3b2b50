from dataclasses import replace
from typing import Any

import pytest

from agents.herdsman.identity import Handle
from agents.herdsman.presence import Observed, Presence, alias_of, observe
from agents.herdsman.runtime import Inventory, Lifecycle, LiveAgent, Slot
from tests.support.herd_records import agent_of, inventory_of, mailbox, session

SCOUT = mailbox("scout")
STATE = SCOUT.state
AGENT = agent_of(STATE)
PLACE = Slot(STATE.handle, STATE.session)


def presence_in(*, agents: tuple[LiveAgent, ...] = (), slots: tuple[Slot, ...] = ()) -> Presence:
    return observe(STATE.identity, Inventory(agents, slots)).presence


def test_agent_in_its_place_is_live_and_is_given_back() -> None:
    assert observe(STATE.identity, inventory_of([SCOUT])) == Observed(Presence.LIVE, AGENT)


def test_agent_is_live_whatever_else_is_there() -> None:
    others = inventory_of([SCOUT, mailbox("other"), mailbox("third")])
    assert observe(STATE.identity, others).presence is Presence.LIVE


def test_agent_that_tells_no_folder_and_whose_place_claims_nothing_is_live() -> None:
    assert presence_in(agents=(replace(AGENT, cwd=None),), slots=(Slot(STATE.handle),)) is (
        Presence.LIVE
    )


def test_agent_under_the_name_of_its_generation_is_live() -> None:
    named = replace(AGENT, alias=alias_of(STATE.of))
    assert presence_in(agents=(named,), slots=(PLACE,)) is Presence.LIVE


def test_generation_without_any_trace_is_lost() -> None:
    assert observe(STATE.identity, Inventory()) == Observed(Presence.LOST)
    assert observe(STATE.identity, inventory_of([mailbox("other")])) == Observed(Presence.LOST)


def test_place_that_holds_another_session_makes_unknown_and_not_lost() -> None:
    stranger = Slot(STATE.handle, session("stranger"))
    assert presence_in(slots=(stranger,)) is Presence.UNKNOWN
    assert presence_in(agents=(AGENT,), slots=(stranger,)) is Presence.UNKNOWN
    assert presence_in(
        agents=(replace(AGENT, session=session("stranger")),), slots=(stranger,)
    ) is (Presence.UNKNOWN)


def test_session_seen_in_another_place_makes_unknown() -> None:
    elsewhere = Handle("elsewhere")
    assert presence_in(agents=(replace(AGENT, handle=elsewhere),)) is Presence.UNKNOWN
    assert presence_in(slots=(Slot(elsewhere, STATE.session),)) is Presence.UNKNOWN
    assert (
        presence_in(agents=(AGENT,), slots=(PLACE, Slot(elsewhere, STATE.session)))
        is Presence.UNKNOWN
    )
    assert (
        presence_in(agents=(AGENT, replace(AGENT, handle=elsewhere)), slots=(PLACE,))
        is Presence.UNKNOWN
    )


@pytest.mark.parametrize(
    "change",
    [
        {"workspace": "/elsewhere"},
        {"cwd": "/elsewhere"},
        {"session_file": "/sessions/else.jsonl"},
        {"session": session("else")},
        {"alias": "somebody"},
    ],
    ids=lambda change: str(next(iter(change))),
)
def test_agent_that_differs_in_anything_makes_unknown(change: dict[str, Any]) -> None:
    assert presence_in(agents=(replace(AGENT, **change),), slots=(PLACE,)) is Presence.UNKNOWN


def test_agent_without_its_place_or_with_two_is_unknown() -> None:
    assert presence_in(agents=(AGENT,)) is Presence.UNKNOWN
    assert presence_in(agents=(AGENT,), slots=(PLACE, Slot(STATE.handle))) is Presence.UNKNOWN


def test_place_without_an_agent_makes_unknown() -> None:
    assert presence_in(slots=(PLACE,)) is Presence.UNKNOWN


def test_name_of_the_generation_seen_elsewhere_makes_unknown() -> None:
    other = agent_of(mailbox("other").state, alias=alias_of(STATE.of))
    assert presence_in(agents=(other,)) is Presence.UNKNOWN


@pytest.mark.parametrize("value", ["resting", "Idle", "", None, 3, ["idle"]], ids=repr)
def test_lifecycle_reported_in_a_word_that_is_not_known_is_unknown(value: object) -> None:
    assert Lifecycle(value) is Lifecycle.UNKNOWN


def test_generation_that_is_not_seen_has_an_unknown_lifecycle() -> None:
    assert Observed(Presence.LOST).lifecycle is Lifecycle.UNKNOWN
    assert Observed(Presence.LIVE, AGENT).lifecycle is Lifecycle.WORKING
