"""How worktrees are made ready, through the public tool."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.core.setup import MANAGERS
from tests.support.projects import (
    Project,
    Task,
    Turn,
    builder,
    reviewer,
    scout,
    statuses,
    submits,
    task_of,
)

NPM_CI = "npm ci --prefer-offline --no-audit --no-fund"
TOOLS = ("git", "bash", "sh", "cat", "mkdir")

FIX: tuple[Task, dict[str, list[Turn]]] = (builder("fix", "a.txt"), {"fix": [submits()]})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose users have no package manager but those that a test gives them."""
    files: dict[str, str | bytes] = {".gitignore": "node_modules/\n", "a.txt": "one\n"}
    project = Project.create(tmp_path, files)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    project.repo.env["PATH"] = str(programs)
    return project


def install(project: Project, name: str, script: str = "") -> None:
    """Put a package manager on the PATH that notes each call."""
    assert name in MANAGERS
    program = project.folder / "bin" / name
    note = f"echo {name} $* in $PWD for $PINATA_ROOT >> {project.folder / 'calls'}"
    program.write_text(f"#!/bin/sh\n{note}\n{script}\n")
    program.chmod(0o755)


def calls(project: Project) -> list[str]:
    """Return the calls of package managers so far."""
    noted = project.folder / "calls"
    return noted.read_text().splitlines() if noted.exists() else []


def recorded(project: Project, run: str) -> dict[str, Any]:
    """Return what the run's record says about setup."""
    record = project.repo.root / ".git" / "pinata" / run / "run.json"
    setup: dict[str, Any] = json.loads(record.read_text())["setup"]
    return setup


def about_setup(answer: dict[str, Any]) -> list[str]:
    """Return what a run's notices say about setup."""
    return [notice for notice in answer["notices"] if "setup" in notice]


async def fix(project: Project, **config: object) -> dict[str, Any]:
    """Run a job with one builder that changes nothing."""
    task, script = FIX
    return await project.run([task], script, config=config)


async def test_lockfile_makes_setup_run_once_for_each_writer_and_for_nobody_else(
    project: Project,
) -> None:
    project.repo.write("package-lock.json", "{}")
    install(project, "npm", "mkdir node_modules; : > node_modules/installed")
    answer = await project.run(
        [builder("fix", "a.txt"), scout("look"), reviewer("judge", "fix")],
        {
            "fix": [submits()],
            "look": [submits(brief="it is so")],
            "judge": [submits(review={"verdict": "approve"})],
        },
    )
    assert statuses(answer) == dict.fromkeys(("fix", "look", "judge"), "succeeded")
    (call,) = calls(project)
    assert call.startswith(f"{NPM_CI} in {project.folder / 'state'}")
    assert call.endswith(f"/fix for {project.repo.root}")
    assert recorded(project, answer["run"]) == {
        "source": "detected",
        "command": NPM_CI,
        "reason": None,
    }
    assert about_setup(answer) == []


async def test_lockfiles_of_two_ecosystems_both_count(project: Project) -> None:
    project.repo.write("package-lock.json", "{}")
    project.repo.write("uv.lock", "")
    project.repo.write("below/yarn.lock", "")
    project.repo.place("poetry.lock").symlink_to("uv.lock")
    install(project, "npm")
    install(project, "uv")
    answer = await fix(project)
    assert statuses(answer) == {"fix": "succeeded"}
    assert [call.partition(" in ")[0] for call in calls(project)] == [NPM_CI, "uv sync --frozen"]


@pytest.mark.parametrize(
    ("lockfiles", "reason"),
    [
        (
            ["package-lock.json", "yarn.lock"],
            (
                "lockfiles of several JavaScript package managers: "
                "yarn (yarn.lock) and npm (package-lock.json)"
            ),
        ),
        (["poetry.lock"], "poetry is not on PATH"),
    ],
    ids=["two-managers", "absent-manager"],
)
async def test_what_cannot_be_decided_is_told_and_the_run_goes_on(
    project: Project, lockfiles: list[str], reason: str
) -> None:
    for name in lockfiles:
        project.repo.write(name, "")
    install(project, "npm")
    install(project, "yarn")
    answer = await fix(project)
    assert statuses(answer) == {"fix": "succeeded"}
    assert calls(project) == []
    found = recorded(project, answer["run"])
    assert found == {"source": "none", "command": None, "reason": reason}
    assert about_setup(answer) == [
        f"worktrees get no setup: {reason}; set `setup` to a command or to false"
    ]


async def test_lockfiles_of_the_base_count_and_not_those_of_the_checkout(project: Project) -> None:
    project.repo.write("package-lock.json", "{}")
    install(project, "npm")
    answer = await fix(project, includeUncommitted=False)
    assert calls(project) == []
    assert recorded(project, answer["run"]) == {
        "source": "none",
        "command": None,
        "reason": "no lockfile of a known package manager",
    }
    assert about_setup(answer) == []


async def test_configuration_is_stronger_than_lockfiles(project: Project) -> None:
    project.repo.write("package-lock.json", "{}")
    install(project, "npm")
    named = await fix(project, setup="echo ready")
    disabled = await fix(project, setup=False)
    assert calls(project) == []
    found = [recorded(project, answer["run"]) for answer in (named, disabled)]
    assert found == [
        {"source": "config", "command": "echo ready", "reason": None},
        {"source": "disabled", "command": None, "reason": None},
    ]


async def test_run_without_writers_needs_no_setup(project: Project) -> None:
    project.repo.write("package-lock.json", "{}")
    install(project, "npm")
    answer = await project.run([scout("look")], {"look": [submits(brief="it is so")]})
    assert calls(project) == []
    assert recorded(project, answer["run"])["source"] == "not-needed"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo set > a.txt", "setup changed a.txt"),
        ("echo new > new.txt", "setup changed new.txt"),
        ("exit 7", "setup exited with 7"),
        ("kill -TERM $$", "setup was ended by signal 15"),
    ],
    ids=["tracked", "untracked", "code", "signal"],
)
async def test_setup_that_fails_or_leaves_a_change_fails_the_task_before_its_agent(
    project: Project, script: str, reason: str
) -> None:
    answer = await fix(project, setup=f"echo working; {script}")
    found = task_of(answer, "fix")["reason"]
    assert found.startswith(f"{reason}; its output is in ")
    assert (Path(found.rpartition(" ")[2]) / "stdout").read_text() == "working\n"
    result = await project.result(answer["run"], "fix")
    assert (result["failureStage"], result["usage"]["turns"]) == ("setup", 0)


async def test_setup_that_writes_too_much_is_stopped(project: Project) -> None:
    answer = await fix(project, setup="exec cat /dev/zero")
    assert "setup wrote more than 16 MiB" in task_of(answer, "fix")["reason"]
