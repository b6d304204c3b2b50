"""Finding the user's Pi, and saying what is wrong with it."""

import json
from pathlib import Path

import pytest

from agents.pi_program import COORDINATOR, PiMissingError, find_pi, has_coordinator
from tests.support.real_pi import NODE, VERSION, fake_pi, with_pi


@pytest.mark.slow
async def test_the_real_pi_is_found_with_its_node(tmp_path: Path) -> None:
    found = await find_pi(with_pi({"PATH": "/usr/bin"}, tmp_path), tmp_path)
    assert found.version == VERSION
    assert found.argv == (str(NODE), str(found.path.resolve()))
    assert found.node_version.startswith("24.")


async def test_a_pi_that_is_not_there_is_told_with_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(PiMissingError, match=r"no pi on PATH: install it with npm install -g @"):
        await find_pi({"PATH": str(tmp_path)}, tmp_path)


@pytest.mark.parametrize(
    ("version", "node", "says"),
    [
        (None, "v24.0.0", "is not Pi as npm installs it"),
        ("0.73.1", "v24.0.0", "is Pi 0.73.1, and pinata works with Pi 1.x"),
        ("1.6.0", None, "there is no node on PATH: install Node 24"),
        ("1.6.0", "v20.20.2", "is Node v20.20.2, and Pi needs 22.19 or newer"),
        ("1.6.0", "v22.18.9", "is Node v22.18.9, and Pi needs 22.19 or newer"),
        ("1.6.0", "hello", "does not tell its version"),
    ],
)
async def test_a_pi_that_cannot_work_is_told_with_what_it_needs(
    tmp_path: Path, version: str | None, node: str | None, says: str
) -> None:
    path = fake_pi(tmp_path, version=version, node=node)
    with pytest.raises(PiMissingError, match=says):
        await find_pi({"PATH": path}, tmp_path)


@pytest.mark.parametrize("node", ["v22.19.0", "v24.1.0", "v26.0.0"])
async def test_every_node_that_is_new_enough_will_do(tmp_path: Path, node: str) -> None:
    found = await find_pi({"PATH": fake_pi(tmp_path, node=node)}, tmp_path)
    assert found.node_version == node.removeprefix("v")


@pytest.mark.parametrize(
    ("settings", "has_it"),
    [
        (None, False),
        ("{", False),
        ("[]", False),
        ({}, False),
        ({"packages": "no list"}, False),
        ({"packages": ["npm:something", 3, {"source": 4}]}, False),
        ({"packages": ["npm:something", str(COORDINATOR)]}, True),
        ({"packages": [{"source": f"{COORDINATOR}/"}]}, True),
    ],
)
def test_settings_tell_whether_pi_loads_our_extension(
    tmp_path: Path, settings: object, *, has_it: bool
) -> None:
    if settings is not None:
        text = settings if isinstance(settings, str) else json.dumps(settings)
        (tmp_path / "settings.json").write_text(text)
    assert has_coordinator(tmp_path) == has_it


def test_a_source_may_start_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "ours").symlink_to(COORDINATOR)
    (tmp_path / "agent/settings.json").write_text(json.dumps({"packages": ["../ours"]}))
    assert has_coordinator(tmp_path / "agent")
