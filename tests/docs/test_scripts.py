"""What docs/scripts.md shows works as it stands."""

import json
import re
from pathlib import Path

import pytest

from agents.models.script import ScriptError, decode_script

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
