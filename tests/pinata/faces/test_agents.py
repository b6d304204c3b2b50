"""The table of agents is readable at any width and safe on any terminal."""

from typing import Any

import pytest

from pinata.faces.agents import agent_lines, roster_lines

pytestmark = pytest.mark.smoke

SCOUT: dict[str, Any] = {
    "name": "scout",
    "kind": "reader",
    "description": "Reads code and answers one question with evidence from it.",
    "source": "preset",
    "digest": "ab12",
    "available": True,
    "managed": True,
}
MINDER: dict[str, Any] = {
    "name": "minder",
    "kind": None,
    "description": "Minds it.",
    "source": "user",
    "digest": None,
    "available": False,
    "reason": "has no kind",
    "file": "/home/minder.md",
    "managed": True,
}
ODD: dict[str, Any] = SCOUT | {
    "name": "odd",
    "managed": False,
    "managedReason": "excludes the tools",
}
TORN: dict[str, Any] = {
    "name": "torn",
    "kind": None,
    "description": None,
    "source": "project",
    "digest": None,
    "available": False,
    "reason": "torn.md: must begin with \x1b[2J",
    "file": "/home/to\x07rn.md",
    "managed": False,
}
WHOLE: dict[str, Any] = {
    "file": "/pinata/scout.md",
    "tools": ["read", "ls"],
    "workspace": "live checkout",
    "defaults": {"model": "a/b", "thinking": None, "backend": None, "codemode": False},
    "delegatesTo": [],
    "settings": {},
    "persona": "# Scout\n\nLook.\x07\n",
}


def test_agents_stand_in_columns_under_what_they_are_for() -> None:
    answer = {"agents": [MINDER, ODD, SCOUT, TORN], "notices": ["look\nout"]}
    assert list(roster_lines(answer, 64)) == [
        "for runs and managed agents:",
        "  scout   reader  preset   Reads code and answers one question",
        "                           with evidence from it.",
        "for runs only:",
        "  odd     reader  preset   Reads code and answers one question",
        "                           with evidence from it.",
        "for managed agents only:",
        "  minder  -       user     Minds it.",
        "not available:",
        "  torn    -       project  torn.md: must begin with \\x1b[2J",
        "notice: look out",
    ]


def test_prose_stands_below_when_there_is_no_room_beside() -> None:
    lines = list(roster_lines({"agents": [SCOUT]}, 40))
    assert lines == [
        "for runs and managed agents:",
        "  scout  reader  preset",
        "      Reads code and answers one",
        "      question with evidence from it.",
    ]


def test_no_agents_is_no_table() -> None:
    assert list(roster_lines({"agents": []})) == []


def test_one_agent_is_shown_with_the_defaults_that_it_sets() -> None:
    assert list(agent_lines(SCOUT | WHOLE)) == [
        "scout (reader, preset)",
        "  Reads code and answers one question with evidence from it.",
        "  for runs and managed agents",
        "  works in: live checkout",
        "  tools: read, ls",
        "  model: a/b",
        "  codemode: false",
        "  digest: ab12",
        "  file: /pinata/scout.md",
        "",
        "# Scout",
        "",
        "Look.\\x07",
    ]


def test_managed_one_is_shown_with_all_that_it_states() -> None:
    stated = {
        "tools": None,
        "delegatesTo": ["scout", "implementer"],
        "settings": {"excludeTools": ["b\x07"], "noSkills": True, "systemPromptMode": "append"},
        "persona": "Mind.\n",
    }
    assert list(agent_lines(MINDER | WHOLE | stated)) == [
        "minder (no kind, user)",
        "  Minds it.",
        "  for managed agents only",
        "  works in: live checkout",
        "  tools: all that its process has",
        "  model: a/b",
        "  codemode: false",
        "  delegates to: scout, implementer",
        '  excludeTools: ["b\\u0007"]',
        "  noSkills: true",
        "  systemPromptMode: append",
        "  file: /pinata/scout.md",
        "",
        "Mind.",
    ]


def test_one_for_runs_only_says_why_managed_agents_are_not_started_from_it() -> None:
    lines = list(agent_lines(ODD | WHOLE | {"tools": []}))
    assert lines[2:4] == ["  for runs only", "    excludes the tools"]
    assert "  tools: none" in lines


def test_one_agent_that_cannot_be_used_says_why_and_where() -> None:
    assert list(agent_lines(TORN | {"notices": ["n"]})) == [
        "torn (no kind, project)",
        "  not available",
        "    torn.md: must begin with \\x1b[2J",
        "  file: /home/to\\x07rn.md",
        "notice: n",
    ]
