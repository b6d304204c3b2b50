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
}
TORN: dict[str, Any] = {
    "name": "torn",
    "kind": None,
    "description": None,
    "source": "project",
    "digest": None,
    "available": False,
    "reason": "torn.md: must begin with \x1b[2J",
}


def test_agents_stand_in_columns_and_prose_is_wrapped_in_its_own() -> None:
    lines = list(roster_lines({"agents": [SCOUT, TORN], "notices": ["look\nout"]}, 60))
    assert lines == [
        "scout  reader  preset   Reads code and answers one question",
        "                        with evidence from it.",
        "torn   ?       project  not available: torn.md: must begin",
        "                        with \\x1b[2J",
        "notice: look out",
    ]


def test_prose_stands_below_when_there_is_no_room_beside() -> None:
    lines = list(roster_lines({"agents": [SCOUT]}, 40))
    assert lines == [
        "scout  reader  preset",
        "    Reads code and answers one question",
        "    with evidence from it.",
    ]


def test_no_agents_is_no_table() -> None:
    assert list(roster_lines({"agents": []})) == []


def test_one_agent_is_shown_with_the_defaults_that_it_sets() -> None:
    whole = SCOUT | {
        "tools": ["read", "ls"],
        "workspace": "live checkout",
        "defaults": {"model": "a/b", "thinking": None, "backend": None, "codemode": False},
        "persona": "# Scout\n\nLook.\x07\n",
    }
    assert list(agent_lines(whole)) == [
        "scout (reader, preset)",
        "  Reads code and answers one question with evidence from it.",
        "  works in: live checkout",
        "  tools: read, ls",
        "  model: a/b",
        "  codemode: false",
        "  digest: ab12",
        "",
        "# Scout",
        "",
        "Look.\\x07",
    ]


def test_one_agent_that_cannot_be_used_says_why() -> None:
    assert list(agent_lines(TORN | {"notices": ["n"]})) == [
        "torn (kind unknown, project)",
        "  not available: torn.md: must begin with \\x1b[2J",
        "notice: n",
    ]
