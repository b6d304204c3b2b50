"""What the doctor says about models."""

import json
from pathlib import Path

import pytest

from agents.pi_program import COORDINATOR
from pinata import app
from pinata.faces.doctor import examine
from pinata.work.observer import Silence
from tests.support.real_pi import fake_pi

KEY = "sk-planted-0123456789"


async def lines_on_models(folder: Path, **environment: str) -> list[tuple[bool, str]]:
    """Return what is said of models to somebody whose files are in `folder`."""
    given = {"PI_CODING_AGENT_DIR": str(folder), "HOME": str(folder), **environment}
    answer = await examine(app.build_context(given, folder, Silence()))
    assert KEY not in json.dumps(answer)
    return [(each["ok"], each["says"]) for each in answer["findings"] if each["what"] == "models"]


async def test_it_says_who_has_a_key_and_from_where(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text(json.dumps({"groq": {"type": "api_key", "key": KEY}}))
    assert await lines_on_models(tmp_path, OPENAI_API_KEY=KEY) == [
        (True, "openai: key from $OPENAI_API_KEY"),
        (True, "groq: key from auth.json"),
    ]


async def test_it_says_that_nobody_has_a_key(tmp_path: Path) -> None:
    (found,) = await lines_on_models(tmp_path)
    assert found[0]
    assert found[1].startswith("no provider has a key: set ANTHROPIC_API_KEY")


@pytest.mark.parametrize("name", ["models.json", "auth.json"])
async def test_a_faulty_file_is_not_well(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(f'{{"{KEY}')
    (found,) = await lines_on_models(tmp_path)
    assert not found[0]
    assert found[1].startswith(f"{tmp_path / name}: line 1, column ")


async def line_on_pi(folder: Path, **environment: str) -> tuple[bool, str]:
    """Return what is said of Pi."""
    given = {"HOME": str(folder), "PATH": "/nowhere", **environment}
    answer = await examine(app.build_context(given, folder, Silence()))
    (found,) = [each for each in answer["findings"] if each["what"] == "Pi"]
    return found["ok"], found["says"]


async def test_nobody_needs_a_pi(tmp_path: Path) -> None:
    assert await line_on_pi(tmp_path) == (True, "there is none; pinata works without")


async def test_a_pi_that_cannot_work_is_not_well(tmp_path: Path) -> None:
    is_well, says = await line_on_pi(tmp_path, PATH=fake_pi(tmp_path, node="v20.1.0"))
    assert not is_well
    assert "is Node v20.1.0, and Pi needs 22.19 or newer" in says


@pytest.mark.parametrize("is_installed", [False, True])
async def test_it_says_what_pi_has_and_what_its_tools_need(
    tmp_path: Path, *, is_installed: bool
) -> None:
    if is_installed:
        (tmp_path / ".pi/agent").mkdir(parents=True)
        settings = json.dumps({"packages": [str(COORDINATOR)]})
        (tmp_path / ".pi/agent/settings.json").write_text(settings)
    is_well, says = await line_on_pi(tmp_path, PATH=fake_pi(tmp_path))
    assert is_well
    has = "its sessions have the tools" if is_installed else "`pinata install pi` adds the tools"
    lacks = "agents that run in it have no grep and find without rg and fd on PATH"
    assert says == f"1.6.0 on Node 24.0.0; {has}; {lacks}"
