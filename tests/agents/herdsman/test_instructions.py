import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.definition import Source
from agents.herdsman.caller import Caller
from agents.herdsman.identity import SessionId
from agents.herdsman.instructions import instructions
from agents.herdsman.policy import show_roster
from agents.herdsman.reads import list_agents
from agents.roster import BUNDLED, Layer, Roster, load_roster
from tests.support.herd_desks import open_desk
from tests.support.herd_records import session

LEAD = Caller(SessionId("lead"), "/project", "/project", is_lead=True)


@pytest.fixture
def roster(tmp_path: Path) -> Roster:
    (tmp_path / "broken.md").write_text("---\ncolour: red\n---\nx\n", "utf-8")
    (tmp_path / "resting.md").write_text("---\ndescription: dé\nenabled: false\n---\nx\n", "utf-8")
    return load_roster([BUNDLED, Layer(Source.USER, tmp_path)])


def told_roster(text: str) -> object:
    return json.loads(text.partition("```json\n")[2].partition("```")[0])


def test_a_session_begins_with_exactly_the_definitions_that_agent_list_shows(
    roster: Roster,
) -> None:
    parent = replace(LEAD, is_lead=False, allowed=frozenset({"scout", "resting"}))
    for caller in (LEAD, parent):
        shown = show_roster(roster, caller)
        assert shown
        assert told_roster(instructions(roster, caller)) == shown


@pytest.mark.parametrize(
    "said",
    [
        "To delegate is to hand the work over",
        "polling, sleeping",
        "do not do the same work",
        "`available_tools`",
        "`files` is the only way",
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
        "SKILL.md",
        "lost, stale or unknown has not finished",
        "as they were when this session began. agent_list shows",
    ],
)
def test_a_session_is_told_how_to_work_with_agents(roster: Roster, said: str) -> None:
    assert said in " ".join(instructions(roster, LEAD).split()).replace("\n", " ")


def test_a_session_without_definitions_is_told_so() -> None:
    assert "no definitions" in instructions(Roster({}), LEAD)


async def test_what_a_session_begins_with_is_what_its_first_list_answers(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        desk.define("planner", "agents: [scout]\nmodel: some/model")
        desk.define("broken", "colour: red")
        for controller in (
            desk.controller(),
            desk.controller(session("parent"), is_lead=False, allowed=frozenset({"scout"})),
        ):
            listed = (await list_agents(controller))["agent_definitions"]
            told = instructions(await controller.roster(), controller.caller)
            assert told_roster(told) == listed
