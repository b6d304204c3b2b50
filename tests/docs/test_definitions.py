"""The pages about definitions and configuration say what is so."""

import json
import re
from pathlib import Path

import pytest

from agents.definition import Source
from agents.definition_file import FrontMatter
from agents.loadout import CEILINGS, DEFAULT_TOOLS
from agents.roster import BUNDLED, Layer, load_roster
from engine.config import decode_config_file
from engine.core.spec import Kind, Thinking
from engine.records.config import merge_config
from pinata.faces.arguments import parse
from pinata.work.trust import judge_project
from tests.support.reader import HOME, Shell, blocks, page, prose, section

DEFINITIONS = page("definitions.md")
CONFIGURATION = page("configuration.md")
HISTORIAN, BUILDER = blocks(DEFINITIONS, "markdown")


def test_example_of_a_definition_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "historian.md").write_text(HISTORIAN.text)
    historian = load_roster([Layer(Source.USER, tmp_path)]).definitions["historian"]
    assert (historian.kind, historian.thinking) == (Kind.READER, Thinking.HIGH)
    assert historian.tools == ("read", "grep", "find")


def test_example_of_an_overlay_adds_to_what_is_bundled(tmp_path: Path) -> None:
    (tmp_path / "builder.md").write_text(BUILDER.text)
    bundled = load_roster().definitions["builder"]
    overlaid = load_roster([BUNDLED, Layer(Source.PROJECT, tmp_path)]).definitions["builder"]
    assert overlaid.persona.startswith(bundled.persona.rstrip())
    assert "make lint" in overlaid.persona
    assert (overlaid.kind, overlaid.tools) == (bundled.kind, bundled.tools)


@pytest.mark.slow
@pytest.mark.unmeasured
def test_commands_about_definitions_show_what_the_page_shows(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home")
    shell.follow("```sh\ngit init --quiet till && cd till\n```\n")
    shell.follow(DEFINITIONS)
    assert (shell.cwd / ".pi" / "agents" / "builder.md").is_file()


def test_commands_that_trust_a_project_exist() -> None:
    named = re.findall(r"`pinata ([^`]*--trust-project)`", prose(CONFIGURATION))
    assert [parse(words.split()).command for words in named] == ["run", "agents"]


def test_every_setting_of_a_definition_is_described() -> None:
    table = section(DEFINITIONS, "Settings")
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [^|]*\|$", table, re.MULTILINE)
    described = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert described == {field.alias for field in FrontMatter.model_fields.values()}


def test_tools_of_each_kind_are_those_that_are_described() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|`]*\| ([^|]*) \| ([^|]*) \|$", DEFINITIONS, re.MULTILINE)
    told = {kind: (usual, more) for kind, usual, more in rows if kind in {k.value for k in Kind}}
    assert set(told) == {kind.value for kind in Kind}
    for kind in Kind:
        usual, more = (re.findall(r"`(\w+)`", cell) for cell in told[kind.value])
        assert tuple(usual) == DEFAULT_TOOLS[kind]
        if kind is not Kind.REVIEWER:
            assert {*usual, *more} == CEILINGS[kind]
    assert CEILINGS[Kind.REVIEWER] == CEILINGS[Kind.READER]


def test_files_of_the_example_come_together_as_described() -> None:
    files = [one for one in blocks(CONFIGURATION, "json") if one.file is None]
    layers = [decode_config_file(one.text.encode(), "x") for one in files]
    config = merge_config(layers)
    assert len(layers) == 2
    assert (config.limits.concurrency, config.limits.cost_usd) == (8, 5)
    assert {name: model.provider for name, model in config.models.items()} == {
        "default": "anthropic",
        "reviewer": "openai",
    }
    assert config.pass_env == ("DATABASE_URL",)


@pytest.mark.parametrize(("folder", "trusted"), [("till", True), ("bakery", False)])
def test_example_of_trust_trusts_what_the_page_says(
    folder: str, *, trusted: bool, tmp_path: Path
) -> None:
    (example,) = [one for one in blocks(CONFIGURATION, "json") if one.file is not None]
    home = tmp_path.resolve()
    (home / folder).mkdir()
    (home / example.words[0]).write_text(example.text.replace(HOME, str(home)))
    assert judge_project(home / folder, home, stated=None).is_trusted is trusted


def test_keys_that_are_called_retired_are() -> None:
    (told,) = re.findall(r"no longer mean anything \(([^)]*)\)", prose(CONFIGURATION))
    keys = re.findall(r"`([\w.]+)`", told)
    data = {key: 1 for key in keys if "." not in key} | {"limits": {"startupMs": 1}}
    assert len(decode_config_file(json.dumps(data).encode(), "x").notices) == len(keys) == 5
