"""What holds the user's keys is not read, by whatever name it goes."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.filetools.registry import TOOLS
from agents.filetools.tool import ToolAnswer
from tests.support.toolbox import Toolbox

KEY = "sk-live"


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    box = Toolbox.create(tmp_path)
    keys = box.put("pi/auth.json", KEY)
    (box.root / "link.json").symlink_to(keys)
    (box.root / "linked").symlink_to(keys.parent)
    (box.root / "hard.json").hardlink_to(keys)
    return box


async def call(box: Toolbox, tool: str, **arguments: object) -> ToolAnswer:
    secrets = (box.root / "linked" / "auth.json", box.root / "pi" / "models.json")
    return await TOOLS[tool].run(replace(box.context, secrets=secrets), arguments)


@pytest.mark.parametrize("path", ["pi/auth.json", "link.json", "linked/auth.json", "hard.json"])
@pytest.mark.parametrize(
    ("tool", "arguments"), [("read", {}), ("grep", {"pattern": "sk"}), ("find", {"pattern": "*"})]
)
async def test_file_with_keys_is_refused_with_a_sentence(
    box: Toolbox, tool: str, arguments: dict[str, object], path: str
) -> None:
    answer = await call(box, tool, path=path, **arguments)
    assert answer.is_error
    assert (
        answer.text == f'{tool}: "{path}" holds the user\'s keys for models, which no agent reads'
    )


async def test_search_of_a_folder_passes_over_keys(box: Toolbox) -> None:
    box.put("pi/other.json", KEY)
    assert (await call(box, "grep", pattern=KEY)).text == "pi/other.json:1: sk-live"
    assert KEY in (await call(box, "read", path="pi/other.json")).text
