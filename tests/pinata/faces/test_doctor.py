"""What the doctor says about models."""

import json
from pathlib import Path

import pytest

from pinata import app
from pinata.faces.doctor import examine
from pinata.work.observer import Silence

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
