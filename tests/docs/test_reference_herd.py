"""The reference of the tools for managed agents is whole and true, as that of the others is."""

from collections.abc import Mapping
from typing import Any

import pytest

from agents.herdsman.asking import AskRequest
from agents.herdsman.errors import Category
from agents.herdsman.projection import AgentState
from agents.herdsman.runtime import ATTENTION, QUESTION, RESULT
from agents.herdsman.tool_names import ASK_OWNER, HERD_TOOL_NAMES
from agents.schema import describe
from pinata.tools.herd import TOOLS
from tests.support.herd_plays import tell_herd_story
from tests.support.herd_story import ANY, ANY_AGENT, FILES, HerdStory
from tests.support.reference import (
    HERD_PAGES,
    Page,
    Shapes,
    differences,
    refusal_faults,
    rule_faults,
)

COMMON = Page("herd.md")
EXTENDED = {"tools/agent_inspect.md#answer": "tools/agent_inspect.md#an-inspection"}
NAMES = (*HERD_TOOL_NAMES, ASK_OWNER)
PAGES = {name: Page(f"tools/{name}.md") for name in NAMES}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> HerdStory:
    return tell_herd_story(tmp_path_factory.mktemp("story") / "played")


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Any]:
    described = {name: tool.describe()["parameters"] for name, tool in TOOLS.items()}
    return {**described, ASK_OWNER: describe(AskRequest)}


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_the_schema(name: str, schemas: Mapping[str, Any]) -> None:
    assert list(rule_faults(PAGES[name].rows("Parameters"), schemas[name])) == []


def test_categories_states_and_messages_are_those_that_there_are() -> None:
    assert {row.name for row in COMMON.rows("Categories")} == {each.value for each in Category}
    (state,) = (row for row in PAGES["agent_list"].rows("An agent") if row.name == "state")
    assert all(f"`{each.value}`" in state.cells[0] for each in AgentState)
    assert {row.name for row in COMMON.rows("Messages")} == {RESULT, QUESTION, ATTENTION}


@pytest.mark.slow
def test_examples_are_what_the_calls_are_answered(story: HerdStory) -> None:
    faults = {}
    for name, page in PAGES.items():
        shown = story.localised(page.json("answer"))
        faults[name] = list(differences(shown, story.examples[name]))
    assert faults == {name: [] for name in PAGES}


@pytest.mark.slow
def test_answers_and_messages_have_the_fields_that_are_described_and_no_others(
    story: HerdStory,
) -> None:
    shapes = Shapes(EXTENDED)
    faults = {fault for each in story.told for fault in shapes.faults(each.shape, each.answer)}
    assert sorted(faults) == []
    assert shapes.unseen(only=HERD_PAGES) == set()


@pytest.mark.slow
def test_every_record_of_an_agent_has_what_is_always_known(story: HerdStory) -> None:
    lists = [each.answer["agents"] for each in story.told if "agent_definitions" in each.answer]
    records = [record for agents in lists for record in agents]
    known = set.intersection(*({*one} for one in records if "agent" in one))
    assert known >= {"workspace_id", "cwd", "pane_id", "pi_session_id", "pi_session_path"}
    assert known >= {"state", "available_tools", "owner_session_id", "agent_definition"}
    unreadable = [{*one} for one in records if "agent" not in one]
    assert unreadable
    assert all(one == {"state", "available_tools", "diagnostic"} for one in unreadable)


@pytest.mark.slow
def test_refusals_are_what_is_said(story: HerdStory) -> None:
    tables = {name: page.rows("Refused") for name, page in PAGES.items()}
    tables[ANY] = COMMON.rows("Refused by every tool")
    tables[ANY_AGENT] = COMMON.rows("Refused where an agent is named")
    tables[FILES] = COMMON.rows("Refused because of files")
    faults = {}
    for name, rows in tables.items():
        said = story.refused.get(name, [])
        faults[name] = list(refusal_faults(rows, [(e["category"], e["message"]) for e in said]))
    assert faults == {name: [] for name in tables}
