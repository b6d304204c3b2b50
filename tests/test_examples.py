"""The examples do on a clone of this project what their page says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    return folder


def pinata(clone: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(clone.parent / "home"),
        "XDG_STATE_HOME": str(clone.parent / "state"),
        "PI_CODING_AGENT_DIR": str(clone.parent / "pi"),
    }
    return subprocess.run(
        [sys.executable, "-m", "pinata", *arguments],
        cwd=clone,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def status_of(clone: Path) -> dict[str, object]:
    answer = json.loads(pinata(clone, "status", "--json").stdout)
    assert isinstance(answer, dict)
    return answer


def changed_files(clone: Path) -> str:
    listed = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(listed, cwd=clone, check=True, capture_output=True, text=True).stdout


def test_scout_job_answers_and_changes_nothing(clone: Path) -> None:
    done = pinata(clone, "run", "examples/scout.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert status_of(clone)["status"] == "succeeded"
    assert changed_files(clone) == ""


def test_docs_change_is_checked_by_own_tests_reviewed_applied_and_taken_back(clone: Path) -> None:
    done = pinata(clone, "run", "examples/docs-change.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed_files(clone) == ""
    run = str(status_of(clone)["run"])

    done = pinata(clone, "integrate", run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed_files(clone) == "?? docs/words.md\n"

    done = pinata(clone, "rollback", run, "--confirm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed_files(clone) == ""
