"""To whom the tools for managed agents are offered, and with what in their schemas."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman.tool_names import HERD_TOOL_NAMES
from engine.core.errors import UsageError
from pinata import app
from pinata.tools.herd import TOOLS, call_herd, tools_for_agents
from pinata.work.context import Context
from pinata.work.observer import Silence
from tests.support.herd_owners import Stage

IS_ALONE = True


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return app.build_context({"HOME": str(tmp_path)}, tmp_path, Silence())


def test_app_knows_the_tools_by_their_names() -> None:
    assert tuple(TOOLS) == HERD_TOOL_NAMES
    assert not {tool["name"] for tool in app.describe_tools()} & set(TOOLS)


def test_no_tool_takes_what_it_does_not_name() -> None:
    for tool in TOOLS.values():
        assert tool.describe()["parameters"]["additionalProperties"] is False


def test_those_that_only_look_say_so() -> None:
    looking = {name for name, tool in TOOLS.items() if not tool.changes_state}
    assert looking == {"agent_list", "agent_inspect", "agent_transcript"}


async def test_caller_without_a_session_is_told_who_has_them(context: Context) -> None:
    for name in TOOLS:
        with pytest.raises(UsageError, match="managed by a Pi session"):
            await call_herd(context, name, {})
        with pytest.raises(UsageError, match="unknown tool"):
            await app.call_tool(context, name, {})


def test_agent_that_delegates_is_offered_the_definitions_that_it_may_use_and_no_others(
    context: Context,
) -> None:
    tools = tools_for_agents(lambda: context, ["scout", "reviewer"])
    offered: dict[str, Any] = {tool.declaration.name: tool.declaration.parameters for tool in tools}
    assert tuple(offered) == HERD_TOOL_NAMES
    definition = offered["agent_delegate"]["properties"]["definition"]
    assert definition["enum"] == ["scout", "reviewer"]
    # Another agent is offered others.
    others = tools_for_agents(lambda: context, ["builder"])
    again: Any = next(
        tool.declaration.parameters for tool in others if tool.declaration.name == "agent_delegate"
    )
    assert again["properties"]["definition"]["enum"] == ["builder"]
    assert (
        "enum" not in TOOLS["agent_delegate"].describe()["parameters"]["properties"]["definition"]
    )


async def test_agent_reads_an_answer_and_programs_have_it_beside_the_text(
    context: Context, tmp_path: Path
) -> None:
    stage = Stage.at(tmp_path)
    await stage.add("scout")
    owning = replace(context, herd=stage.controller())
    tools = {tool.declaration.name: tool for tool in tools_for_agents(lambda: owning, ["scout"])}
    listed = await tools["agent_list"].call({}, IS_ALONE)
    assert not listed.is_error
    assert [agent["agent"] for agent in listed.details["agents"]] == ["scout"]
    refused = await tools["agent_close"].call({"agent": "Nobody!"}, IS_ALONE)
    assert refused.is_error
    assert refused.details["error"]["category"] == "invalid_request"
    assert "agent" in refused.text
