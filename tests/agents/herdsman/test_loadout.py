from dataclasses import replace

import pytest

from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.in_process import MANAGED_TOOLS
from agents.herdsman.loadout import offered_tools
from engine.core.spec import Kind

PLAIN = HerdDefinition("scout", "Looks.", "You look.\n", (), file="/a/scout.md")
HERD = ("ask_owner", "agent_list")
ALL = ("read", "bash", "edit", "write", "grep", "find", "ls")
READING = ("read", "grep", "find", "ls")


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        pytest.param({}, ALL, id="nothing stated"),
        pytest.param({"kind": Kind.READER}, READING, id="a reader"),
        pytest.param({"kind": Kind.REVIEWER}, READING, id="a reviewer"),
        pytest.param({"kind": Kind.WRITER}, ALL, id="a writer"),
        pytest.param({"tools": ("bash", "read", "bash")}, ("bash", "read"), id="as listed, once"),
        pytest.param({"tools": ()}, (), id="an empty list"),
        pytest.param({"no_tools": True}, (), id="no tools"),
        pytest.param({"no_builtin_tools": True}, (), id="no tools that come with the program"),
        pytest.param({"no_tools": True, "tools": ("ls",)}, ("ls",), id="none but those listed"),
        pytest.param(
            {"tools": ("agent", "ask_owner", "codemode", "ls")}, ("ls",), id="switches are no tools"
        ),
        pytest.param({"exclude_tools": ("bash", "agent")}, ALL[:1] + ALL[2:], id="but one"),
        pytest.param({"exclude_tools": ("*it*",)}, ("read", "bash", "grep", "find", "ls"), id="*"),
        pytest.param({"exclude_tools": ("ask_owner",)}, ALL, id="one of the herd's by name"),
        pytest.param(
            {"tools": ("ls", "web_search"), "exclude_tools": ("web_*",)}, ("ls",), id="unknown, out"
        ),
    ],
)
def test_an_agent_gets_what_its_definition_says(
    changes: dict[str, object], offered: tuple[str, ...]
) -> None:
    definition = replace(PLAIN, **changes)  # type: ignore[arg-type]  # a row of the table
    assert offered_tools(definition, HERD) == offered


def test_tools_that_this_process_does_not_have_are_refused_by_name() -> None:
    definition = replace(PLAIN, tools=("read", "web_search"))
    with pytest.raises(HerdError, match='definition scout lists "web_search"') as caught:
        offered_tools(definition, HERD)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    assert caught.value.trouble.next_action == (
        "leave them out of tools in /a/scout.md, or have a Pi run the agent: "
        "state backend: process there"
    )


def test_a_pattern_that_would_take_a_tool_of_the_herd_is_refused() -> None:
    definition = replace(PLAIN, exclude_tools=("a*",))
    with pytest.raises(
        HerdError, match='excludes the tools "a\\*", which takes agent_list'
    ) as caught:
        offered_tools(definition, HERD)
    assert caught.value.trouble.next_action == (
        "list tools by their names in excludeTools of /a/scout.md"
    )


def test_all_that_can_be_listed_is_there() -> None:
    assert set(MANAGED_TOOLS) == set(ALL)


def test_a_command_without_a_limit_gets_one() -> None:
    parameters = MANAGED_TOOLS["bash"].parameters
    assert "600 by default" in str(parameters)
