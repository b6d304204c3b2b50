"""Agents are shown on the command line, and a project is trusted there."""

import json
from pathlib import Path

import pytest

from tests.support.customs import READER, define, define_for_user
from tests.support.projects import Project, reports, scout

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


def test_agents_are_listed_and_one_is_shown(project: Project) -> None:
    define_for_user(project, "historian", READER)
    done = project.pinata("agents")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  historian    reader    user    Looks back.\n" in done.stdout
    one = project.pinata("agents", "historian", "--json")
    assert json.loads(one.stdout)["persona"] == "Look back.\n"
    assert project.pinata("agents", "nobody").returncode == 2


def test_run_heeds_the_project_when_told_to_and_says_so_first(project: Project) -> None:
    define(project, "scout", "---\nthinking: high\n---\n")
    job = str(project.write_job(project.job([scout("look")], {"look": [reports()]})))
    done = project.pinata("run", job)
    assert done.returncode == 0, done.stderr
    first = " ".join(done.stderr.split())
    assert first.startswith(f"notice: {project.repo.root}/.pi/agents is ignored: ")
    done = project.pinata("run", job, "--trust-project")
    assert done.returncode == 0, done.stderr
    first = " ".join(done.stderr.split())
    assert first.startswith("notice: agent scout: the project definition overlays the preset one ")
