"""Whatever durable step a repair dies at, the change from before never counts."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import ConflictError
from engine.core.events import AttemptStarted, RepairRequested, RepairStarted
from engine.core.ids import RunId
from engine.logreader import replay
from engine.store import RunFolder
from pinata import app
from pinata.work.observer import Silence
from tests.support.kept import restore, telling_points
from tests.support.projects import Project, approves, builder, reviewer, shell, submits
from tests.support.tool_child import Forker, open_forker

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

UNSETTLED = ("queued", "running")
REQUEST = {"task": "fix", "feedback": "b.txt too"}


@pytest.fixture
def project(tmp_path: Path, hermetic_home: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project.create(folder, {"a.txt": "one\n", "b.txt": "b\n"})


@pytest.fixture
def run(project: Project, tmp_path: Path) -> str:
    """The id of a run that succeeded, and of which `kept` has a copy."""
    answer = trio.run(
        project.run,
        [builder("fix", "a.txt", "b.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "fix@2": [shell("echo three > b.txt"), submits(changedFiles=["a.txt", "b.txt"])],
            "*": [approves()],
        },
    )
    assert answer["status"] == "succeeded"
    shutil.copytree(project.folder, tmp_path / "kept", symlinks=True)
    found: str = answer["run"]
    return found


@pytest.fixture
def forker(project: Project) -> Iterator[Forker]:
    with open_forker(project.env) as forker:
        yield forker


def facts(project: Project, run: str) -> dict[str, Any]:
    answer = trio.run(project.call, "pinata_status", {"run": run})
    return {task["id"]: task for task in answer["tasks"]}


def test_repair_killed_at_any_step_is_closed_by_resume_and_never_brings_back_the_old_change(
    project: Project, run: str, forker: Forker, tmp_path: Path
) -> None:
    root, kept, record = project.repo.root, tmp_path / "kept", tmp_path / "points"
    request = {"run": run, **REQUEST}
    assert forker.call(root, "pinata_repair", request, f"record:{record}") == 0
    log = RunFolder(root / ".git" / "pinata" / RunId(run)).events_file
    for name, number in telling_points(record.read_text().split()):
        restore(project.folder, kept)
        ended = forker.call(root, "pinata_repair", request, f"kill:{name}:{number}")
        assert ended == -signal.SIGKILL, (name, number)
        asked = any(isinstance(e.event, RepairRequested) for e in replay(log, RunId(run)))
        earlier = facts(project, run)
        if asked:
            assert earlier["fix"].get("artifact", {}).get("attempt") != 1, (name, number)
        if any(task["status"] != "succeeded" for task in earlier.values()):
            with pytest.raises(ConflictError, match="every task must succeed"):
                trio.run(project.call, "pinata_integrate", {"run": run})
        context = app.build_context(project.env, root, Silence())
        trio.run(app.resume_run, context, run)
        after = facts(project, run)
        assert not {task["status"] for task in after.values()} & set(UNSETTLED), (name, number)
        done = {id_: t for id_, t in earlier.items() if t["status"] not in UNSETTLED}
        assert {id_: after[id_] for id_ in done} == done, (name, number)
        events = [each.event for each in replay(log, RunId(run))]
        attempts = [event.attempt for event in events if isinstance(event, AttemptStarted)]
        assert len(attempts) == len(set(attempts))
        assert sum(isinstance(event, RepairStarted) for event in events) <= 1
        assert (root / "a.txt").read_text() == "one\n"
    assert json.loads(log.read_text().splitlines()[-1])["type"] == "run_settled"
