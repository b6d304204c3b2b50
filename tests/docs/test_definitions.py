"""The pages about definitions and configuration say what is so."""

import json
import re
from pathlib import Path

from agents.definition import Source
from agents.definition_file import FrontMatter
from agents.loadout import CEILINGS, DEFAULT_TOOLS
from agents.roster import Layer, load_roster
from engine.config import decode_config_file
from engine.core.spec import Kind, Thinking
from engine.records.config import merge_config
from pinata.faces.arguments import parse

DOCS = Path(__file__).resolve().parents[2] / "docs"
DEFINITIONS = (DOCS / "definitions.md").read_text()
CONFIGURATION = (DOCS / "configuration.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_example_of_a_definition_can_be_used(tmp_path: Path) -> None:
    (text,) = blocks(DEFINITIONS, "markdown")
    (tmp_path / "historian.md").write_text(text)
    historian = load_roster([Layer(Source.USER, tmp_path)]).definitions["historian"]
    assert (historian.kind, historian.thinking) == (Kind.READER, Thinking.HIGH)
    assert historian.tools == ("read", "grep", "find")


def test_commands_about_definitions_exist() -> None:
    (console,) = blocks(DEFINITIONS, "console")
    lines = [line.removeprefix("$ pinata ").split() for line in console.splitlines()]
    assert [parse(words).name for words in lines] == [None, "historian"]
    named = re.findall(r"`pinata ([^`]*--trust-project)`", CONFIGURATION)
    assert [parse(words.split()).command for words in named] == ["run", "agents"]


def test_every_setting_of_a_definition_is_described() -> None:
    section = DEFINITIONS.split("## Settings\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [^|]*\|$", section, re.MULTILINE)
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
    layers = [decode_config_file(text.encode(), "x") for text in blocks(CONFIGURATION, "json")]
    config = merge_config(layers)
    assert len(layers) == 2
    assert (config.limits.concurrency, config.limits.cost_usd) == (8, 5)
    assert {name: model.provider for name, model in config.models.items()} == {
        "default": "anthropic",
        "reviewer": "openai",
    }
    assert config.pass_env == ("DATABASE_URL",)


def test_keys_that_are_called_retired_are() -> None:
    (told,) = re.findall(r"no longer mean anything \(([^)]*)\)", CONFIGURATION)
    keys = re.findall(r"`([\w.]+)`", told)
    data = {key: 1 for key in keys if "." not in key} | {"limits": {"startupMs": 1}}
    assert len(decode_config_file(json.dumps(data).encode(), "x").notices) == len(keys) == 5
