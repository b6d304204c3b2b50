"""A reader who copies the first page line by line sees what it shows."""

from pathlib import Path

import pytest

from engine.config import decode_config_file
from engine.records.config import merge_config
from tests.support.reader import Shell, blocks, page

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

PAGE = page("first-run.md")


def test_first_run_goes_as_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home")
    shell.follow(PAGE)
    assert not list(shell.home.glob("first-run"))
    assert not list(shell.home.rglob("discount.py"))
    state = shell.home / ".local" / "state" / "pinata"
    assert not [path for path in state.rglob("*") if not path.is_dir()]


def test_line_with_a_real_model_fits_into_a_job() -> None:
    (line,) = blocks(PAGE, "json")
    layer = decode_config_file(f"{{{line.text}}}".encode(), "job.json")
    assert merge_config([layer]).models["default"].provider == "anthropic"
