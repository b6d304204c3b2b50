from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.caller import Caller
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import SessionId
from agents.herdsman.policy import Effective, authorised, effective, show_roster
from agents.roster import BUNDLED, Layer, Roster, load_roster
from engine.core.spec import Backend, Thinking

LEAD = Caller(SessionId("lead"), "/project", "/project", is_lead=True)
PARENT = replace(LEAD, is_lead=False, allowed=frozenset({"scout", "planner", "resting"}))


def definition(**settings: Any) -> HerdDefinition:
    return HerdDefinition("planner", "d", "Plan.\n", (Source.USER,), **settings)


def put(folder: Path, name: str, front: str = "", text: str = "Work.") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\ndescription: {name}\n{front}\n---\n{text}\n", "utf-8")


@pytest.fixture
def roster(tmp_path: Path) -> Roster:
    put(tmp_path, "scout")
    put(tmp_path, "planner", "agents: [scout]\nmodel: some/model\nthinking: high")
    put(tmp_path, "resting", "enabled: false")
    put(tmp_path, "restless", "agents: [resting]")
    put(tmp_path, "broken", "colour: red")
    put(tmp_path, "leaning", "agents: [broken]")
    return load_roster([Layer(Source.USER, tmp_path)])


def refusal(roster: Roster, name: str, caller: Caller) -> HerdError:
    with pytest.raises(HerdError) as caught:
        authorised(roster, name, caller)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    assert caught.value.trouble.next_action
    return caught.value


@pytest.mark.parametrize(
    ("settings", "delegates"),
    [
        ({}, True),
        ({"tools": ("read",)}, True),
        ({"no_tools": True, "tools": ("agent",)}, True),
        ({"no_builtin_tools": True}, True),
        ({"exclude_tools": ("read",)}, True),
        ({"no_tools": True}, False),
        ({"no_tools": True, "tools": ("read",)}, False),
        ({"tools": ()}, False),
        ({"exclude_tools": ("agent",)}, False),
        ({"agents": None}, False),
        ({"agents": ()}, False),
    ],
)
def test_a_definition_with_agents_delegates_unless_it_opts_out(
    settings: dict[str, Any], *, delegates: bool
) -> None:
    found = effective(definition(**{"agents": ("scout",)} | settings), launched_by_lead=True)
    assert found.is_delegating == delegates
    assert found.definition.agents == (("scout",) if delegates else None)


def test_an_agent_that_an_agent_launches_is_a_leaf() -> None:
    given = definition(agents=("scout",), tools=("agent", "read"))
    assert effective(given, launched_by_lead=False) == Effective(
        definition(tools=("read",)), is_delegating=False
    )


def test_the_switch_is_no_tool_and_the_herds_own_tools_are_nobodys_to_list() -> None:
    given = definition(
        agents=("scout",),
        tools=("agent", "read", "ask_owner"),
        exclude_tools=("bash", "ask_owner", "agent_close"),
    )
    assert effective(given, launched_by_lead=True).definition == definition(
        agents=("scout",), tools=("read",), exclude_tools=("bash",)
    )


@pytest.mark.parametrize(
    ("pattern", "hit"), [("*", "agent_close"), ("ask_*", "ask_owner"), ("agent_*", "agent_close")]
)
def test_an_exclusion_that_would_take_a_tool_of_the_herd_is_refused(pattern: str, hit: str) -> None:
    given = definition(agents=("scout",), exclude_tools=(pattern,))
    with pytest.raises(HerdError, match=hit):
        effective(given, launched_by_lead=True)


def test_a_leaf_may_exclude_what_only_a_controller_has() -> None:
    given = definition(agents=("scout",), exclude_tools=("agent_*",))
    found = effective(given, launched_by_lead=False)
    assert found.definition.exclude_tools == ("agent_*",)


def test_a_lead_may_use_whatever_is_enabled(roster: Roster) -> None:
    found = authorised(roster, "planner", LEAD)
    assert found == Effective(roster.herd["planner"], is_delegating=True)


def test_an_agent_uses_only_what_it_is_allowed_to(roster: Roster) -> None:
    assert "may use" in str(refusal(roster, "leaning", PARENT))
    assert not authorised(roster, "planner", PARENT).is_delegating


def test_an_agent_that_is_allowed_nothing_uses_nothing(roster: Roster) -> None:
    caller = replace(PARENT, allowed=frozenset())
    assert refusal(roster, "scout", caller).trouble.next_action == "use none"


def test_a_faulty_definition_is_to_be_corrected_in_the_file_that_is_named(
    roster: Roster, tmp_path: Path
) -> None:
    action = refusal(roster, "broken", LEAD).trouble.next_action
    assert action.startswith(
        f'correct {tmp_path}/broken.md: front matter: unknown field "colour"; the fields are name,'
    )
    assert refusal(roster, "leaning", LEAD).trouble.next_action == (
        f'correct {tmp_path}/leaning.md: agents: "broken" is not available; correct or remove it'
    )


def test_a_fault_is_to_be_corrected_in_the_layer_that_made_it(tmp_path: Path) -> None:
    put(tmp_path / "project", "scout")
    put(tmp_path / "user", "scout", "tools: 5")
    layers = [Layer(Source.PROJECT, tmp_path / "project"), Layer(Source.USER, tmp_path / "user")]
    action = refusal(load_roster(layers), "scout", LEAD).trouble.next_action
    assert action.startswith(f"correct {tmp_path}/user/scout.md: front matter: tools: 5 is not")


def test_a_definition_that_is_not_there_is_refused_with_those_that_are(roster: Roster) -> None:
    action = refusal(roster, "nobody", LEAD).trouble.next_action
    assert action == "the definitions are planner, restless and scout"
    assert (
        refusal(load_roster([]), "nobody", LEAD).trouble.next_action == "the definitions are none"
    )


def test_a_disabled_definition_is_refused_and_told_how_to_enable_it(
    roster: Roster, tmp_path: Path
) -> None:
    error = refusal(roster, "resting", LEAD)
    assert "disabled" in str(error)
    assert error.trouble.next_action == (
        f"set enabled: true in {tmp_path}/resting.md, or use another definition"
    )


def test_a_definition_that_delegates_to_a_disabled_one_is_there_but_not_launched(
    roster: Roster, tmp_path: Path
) -> None:
    assert "restless" in roster.herd
    error = refusal(roster, "restless", LEAD)
    assert '"resting", which is disabled' in str(error)
    assert error.trouble.next_action == (
        f"set enabled: true in {tmp_path}/resting.md, or take resting out of agents in "
        f"{tmp_path}/restless.md"
    )
    # Launched by an agent it delegates to nobody, so that nothing is missing.
    caller = replace(PARENT, allowed=frozenset({"restless"}))
    assert not authorised(roster, "restless", caller).is_delegating


def test_a_faulty_definition_is_refused_with_its_fault_and_spoils_no_other(roster: Roster) -> None:
    assert "colour" in str(refusal(roster, "broken", LEAD))
    assert '"broken" is not available' in str(refusal(roster, "leaning", LEAD))
    assert "is not there" in str(refusal(roster, "nobody", LEAD))
    assert authorised(roster, "scout", LEAD).definition.name == "scout"


def test_a_lead_is_told_of_every_definition_with_what_is_wrong_with_it(roster: Roster) -> None:
    shown = {entry["name"]: entry for entry in show_roster(roster, LEAD)}
    assert list(shown) == ["broken", "leaning", "planner", "resting", "restless", "scout"]
    assert shown["scout"] == {"name": "scout", "description": "scout", "sources": ["user"]}
    assert shown["resting"]["enabled"] is False
    assert "colour" in shown["broken"]["unavailable"]
    assert "description" not in shown["broken"]
    assert shown["leaning"]["description"] == "leaning"
    assert shown["planner"] == {
        "name": "planner",
        "description": "planner",
        "sources": ["user"],
        "model": "some/model",
        "thinking": "high",
        "agents": ["scout"],
    }


def test_a_delegating_agent_is_told_of_the_enabled_ones_that_it_may_use_as_leaves(
    roster: Roster,
) -> None:
    shown = show_roster(roster, PARENT)
    assert [entry["name"] for entry in shown] == ["planner", "scout"]
    assert "agents" not in shown[0]
    assert show_roster(roster, replace(PARENT, allowed=frozenset())) == []


def test_settings_are_told_as_they_are_stated() -> None:
    stated = definition(
        backend=Backend.PROCESS,
        codemode=False,
        thinking=Thinking.OFF,
        tools=(),
        exclude_tools=("bash",),
        no_extensions=True,
        skills=("/skills/one",),
    )
    roster = Roster({}, herd={"planner": stated})
    assert show_roster(roster, LEAD) == [
        {
            "name": "planner",
            "description": "d",
            "sources": ["user"],
            "thinking": "off",
            "backend": "process",
            "codemode": False,
            "tools": [],
            "exclude_tools": ["bash"],
            "skills": ["/skills/one"],
            "no_extensions": True,
        }
    ]


def test_every_bundled_definition_can_be_launched_by_a_lead() -> None:
    roster = load_roster([BUNDLED])
    launched = [authorised(roster, name, LEAD).definition.name for name in roster.herd]
    assert launched == ["builder", "generalist", "implementer", "reviewer", "scout"]
