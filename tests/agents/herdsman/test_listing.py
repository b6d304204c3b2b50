from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agents.herdsman.caller import Caller
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.findings import DIAGNOSTIC_LIMIT_CHARS, Scan, Unreadable
from agents.herdsman.identity import SessionId
from agents.herdsman.listing import agent_records
from agents.herdsman.look import Look
from agents.herdsman.record import Contents, UnclearPending
from agents.herdsman.runtime import Inventory, Lifecycle
from agents.herdsman.tool_names import CLOSE
from tests.support.herd_arbitrary import SESSIONS, herds_and_inventories
from tests.support.herd_records import (
    LEAD,
    NOW_MS,
    TASK,
    agent_of,
    asking,
    caller_of,
    inventory_of,
    mailbox,
    request,
    result_error,
    session,
)

MINUTE = 60_000
ACTIVE = mailbox("scout", active=TASK, last_activity_ms=NOW_MS - MINUTE)
PARENT = mailbox("parent", active=request("parent"), last_activity_ms=NOW_MS)
CHILD = mailbox("child", owner=session("parent"), active=request("child"))
BROKEN = Unreadable("0" * 32, "its state is larger than 64 KiB")


def looking_at(
    *contents: Contents,
    inventory: Inventory | None = None,
    unreadable: tuple[Unreadable, ...] = (),
    saved: tuple[str, ...] | None = None,
    now_ms: int = NOW_MS,
) -> Look:
    """Return a look at agents that are all there and work, unless said otherwise."""
    files = [one.state.session_file for one in contents] if saved is None else saved
    return Look(
        Scan(contents, unreadable),
        inventory_of(contents) if inventory is None else inventory,
        now_ms,
        frozenset(files),
    )


def records(look: Look, caller: Caller | None = None) -> list[dict[str, Any]]:
    return agent_records(look, caller or caller_of(), {})


def test_working_agent_is_shown_with_all_that_is_known_of_it_and_nothing_else() -> None:
    assert records(looking_at(ACTIVE)) == [
        {
            "agent": "scout",
            "state": "working",
            "available_tools": [
                "agent_inspect",
                "agent_transcript",
                "agent_steer",
                "agent_interrupt",
                "agent_close",
            ],
            "workspace_id": "/tree",
            "pane_id": "place-scout",
            "cwd": "/tree",
            "pi_session_id": session("scout"),
            "pi_session_path": "/sessions/scout.jsonl",
            "owner_session_id": LEAD,
            "agent_definition": "implementer",
            "active_request_id": TASK,
            "last_activity_at": NOW_MS - MINUTE,
        }
    ]


def test_lost_agent_without_an_assignment_is_shown_from_its_records() -> None:
    (record,) = records(looking_at(mailbox("scout"), inventory=Inventory(), saved=()))
    assert (record["state"], record["available_tools"]) == ("lost", ["agent_close"])
    assert record["pi_session_id"] == session("scout")
    assert not {"active_request_id", "last_activity_at", "stale", "parent_label"} & set(record)


def test_agent_that_has_not_got_on_for_ten_minutes_is_stale() -> None:
    (record,) = records(looking_at(ACTIVE, now_ms=NOW_MS + 10 * MINUTE))
    assert (record["stale"], record["inactive_ms"]) == (True, 11 * MINUTE)


def test_agents_of_an_agent_come_after_it_with_its_label_and_nothing_to_call() -> None:
    shown = records(looking_at(CHILD, PARENT, ACTIVE))
    assert [(one["agent"], one.get("parent_label")) for one in shown] == [
        ("parent", None),
        ("scout", None),
        ("child", "parent"),
    ]
    assert shown[2]["available_tools"] == []
    assert shown[2]["owner_session_id"] == session("parent")


def test_delegating_agent_is_shown_its_own_agents_as_direct_ones() -> None:
    (record,) = records(
        looking_at(CHILD, PARENT, unreadable=(BROKEN,)),
        caller_of(session("parent"), kind="agent"),
    )
    assert record["agent"] == "child"
    assert "parent_label" not in record
    # What it cannot know of does not keep it from closing its own.
    assert "agent_close" in record["available_tools"]


def test_mailbox_that_cannot_be_read_is_shown_to_a_lead_and_keeps_open_who_may_own_it() -> None:
    leaf = mailbox("leaf", active=TASK, delegates=False)
    assert "agent_close" in records(looking_at(leaf, unreadable=(BROKEN,)))[0]["available_tools"]
    shown = records(looking_at(ACTIVE, unreadable=(BROKEN,)))
    assert shown[1:] == [
        {
            "state": "unknown",
            "available_tools": [],
            "diagnostic": "its state is larger than 64 KiB",
        }
    ]
    assert "agent_close" not in shown[0]["available_tools"]
    assert "agent_steer" in shown[0]["available_tools"]


def test_no_more_than_64_mailboxes_that_cannot_be_read_are_told_of() -> None:
    many = tuple(Unreadable(f"{number:032x}", str(number)) for number in range(70))
    shown = records(looking_at(unreadable=many))
    assert [one["diagnostic"] for one in shown] == [str(number) for number in range(64)]


def test_result_that_was_lost_is_shown_with_what_helps() -> None:
    (record,) = records(looking_at(Contents(result_error(ACTIVE.state))))
    assert record["state"] == "settling"
    assert record["result_error"] == {
        "code": "write_failure",
        "message": "no space left on device",
        "request_id": TASK,
        "status": "completed",
        "attempts": 8,
        "failed_at": NOW_MS,
        "retry_safe": False,
        "cleanup_safe": True,
        "next_action": "close the agent and delegate anew",
    }
    assert "agent_close" in record["available_tools"]


def test_agent_that_was_stopped_and_not_removed_says_why() -> None:
    generation = ACTIVE.state.of.generation
    (record,) = agent_records(
        looking_at(ACTIVE, inventory=Inventory()),
        caller_of(),
        {generation: "permission denied"},
    )
    assert (record["state"], record["cleanup_error"]) == ("lost", "permission denied")


def test_what_cannot_be_read_beside_a_state_is_shown_within_a_limit() -> None:
    (record,) = records(looking_at(replace(ACTIVE, pending=UnclearPending("two\nof " * 1000))))
    assert record["diagnostic"].startswith("two of two")
    assert len(record["diagnostic"]) <= DIAGNOSTIC_LIMIT_CHARS
    (record,) = records(looking_at(replace(asking(ACTIVE), ask=None, ask_fault="no JSON")))
    assert record["diagnostic"] == "no JSON"
    assert "agent_reply" not in record["available_tools"]


def test_agent_whose_result_is_to_be_delivered_cannot_be_closed() -> None:
    (record,) = records(looking_at(replace(ACTIVE, results=frozenset({TASK}))))
    assert record["available_tools"] == ["agent_inspect", "agent_transcript"]


def test_caller_finds_its_own_agents_alone() -> None:
    look = looking_at(PARENT, CHILD)
    found = look.find(caller_of(), "parent")
    assert (found.contents, found.children) == (PARENT, (CHILD,))
    assert look.own(caller_of()) == (PARENT,)
    for label in ("child", "nobody"):
        with pytest.raises(HerdError) as caught:
            look.find(caller_of(), label)
        assert caught.value.trouble.category is Category.TARGET_NOT_FOUND


def test_label_that_two_agents_bear_names_neither() -> None:
    other = replace(ACTIVE, state=replace(ACTIVE.state, session=session("twin")))
    with pytest.raises(HerdError) as caught:
        looking_at(ACTIVE, other).find(caller_of(), "scout")
    assert caught.value.trouble.category is Category.TARGET_AMBIGUOUS


@given(
    given_=herds_and_inventories(),
    owner=st.sampled_from(SESSIONS),
    is_lead=st.booleans(),
    has_unreadable=st.booleans(),
)
def test_close_is_listed_of_own_agents_alone_and_only_where_the_call_would_go_ahead(
    *,
    given_: tuple[tuple[Contents, ...], Inventory],
    owner: SessionId,
    is_lead: bool,
    has_unreadable: bool,
) -> None:
    herd, inventory = given_
    look = looking_at(*herd, inventory=inventory, unreadable=(BROKEN,) if has_unreadable else ())
    caller = caller_of(owner, kind="lead" if is_lead else "agent")
    own = {one.state.of.label for one in look.own(caller)}
    for record in records(look, caller):
        if record.get("agent") not in own:
            assert record["available_tools"] == []
        elif CLOSE in record["available_tools"]:
            found = look.find(caller, record["agent"])
            assert look.plan_close(caller, found.contents).target.contents == found.contents


def herd_of(count: int) -> Look:
    """Return a look at a lead's agents, a fifth of them with four agents of their own each."""
    herd = []
    for number in range(count):
        parent = number - number % 5
        more: dict[str, Any] = {"active": request(str(number)), "last_activity_ms": NOW_MS}
        owner = LEAD if number == parent else session(f"agent-{parent}")
        herd.append(mailbox(f"agent-{number}", owner=owner, **more))
    return looking_at(*herd)


def test_many_agents_are_listed_with_their_trees() -> None:
    shown = records(herd_of(50))
    assert len(shown) == 50
    assert sum("parent_label" in one for one in shown) == 40
    assert all(
        "agent_close" in one["available_tools"] for one in shown if "parent_label" not in one
    )


def test_agent_seen_in_doubt_offers_nothing() -> None:
    odd = agent_of(ACTIVE.state, Lifecycle.WORKING, cwd="/elsewhere")
    (record,) = records(looking_at(ACTIVE, inventory=Inventory((odd,), ())))
    assert (record["state"], record["available_tools"]) == ("unknown", [])
    assert record["active_request_id"] == TASK
