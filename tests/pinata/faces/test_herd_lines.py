"""What a terminal shows of managed agents can be read by a person, whatever is in it."""

from collections.abc import Sequence
from typing import Any

import pytest

from agents.herdsman.tool_names import REPLY
from pinata.faces.herd_lines import ACTIONS, aside_lines, list_lines, settings_lines

HERE = "/tree"
EYE: dict[str, Any] = {
    "agent": "eye",
    "agent_definition": "scout",
    "state": "working",
    "workspace_id": HERE,
    "available_tools": ["agent_inspect", "agent_interrupt", "agent_close"],
}


REMEDY = "it may keep agents from being closed; if it cannot be mended: `pinata herd set-aside ab`"


def listed(*sessions: dict[str, Any], unreadable: Sequence[dict[str, Any]] = ()) -> list[str]:
    answer = {"workspace": HERE, "sessions": list(sessions), "unreadable": unreadable}
    return list(list_lines(answer))


def session(*agents: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"session": "s1", "agents": list(agents), **more}


def test_where_no_agents_are_it_is_said_where_they_were_looked_for() -> None:
    assert listed() == ["no agents work in /tree"]
    assert listed(session()) == ["no agents work in /tree", "session s1"]


def test_each_agent_stands_below_its_session_with_what_a_person_can_have_done() -> None:
    asking = EYE | {"agent": "mouth", "available_tools": [REPLY]}
    child = EYE | {"agent": "hand", "parent_label": "eye", "available_tools": []}
    assert listed(session(EYE, asking, child)) == [
        "session s1",
        "  eye: scout, working; can be told to inspect, close",
        "! mouth: scout, asks; can be told to reply",
        "  hand (of eye): scout, working",
    ]


def test_agent_that_was_started_elsewhere_tells_where() -> None:
    (_, line) = listed(session(EYE | {"workspace_id": "/other"}))
    assert line.endswith("; started in /other")


def test_session_and_mailbox_that_cannot_be_read_are_listed_with_the_reason() -> None:
    told = {"diagnostic": "ab: \x1b[2J is damaged"}
    unreadable = {"state": "unknown", "available_tools": [], **told}
    sessions = [session(unreadable, error="its host\nis silent"), session(unreadable)]
    assert listed(*sessions, unreadable=[{"folder": "ab", **told}]) == [
        "session s1",
        "  its host is silent",
        "session s1",
        "? ab: \\x1b[2J is damaged",
        f"  {REMEDY}",
    ]


def test_mailbox_that_cannot_be_read_is_told_of_where_no_agents_are() -> None:
    lines = listed(session(), unreadable=[{"folder": "ab", "diagnostic": "ab is damaged"}])
    assert lines[0] == "no agents work in /tree"
    assert "? ab is damaged" in lines


def test_mailbox_that_is_set_aside_tells_where_it_is() -> None:
    answer = {"folder": "ab", "moved_to": "/data/\x1bset-aside/ab"}
    (line,) = aside_lines(answer)
    assert line == "the mailbox ab is set aside, as it was: /data/\\x1bset-aside/ab"


def test_inspection_shows_programs_before_what_they_print() -> None:
    answer = {"recent_output": "$ make\n\x1b[31mred", "process": {"foreground": []}}
    assert list(ACTIONS["inspect"](answer)) == ["$ make", "\\x1b[31mred"]
    answer["process"] = {"foreground": [{"command": "make test"}, {"command": "sleep 9"}]}
    assert next(iter(ACTIONS["inspect"](answer))) == "programs: make test, sleep 9"
    assert list(ACTIONS["inspect"]({"recent_output": ""})) == []


@pytest.mark.parametrize(("cut", "first"), [(True, ["(shortened)"]), (False, [])])
def test_transcript_says_whether_there_is_more_of_it(*, cut: bool, first: list[str]) -> None:
    answer = {"transcript": "User:\nLook.\x07", "transcript_truncated": cut}
    assert list(ACTIONS["transcript"](answer)) == [*first, "User:", "Look.\\x07"]


@pytest.mark.parametrize("action", ["steer", "reply"])
def test_message_that_was_taken_is_said_to_be(action: str) -> None:
    assert list(ACTIONS[action]({"agent": "eye"})) == ["eye has taken it"]


def test_closing_tells_what_is_left_and_what_was_kept() -> None:
    assert list(ACTIONS["close"]({"agent": "eye"})) == ["eye is closed"]
    answer = {
        "agent": "eye",
        "cleanup_error": "no space\nleft",
        "kept_results": {"hand": "result:hand#1", "foot": "result:foot#2"},
    }
    assert list(ACTIONS["close"](answer)) == [
        "eye is closed",
        "its records are left for now: no space left",
        "the result of hand is kept as result:hand#1",
        "the result of foot is kept as result:foot#2",
    ]


def test_settings_are_shown_as_they_are_typed() -> None:
    settings = {"contextRetirement": False, "mailboxPayloadLimitBytes": 1024, "place": "tab"}
    assert list(settings_lines({"settings": settings})) == [
        "contextRetirement: false",
        "mailboxPayloadLimitBytes: 1024",
        "place: tab",
    ]
