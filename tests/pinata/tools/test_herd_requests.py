"""What the herd's tools refuse before anything is looked at."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinata import app
from pinata.tools.herd import TOOLS, call_herd
from pinata.work.context import Context
from pinata.work.observer import Silence
from tests.support.herd_owners import Stage

MEANT: dict[str, dict[str, Any]] = {
    "agent_list": {},
    "agent_delegate": {"definition": "scout", "task": "Look."},
    "agent_continue": {"session": "0198c0de-0000-7000-8000-000000000001", "task": "Look."},
    "agent_steer": {"agent": "scout", "message": "Look left."},
    "agent_interrupt": {"agent": "scout", "message": "Look left."},
    "agent_reply": {"agent": "scout", "message": "Look left."},
    "agent_close": {"agent": "scout"},
    "agent_inspect": {"agent": "scout"},
    "agent_transcript": {"agent": "scout"},
}
NAMES_AN_AGENT = [name for name, fields in MEANT.items() if "agent" in fields]
TAKES_NO_FILES = ["agent_list", "agent_close", "agent_inspect", "agent_transcript"]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    stage = Stage.at(tmp_path)
    # Whoever looks at what is there is told of this.
    stage.runtime.fault = "somebody has looked"
    surroundings = app.build_context({"HOME": str(tmp_path)}, stage.folder, Silence())
    return replace(surroundings, herd=stage.controller())


async def refusal(context: Context, name: str, **fields: Any) -> str:
    """Return the words of a refusal as invalid_request, by which nothing was touched."""
    answer = await call_herd(context, name, {**MEANT[name], **fields})
    assert not answer["ok"]
    error = answer["error"]
    assert error["category"] == "invalid_request"
    assert error["operation"] == name.removeprefix("agent_")
    assert context.herd is not None
    assert not context.herd.premises.root.exists()
    return str(error["message"])


@pytest.mark.parametrize("name", TOOLS)
async def test_a_field_that_a_tool_does_not_have_is_refused_at_once(
    context: Context, name: str
) -> None:
    assert "timeoutMs" in await refusal(context, name, timeoutMs=5)


@pytest.mark.parametrize("name", TAKES_NO_FILES)
async def test_files_are_refused_where_there_is_no_message(context: Context, name: str) -> None:
    assert "files" in await refusal(context, name, files=["notes.txt"])


@pytest.mark.parametrize("name", NAMES_AN_AGENT)
async def test_an_agent_is_named_by_its_exact_label(context: Context, name: str) -> None:
    for label in ("Scout", "scout ", "scout\n", "", "result:scout#1", "s" * 33):
        assert "agent" in await refusal(context, name, agent=label)


@pytest.mark.parametrize("name", [name for name, fields in MEANT.items() if "message" in fields])
async def test_a_blank_message_and_a_file_without_a_name_are_refused(
    context: Context, name: str
) -> None:
    assert "message" in await refusal(context, name, message=" \n")
    assert "files" in await refusal(context, name, files=["notes.txt", ""])
