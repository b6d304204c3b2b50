"""The page about CI says what is so: its steps are run, on two clones, as CI would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.projects import Project, approves, builder, reviewer, shell, submits

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text()
CHECK = [{"id": "seen", "argv": ["grep", "-q", "two", "a.txt"]}]


def steps() -> dict[str, str]:
    """Return the commands of the page's workflow by the names of their steps."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    listed = yaml.safe_load(text)["jobs"]["verify"]["steps"]
    return {step["name"]: step["run"] for step in listed if "run" in step}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


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


def test_steps_of_the_workflow_accept_the_change_and_refuse_another(project: Project) -> None:
    job = project.job(
        [builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [approves()],
        },
        integratedChecks=CHECK,
    )
    assert project.pinata("run", str(project.write_job(job))).returncode == 0
    (run,) = [each for each in project.runs if len(each) == 16]
    sent = project.folder / "origin.git"
    project.repo.git("clone", "-q", "--bare", str(project.repo.root), str(sent))
    project.repo.git("remote", "add", "origin", str(sent))
    project.repo.git("config", "--global", "user.name", "Robin")
    project.repo.git("config", "--global", "user.email", "robin@example.com")
    (commands,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in commands.splitlines():
        command = line.removeprefix("$ ").replace("1f0c…", run).replace("1f0c", run)
        done = shelled(project, command, project.repo.root)
        assert done.returncode == 0, (command, done.stderr)

    clone = project.folder / "ci"
    project.repo.git("clone", "-q", str(sent), str(clone))
    assert list(steps()) == ["install", "fetch the evidence", "verify"]
    fetched = shelled(project, steps()["fetch the evidence"], clone)
    assert fetched.returncode == 0, fetched.stderr
    verified = shelled(project, steps()["verify"], clone)
    assert verified.returncode == 0, (verified.stdout, verified.stderr)
    assert "verified, exact" in verified.stdout

    spoil = (
        "echo tvo > a.txt;"
        ' git commit -q --all --amend -m x --trailer "$(git log -1 --format=%\\(trailers\\))"'
    )
    assert shelled(project, spoil, clone).returncode == 0
    refused = shelled(project, steps()["verify"], clone)
    assert (refused.returncode, "not as approved: a.txt" in refused.stdout) == (1, True)
    unknown = shelled(project, f"pinata verify --evidence {'0' * 40}", clone)
    assert unknown.returncode == 2
