import re
from dataclasses import replace
from pathlib import Path

import pytest

from agents.definition import Source
from agents.prompt import system_prompt
from agents.roster import Layer, load_roster
from agents.scripting import ScriptLanguage

DEFINITIONS = load_roster().definitions
SCOUT = DEFINITIONS["scout"]


def test_siblings_share_their_prompt_to_the_byte() -> None:
    again = load_roster().definitions["scout"]
    assert system_prompt(SCOUT, list(SCOUT.tools), scripts=None) == system_prompt(
        again, again.tools, scripts=None
    )


def test_tools_are_listed_in_their_order_with_the_one_that_ends_it() -> None:
    prompt = system_prompt(SCOUT, ("ls", "read"), scripts=None)
    assert "## Your tools\n\n- `ls`\n- `read`\n- `submit_result`\n" in prompt


def test_only_definition_tools_and_codemode_decide_it() -> None:
    elsewhere = replace(SCOUT, source=Source.USER)
    base = system_prompt(SCOUT, SCOUT.tools, scripts=None)
    assert system_prompt(elsewhere, SCOUT.tools, scripts=None) == base
    others = {
        system_prompt(SCOUT, SCOUT.tools[::-1], scripts=None),
        *(system_prompt(SCOUT, SCOUT.tools, scripts=language) for language in ScriptLanguage),
        system_prompt(DEFINITIONS["reviewer"], SCOUT.tools, scripts=None),
        system_prompt(replace(SCOUT, persona="Other.\n"), SCOUT.tools, scripts=None),
        base,
    }
    assert len(others) == 6


@pytest.mark.parametrize("name", ["builder", "reviewer", "scout"])
def test_persona_comes_first_and_nothing_of_a_task_is_in_it(name: str) -> None:
    definition = DEFINITIONS[name]
    prompt = system_prompt(definition, definition.tools, scripts=None)
    assert prompt.startswith(definition.persona)
    assert prompt.endswith("\n")
    assert not re.search(r"(?<![\w.])/(?:\w+/)+", prompt), "an absolute path"
    assert "codemode" not in prompt


def test_each_kind_learns_what_changed_files_mean_for_it() -> None:
    prompts = {
        name: system_prompt(each, each.tools, scripts=None) for name, each in DEFINITIONS.items()
    }
    assert "lists every path that differs" in prompts["builder"]
    assert "`changedFiles` is empty" in prompts["scout"]
    assert "`approve` does not go with critical" in prompts["reviewer"]


def test_codemode_is_explained_when_it_is_there() -> None:
    prompt = system_prompt(SCOUT, ("read", "ls"), scripts=ScriptLanguage.PYTHON)
    assert "- `read`\n- `ls`\n- `codemode`\n- `submit_result`\n" in prompt
    assert "a script in Python" in prompt
    assert 'text = read(path="README.md")\n' in prompt
    assert '\nls(path="docs")\n```\n' in prompt


@pytest.mark.parametrize("name", ["builder", "reviewer", "scout"])
def test_the_example_script_calls_only_tools_of_the_agent(name: str) -> None:
    definition = DEFINITIONS[name]
    prompt = system_prompt(definition, definition.tools, scripts=ScriptLanguage.PYTHON)
    (script,) = re.findall(r"```python\n(.*?)```", prompt, re.DOTALL)
    compile(script, "example", "exec")
    called = set(re.findall(r"\b(\w+)\(\w+=", script))
    assert called <= set(definition.tools)
    assert called == set(definition.tools[:2])


@pytest.mark.parametrize("name", ["builder", "reviewer", "scout"])
def test_an_agent_in_pi_is_taught_its_scripts_in_javascript(name: str) -> None:
    definition = DEFINITIONS[name]
    prompt = system_prompt(definition, definition.tools, scripts=ScriptLanguage.JAVASCRIPT)
    assert "Python" not in prompt
    (script,) = re.findall(r"```js\n(.*?)```", prompt, re.DOTALL)
    assert tuple(re.findall(r"await tools\.(\w+)\(\{ \w+:", script)) == definition.tools[:2]
    assert prompt.count("\n```") == 2


def test_an_agent_whose_tools_make_no_example_is_told_of_scripts_all_the_same() -> None:
    prompt = system_prompt(SCOUT, ("web_search",), scripts=ScriptLanguage.PYTHON)
    assert "## Scripts" in prompt
    assert "```" not in prompt


def test_tasks_of_one_custom_agent_share_its_prompt(tmp_path: Path) -> None:
    text = "---\ndescription: d\nkind: reader\ntools: [grep, read]\n---\nDig.\n"
    (tmp_path / "digger.md").write_text(text)
    prompts = set()
    for _ in range(2):
        digger = load_roster([Layer(Source.USER, tmp_path)]).definitions["digger"]
        prompts.add(system_prompt(digger, digger.tools, scripts=None))
    (prompt,) = prompts
    assert prompt.startswith("Dig.\n")
    assert "- `grep`\n- `read`\n- `submit_result`\n" in prompt
