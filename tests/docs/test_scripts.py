"""What docs/scripts.md shows works as it stands."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from agents.filetools.registry import TOOLS
from agents.models.script import ScriptError, decode_script
from agents.submission import submit_declaration
from engine.core.spec import Kind

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scripts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _is_job(kind: str, text: str) -> bool:
    return kind == "json" and "tasks" in json.loads(text)


SCRIPTS = [(kind, text) for kind, text in BLOCKS if kind != "text" and not _is_job(kind, text)]


@pytest.mark.parametrize(
    ("kind", "text"), SCRIPTS, ids=[f"{kind}-{index}" for index, (kind, _) in enumerate(SCRIPTS)]
)
def test_every_script_on_the_page_is_valid(kind: str, text: str) -> None:
    script = decode_script(text.encode(), f"page.{kind}")
    assert script.turns


def test_the_page_has_scripts_of_both_kinds() -> None:
    assert {kind for kind, _ in SCRIPTS} == {"yaml", "json"}


def test_the_shown_error_is_what_one_gets() -> None:
    (shown,) = [text.strip() for kind, text in BLOCKS if kind == "text"]
    with pytest.raises(ScriptError) as caught:
        decode_script(b"fix: [{text: a, delayMs: soon}]", "script.yaml")
    assert str(caught.value) == shown


def test_the_job_on_the_page_uses_the_script_below_it() -> None:
    (job,) = [json.loads(text) for kind, text in BLOCKS if _is_job(kind, text)]
    model = job["config"]["models"]["default"]
    assert (model["provider"], model["id"]) == ("scripted", "script.yaml")
    assert decode_script(SCRIPTS[0][1].encode(), model["id"]).turns_of(job["tasks"][0]["id"], 1)


def test_every_tool_is_listed_with_its_arguments() -> None:
    table = PAGE.split("## Tools\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE)
    nested = {"oldText", "newText"}
    listed = {
        name: {word for word in re.findall(r"\w+", cell.split(": ")[0]) if word not in nested}
        - {"seconds", "a", "list", "of"}
        for name, cell in rows
    }
    listed["edit"] = {"path", "edits"}
    declared = {name: set(_properties(tool.parameters)) for name, tool in TOOLS.items()}
    assert listed == declared


def test_every_field_of_a_result_is_listed() -> None:
    table = PAGE.split("## A result\n", 1)[1].split("\n## ", 1)[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    fields = [_properties(submit_declaration(kind).parameters) for kind in Kind]
    assert listed == {name for each in fields for name in each}


def test_the_script_for_the_job_of_the_other_page_names_its_tasks() -> None:
    jobs = (Path(__file__).resolve().parents[2] / "docs" / "jobs.md").read_text(encoding="utf-8")
    job = json.loads(re.findall(r"^```json\n(.*?)^```$", jobs, re.MULTILINE | re.DOTALL)[0])
    turns = [decode_script(t.encode(), "page.yaml").turns for k, t in SCRIPTS if k == "yaml"]
    assert {task["id"] for task in job["tasks"]} in [set(each) for each in turns]


def _properties(schema: Mapping[str, object]) -> Mapping[str, object]:
    properties = schema["properties"]
    assert isinstance(properties, dict)
    return properties
