"""Having the real Pi load our extension, and no longer."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.pi_program import COORDINATOR, has_coordinator
from pinata.faces.cli import main
from tests.support.real_pi import VERSION, fake_pi, with_pi

pytestmark = pytest.mark.slow


def settings(agent_dir: Path) -> dict[str, Any]:
    """Return what Pi has been told."""
    found: dict[str, Any] = json.loads((agent_dir / "settings.json").read_text())
    return found


def test_pi_loads_the_extension_until_it_is_uninstalled(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = with_pi({"PATH": "/usr/bin", "HOME": str(tmp_path)}, tmp_path / "agent")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent/settings.json").write_text(json.dumps({"quietStartup": True}))
    assert main(["install", "pi", "--json"], env) == 0
    assert json.loads(capfd.readouterr().out) == {"pi": VERSION, "installed": str(COORDINATOR)}
    assert has_coordinator(tmp_path / "agent")
    assert main(["install", "pi"], env) == 0
    assert len(settings(tmp_path / "agent")["packages"]) == 1
    assert main(["uninstall", "pi"], env) == 0
    assert settings(tmp_path / "agent") == {"quietStartup": True, "packages": []}


def test_without_pi_there_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "pi"], {"PATH": str(tmp_path), "HOME": str(tmp_path)}) == 1
    said = capfd.readouterr().err
    assert said.startswith("pinata: there is no pi on PATH: install it with npm")
    assert said.count("\n") == 1


def test_agents_install_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    env = {"PATH": fake_pi(tmp_path), "HOME": str(tmp_path), "PINATA_AGENT": "1"}
    assert main(["install", "pi"], env) == 4
    assert "PINATA_AGENT=1" in capfd.readouterr().err
