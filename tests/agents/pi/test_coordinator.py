"""A person's real Pi with our extension: what its model and its person see of runs."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.coordinators import Desk, open_desk
from tests.support.live import agents_left
from tests.support.programs import Beacon, open_beacon
from tests.support.projects import (
    Project,
    approves,
    builder,
    reports,
    reviewer,
    says,
    scout,
    shell,
    statuses,
    submits,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
async def desk(project: Project) -> AsyncIterator[Desk]:
    async with open_desk(project) as opened:
        yield opened
    assert agents_left(project) == []


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    os.mkfifo(tmp_path / "go")
    with open_beacon(tmp_path) as opened:
        yield opened


async def test_reviewed_change_goes_in_is_verified_and_comes_out_again(desk: Desk) -> None:
    project = desk.project
    file = project.repo.root / "a.txt"
    script = {
        "look": [says("read", path="a.txt"), reports("it says one")],
        "fix": [shell("sleep 0.6; echo two > a.txt"), submits(changedFiles=["a.txt"])],
        "judge": [approves()],
    }
    checks = [{"id": "says-two", "argv": ["grep", "-q", "two", "a.txt"]}]
    tasks = [scout("look"), builder("fix", "a.txt", after=["look"]), reviewer("judge", "fix")]
    job = project.job(tasks, script, integratedChecks=checks)
    async with desk.pi() as pi:
        desk.mind.will_say(says("pinata_run", **job))
        await pi.prompt("Have it fixed.")
        (answer,) = pi.tool_results("pinata_run")
        assert statuses(answer) == dict.fromkeys(("look", "fix", "judge"), "succeeded")
        assert file.read_text() == "one\n"
        updates = [r for r in pi.records if r["type"] == "tool_execution_update"]
        said = [each["partialResult"]["content"][0]["text"] for each in updates]
        assert any("fix: bash sleep" in text for text in said), said
        run = answer["run"]
        desk.mind.will_say(says("pinata_changes", run=run), says("pinata_integrate", run=run))
        await pi.prompt("Apply it.")
        (changes,) = pi.tool_results("pinata_changes")
        assert [each["task"] for each in changes["builders"]] == ["fix"]
        (applied,) = pi.tool_results("pinata_integrate")
        assert applied["status"] == "verified"
        assert file.read_text() == "two\n"
        desk.mind.will_say(says("pinata_verify", run=run))
        await pi.prompt("Is it so?")
        (verified,) = pi.tool_results("pinata_verify")
        assert (verified["status"], verified["application"]) == ("verified", "exact")
        desk.mind.will_say(says("pinata_rollback", run=run, confirm=True))
        await pi.prompt("Take it back.")
        assert file.read_text() == "one\n"
        assert project.repo.git("status", "--porcelain") == b""
        widgets = [each.get("widgetLines") for each in pi.of_method("setWidget")]
        assert any(lines and "fix" in lines[1] for lines in widgets), widgets
        assert widgets[-1] is None
        assert f"run {run[:8]} succeeded" in await pi.types("/pinata status")
    assert desk.told() == [f"{run}/1"]
