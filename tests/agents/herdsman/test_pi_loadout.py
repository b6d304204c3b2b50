"""What a definition says to the Pi that is its managed agent."""

from dataclasses import replace
from typing import Any

import pytest

from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.pi_loadout import loadout_options

PLAIN = HerdDefinition("scout", "Looks around.", "You look around.\n", (), file="/a/scout.md")
MANDATORY = ("ask_owner", "agent_list")
USUAL = ("--no-skills", "--no-extensions", "--no-context-files")


def words(**stated: Any) -> tuple[str, ...]:
    """Return the words for a definition that states this, without the usual ones at their head."""
    said = loadout_options(replace(PLAIN, **stated), MANDATORY, "/home/robin")
    return said[len(USUAL) :] if said[: len(USUAL)] == USUAL else said


def test_an_agent_whose_definition_says_nothing_has_what_pi_gives_and_what_the_herd_gives() -> None:
    assert words() == ()


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"tools": ("read", "agent")}, ("--tools", "read,ask_owner,agent_list")),
        ({"tools": ("read", "ask_owner")}, ("--tools", "read,ask_owner,agent_list")),
        ({"tools": ()}, ("--tools", "ask_owner,agent_list")),
        ({"no_tools": True}, ("--tools", "ask_owner,agent_list")),
        ({"no_tools": True, "tools": ("agent",)}, ("--tools", "ask_owner,agent_list")),
        ({"no_builtin_tools": True}, ("--no-builtin-tools",)),
        ({"no_builtin_tools": True, "tools": ("read",)}, ("--tools", "read,ask_owner,agent_list")),
        ({"exclude_tools": ("write", "e*")}, ("--exclude-tools", "write,e*")),
        ({"exclude_tools": ("ask_owner", "agent")}, ()),
        ({"codemode": True}, ("-e", "builtin:codemode", "--tools", "+codemode")),
        (
            {"codemode": True, "tools": ("read",)},
            ("-e", "builtin:codemode", "--tools", "read,ask_owner,agent_list,codemode"),
        ),
        (
            {"codemode": True, "no_tools": True},
            ("-e", "builtin:codemode", "--tools", "ask_owner,agent_list"),
        ),
    ],
    ids=str,
)
def test_tools_are_as_stated_and_those_of_the_herd_stay(
    stated: dict[str, Any], said: tuple[str, ...]
) -> None:
    found = loadout_options(replace(PLAIN, **stated), MANDATORY, None)
    assert tuple(word for word in found if word not in USUAL) == said


def test_without_any_tool_of_the_herd_no_tools_are_none() -> None:
    assert loadout_options(replace(PLAIN, no_tools=True), (), None)[-1] == "--no-tools"


@pytest.mark.parametrize("pattern", ["*", "ask_*", "agent_*", "[a]gent_list"])
def test_a_pattern_that_would_take_a_tool_of_the_herd_is_refused(pattern: str) -> None:
    with pytest.raises(HerdError, match="excludes the tools") as caught:
        words(exclude_tools=("bash", pattern))
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    assert caught.value.trouble.next_action


def test_skills_extensions_and_instructions_are_as_stated() -> None:
    assert words(
        skills=("~/skill", "/s"),
        inherit_skills=True,
        extensions=("builtin:mcp",),
        inherit_project_context=True,
    ) == (
        *("--skill", "/home/robin/skill", "--skill", "/s"),
        *("--no-extensions", "-e", "builtin:mcp"),
    )
    assert words(skills=("/s",), no_skills=True, inherit_skills=True) == ()
    assert words(extensions=("/e",), no_extensions=True) == ()


@pytest.mark.parametrize("stated", [{"skills": ("s",)}, {"extensions": ("../e",)}])
def test_a_path_from_where_the_agent_works_is_refused(stated: dict[str, Any]) -> None:
    with pytest.raises(HerdError, match="must be an absolute path") as caught:
        words(**stated)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    assert caught.value.trouble.next_action == f"correct {next(iter(stated))} in /a/scout.md"
