"""Subjects are made out in time or not at all, and nothing of a refusal stays."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from engine.core.errors import ExternalError
from pinata.work.subjects import FETCH_LIMIT_S
from tests.support.github import NUMBER, Github
from tests.support.programs import Beacon, is_running, open_beacon
from tests.support.projects import Project, approves

TASK = {"id": "judge", "agent": "reviewer", "task": "judge", "reviewPr": NUMBER}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
def hub(project: Project) -> Github:
    return Github.open(project.repo, project.folder)


def hang_on(beacon: Beacon) -> str:
    return f"echo $$ > {beacon.path}; exec sleep 1000"


async def test_a_fetch_that_hangs_is_stopped_and_leaves_nothing(
    project: Project, hub: Github, tmp_path: Path, mock_clock: MockClock
) -> None:
    refs = project.refs()
    project.repo.git("remote", "set-url", "origin", "git@github.com:example/shop.git")
    with open_beacon(tmp_path) as beacon:
        ssh = hub.folder / "my-ssh"
        ssh.write_text(f"#!/bin/sh\n{hang_on(beacon)}\n")
        ssh.chmod(0o755)
        project.repo.env["GIT_SSH_COMMAND"] = str(ssh)
        pids: list[int] = []

        async def let_time_pass() -> None:
            pids.append(await beacon.pid())
            mock_clock.jump(FETCH_LIMIT_S + 1)
            mock_clock.rate = 1.0

        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_time_pass)
            said = "task judge: reviewPr 7: it was not fetched within 120 seconds"
            with pytest.raises(ExternalError, match=said):
                await project.run([TASK], {"*": [approves()]})
    assert not any(map(is_running, pids))
    assert (project.runs, project.refs()) == ([], refs)


async def test_a_call_that_is_cancelled_while_gh_is_asked_leaves_nothing(
    project: Project, hub: Github, tmp_path: Path
) -> None:
    refs = project.refs()
    with open_beacon(tmp_path) as beacon:
        hub.does(hang_on(beacon))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(project.run, [TASK], {"*": [approves()]})
            pid = await beacon.pid()
            nursery.cancel_scope.cancel()
    assert not is_running(pid)
    assert (project.runs, project.refs()) == ([], refs)
