"""The page about CI says what is so: its steps are run, on two clones, as CI would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.projects import Project, approves, builder, reviewer, shell, submits
from tests.support.reader import blocks, section, steps

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text()
CHANGED, ADDED = "basket/discount.py", "tests/test_discount.py"
CHECK = [{"id": "unit", "argv": ["grep", "-q", "two", CHANGED]}]


def workflow() -> dict[str, str]:
    """Return the commands of the page's workflow by the names of their steps."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    listed = yaml.safe_load(text)["jobs"]["verify"]["steps"]
    return {step["name"]: step["run"] for step in listed if "run" in step}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {CHANGED: "one\n", "b.txt": "b\n"})


def shelled(project: Project, command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{project.env['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=cwd,
        env=project.program_env | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def send_along(project: Project) -> tuple[str, Path]:
    """Let a builder change a file and add one, and send both along as the page says.

    Returns:
        The id of the run, and what it was pushed to.
    """
    changed = [CHANGED, ADDED]
    work = f"echo two > {CHANGED}; mkdir tests; echo test > {ADDED}"
    job = project.job(
        [builder("fix", *changed), reviewer("check", "fix")],
        {"fix": [shell(work), submits(changedFiles=changed)], "check": [approves()]},
        integratedChecks=CHECK,
    )
    assert project.pinata("run", str(project.write_job(job))).returncode == 0
    (run,) = [each for each in project.runs if len(each) == 16]
    sent = project.folder / "origin.git"
    project.repo.git("clone", "-q", "--bare", str(project.repo.root), str(sent))
    project.repo.git("remote", "add", "origin", str(sent))
    project.repo.git("config", "--global", "user.name", "Robin")
    project.repo.git("config", "--global", "user.email", "robin@example.com")
    (block,) = blocks(section(PAGE, "Sending it along"), "console")
    typed = "\n".join(step.command for step in steps(block))
    typed = typed.replace("1f0c63a2e8d47b05", run).replace("1f0c", run[:4])
    done = shelled(project, typed, project.repo.root)
    assert done.returncode == 0, done.stderr
    shown = [line for line in next(steps(block)).shown if line in done.stdout.splitlines()]
    assert shown == [f"  M {CHANGED}", f"  A {ADDED}", "  receipt 1"]
    return run, sent


def test_steps_of_the_workflow_accept_the_change_and_refuse_another(project: Project) -> None:
    run, sent = send_along(project)
    clone = project.folder / "ci"
    project.repo.git("clone", "-q", str(sent), str(clone))
    assert list(workflow()) == ["install", "fetch the evidence", "verify"]
    fetched = shelled(project, workflow()["fetch the evidence"], clone)
    assert fetched.returncode == 0, fetched.stderr
    verified = shelled(project, workflow()["verify"], clone)
    assert verified.returncode == 0, (verified.stdout, verified.stderr)
    assert "verified, exact" in verified.stdout

    ref = f"pinata verify --commit HEAD --evidence refs/pinata/{run}/evidence"
    unpinned = shelled(project, ref, clone)
    assert (unpinned.returncode, "not_run, exact" in unpinned.stdout) == (1, True)
    pinned = shelled(project, f"{ref} --expect $(git rev-parse refs/pinata/{run}/evidence)", clone)
    assert (pinned.returncode, "verified, exact" in pinned.stdout) == (0, True)

    spoil = (
        f"echo tvo > {CHANGED};"
        ' git commit -q --all --amend -m x --trailer "$(git log -1 --format=%\\(trailers\\))"'
    )
    assert shelled(project, spoil, clone).returncode == 0
    refused = shelled(project, workflow()["verify"], clone)
    assert (refused.returncode, f"not as approved: {CHANGED}" in refused.stdout) == (1, True)
    assert shelled(project, "git commit -q --amend -m x", clone).returncode == 0
    unnamed = shelled(project, workflow()["verify"], clone)
    assert (unnamed.returncode, unnamed.stdout) == (1, "")
    assert "HEAD names no evidence" in unnamed.stderr
    unknown = shelled(project, f"pinata verify --evidence {'0' * 40}", clone)
    assert unknown.returncode == 2
