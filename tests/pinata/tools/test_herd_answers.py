"""What the herd's tools answer, and how a model reads it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.overflow import MODEL_LIMIT_BYTES
from agents.roster import Roster
from pinata import app
from pinata.tools.herd import call_herd, text_of
from pinata.work.context import Context
from pinata.work.observer import Silence
from tests.support.herd_owners import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.at(tmp_path)


def context_of(stage: Stage) -> Context:
    surroundings = app.build_context({"HOME": str(stage.folder)}, stage.folder, Silence())
    return replace(surroundings, herd=stage.controller())


async def test_a_list_that_a_model_can_take_is_read_whole(stage: Stage) -> None:
    await stage.add("scout")
    answer = await call_herd(context_of(stage), "agent_list", {})
    assert [each["agent"] for each in answer["agents"]] == ["scout"]
    assert set(answer) == {"ok", "agents", "agent_definitions"}
    assert json.loads(text_of("agent_list", answer)) == answer


async def test_a_list_that_is_too_long_for_a_model_is_cut_and_kept_whole(stage: Stage) -> None:
    described = HerdDefinition("scout", "d" * MODEL_LIMIT_BYTES, "Scout.\n", (Source.USER,))
    stage.roster = Roster({}, herd={"scout": described})
    answer = await call_herd(context_of(stage), "agent_list", {})
    text = text_of("agent_list", answer)
    [file] = stage.premises.overflow.iterdir()
    assert (answer["truncated"], answer["full_output_path"]) == (True, str(file))
    assert len(text.encode()) <= MODEL_LIMIT_BYTES
    assert text.endswith(f"all of it is in {file}]")
    whole = json.loads(file.read_text("utf-8"))
    assert whole["agent_definitions"] == answer["agent_definitions"]


async def test_an_inspection_and_a_transcript_are_read_as_text(stage: Stage) -> None:
    scout = await stage.add("scout")
    header = {"type": "session", "version": 3, "id": scout.session, "cwd": scout.cwd}
    said = {"type": "message", "id": "1", "message": {"role": "user", "content": "Look."}}
    stage.session_file("scout").write_text(f"{json.dumps(header)}\n{json.dumps(said)}\n", "utf-8")
    stage.runtime.output = ("a line",)
    read = await call_herd(context_of(stage), "agent_transcript", {"agent": "scout"})
    assert text_of("agent_transcript", read) == "User:\nLook."
    shown = await call_herd(context_of(stage), "agent_inspect", {"agent": "scout"})
    assert text_of("agent_inspect", shown).endswith("Recent output:\na line")


async def test_what_fails_is_an_answer_with_its_operation(stage: Stage) -> None:
    answer = await call_herd(context_of(stage), "agent_inspect", {"agent": "nobody"})
    assert answer["ok"] is False
    assert answer["error"]["category"] == "target_not_found"
    assert answer["error"]["operation"] == "inspect"
    assert json.loads(text_of("agent_inspect", answer)) == answer
