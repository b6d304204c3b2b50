"""Runs that one process carries and others reach into, as from a second terminal."""

import json
import os
import re
from pathlib import Path

import pytest

from engine.records.link import decode_link
from engine.store import RunFolder
from tests.support.live import live
from tests.support.projects import Project, builder, shell
from tests.support.reference import Page, fits

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    os.mkfifo(tmp_path / "go")
    return project


def waiting_job(project: Project) -> str:
    """Write a job whose builder waits until it may go on, and then for ever."""
    script = {"look": [shell(f"read line < {project.folder / 'go'}"), {"hang": True}]}
    return str(project.write_job(project.job([builder("look", "a.txt")], script)))


def folder(project: Project) -> RunFolder:
    return RunFolder(project.repo.root / ".git" / "pinata" / project.runs[0])


def masked(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{8,16}\b", "<id>", text)


def assert_as_its_page_says(project: Project, name: str) -> None:
    shown = Page(f"commands/{name}.md").block("console")
    command, told = shown.removeprefix("$ pinata ").split("\n", 1)
    words = command.replace("1f0c63a2", project.runs[0]).split(maxsplit=3)
    done = project.pinata(*(word.strip('"') for word in words))
    assert done.returncode == 0, done.stderr
    assert fits(masked(told), masked(done.stdout))


def test_a_run_is_steered_and_cancelled_from_another_terminal(project: Project) -> None:
    with live(project, "run", waiting_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        assert_as_its_page_says(project, "steer")
        follow_up = project.pinata("steer", project.runs[0], "look", "x", "--follow-up", "--json")
        assert json.loads(follow_up.stdout)["delivered"] == "followUp"
        (project.folder / "go").write_text("\n")
        steered = run.wait_event("steer")
        assert (steered["text"], steered["sender"]) == ("Look at the tests, too.", "user")
        refused = project.pinata("cancel", project.runs[0], "nosuch")
        assert refused.returncode == 2
        assert '"nosuch" is not a task of this run; it has look' in refused.stderr
        assert_as_its_page_says(project, "cancel")
        code, out, err = run.end()
    assert code == 3, err
    last = json.loads(out.splitlines()[-1])
    assert last["reason"] == "cancelled by the user, from another process"
    assert not folder(project).link_file.exists()
    assert list(folder(project).path.glob("*.sock")) == []
    again = project.pinata("cancel", project.runs[0])
    assert again.returncode == 4
    assert "is cancelled already: there is nothing to cancel" in again.stderr


@pytest.mark.unmeasured
def test_what_a_killed_owner_leaves_is_told_in_a_sentence_and_replaced(project: Project) -> None:
    with live(project, "run", waiting_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        run.process.kill()
        run.end()
    left = decode_link(folder(project).link_file.read_bytes(), "link.json")
    refused = project.pinata("cancel", project.runs[0])
    assert refused.returncode == 4
    assert refused.stderr == (
        f"pinata: no live process owns run {project.runs[0]}, so nothing of it is running: "
        f"`pinata rerun {project.runs[0]}` starts again what was lost, "
        f"`pinata resume {project.runs[0]}` goes on without it\n"
    )
    assert left.token not in refused.stderr
    assert project.pinata("resume", project.runs[0]).returncode == 1
    assert not folder(project).link_file.exists()
    assert list(folder(project).path.glob("*.sock")) == []


@pytest.mark.parametrize("arguments", [("steer", "ab", "look", "x"), ("cancel", "ab")])
def test_agents_reach_into_no_run(project: Project, arguments: tuple[str, ...]) -> None:
    refused = project.pinata(*arguments, env={"PINATA_AGENT": "1"})
    assert refused.returncode == 4
    assert "PINATA_AGENT=1" in refused.stderr
