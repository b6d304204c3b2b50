"""What docs/scripts.md shows works as it stands."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from agents.definition import Source
from agents.filetools.registry import TOOLS
from agents.models.script import ScriptError, decode_script
from agents.roster import BUNDLED, Layer, load_roster
from agents.submission import submit_declaration
from engine.core.spec import Backend, Kind
from tests.support.reader import ROOT, Shell, blocks, page, prose, section

PAGE = page("scripts.md")
CI = section(PAGE, "Scripts for your own CI")
BLOCKS = [(one.language, one.text) for one in blocks(PAGE.replace(CI, ""))]


def _is_job(kind: str, text: str) -> bool:
    return kind == "json" and "tasks" in json.loads(text)


_OTHERS = ("text", "markdown")
SCRIPTS = [(kind, text) for kind, text in BLOCKS if kind not in _OTHERS and not _is_job(kind, text)]
# The one that the page shows for a job elsewhere, and that its own job for CI uses too.
WHOLE = next(text for kind, text in SCRIPTS if kind == "yaml" and "review-fix" in text)


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


def test_the_definition_of_an_agent_that_follows_a_script_can_be_used(tmp_path: Path) -> None:
    (text,) = [text for kind, text in BLOCKS if kind == "markdown"]
    (tmp_path / "player.md").write_text(text)
    player = load_roster((BUNDLED, Layer(Source.USER, tmp_path))).herd["player"]
    assert (player.model, player.backend) == (("scripted", "play.yaml"), Backend.IN_PROCESS)


def test_every_tool_is_listed_with_its_arguments() -> None:
    table = section(PAGE, "Tools")
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
    table = section(PAGE, "A result")
    listed = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    fields = [_properties(submit_declaration(kind).parameters) for kind in Kind]
    assert listed == {name for each in fields for name in each}


def test_the_script_for_the_job_of_the_other_page_names_its_tasks() -> None:
    job = json.loads(blocks(page("jobs.md"), "json")[0].text)
    script = decode_script(WHOLE.encode(), "page.yaml")
    assert [task["id"] for task in job["tasks"]] == list(script.tasks)


@pytest.mark.slow
@pytest.mark.unmeasured
def test_smoke_test_of_a_job_goes_as_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home")
    shutil.copytree(ROOT / "fixtures" / "demo" / "project", shell.home / "till")
    who = "-c user.name=Robin -c user.email=robin@example.com"
    commands = f"cd till\ngit init --quiet\ngit add .\ngit {who} commit --quiet -m till\n"
    shell.follow(f"```sh\n{commands}```\n")
    shell.save("ci/fix.yaml", WHOLE)
    shell.follow(CI)
    notice = decode_script(WHOLE.replace("fix:", "fixx:", 1).encode(), "ci/fix.yaml")
    assert f"script ci/fix.yaml: no task is called {notice.tasks[0]}" in prose(CI)


def _properties(schema: Mapping[str, object]) -> Mapping[str, object]:
    properties = schema["properties"]
    assert isinstance(properties, dict)
    return properties
