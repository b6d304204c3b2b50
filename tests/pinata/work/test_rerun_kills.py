"""Whatever durable step a rerun dies at, what comes of the next one is the same."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.events import AttemptStarted, RerunRequested
from engine.core.ids import RunId, TaskId
from engine.logreader import replay
from engine.store import RunFolder
from pinata import app
from pinata.tools.registry import RERUN
from pinata.work.observer import Silence
from pinata.work.rerun import RerunRefusedError
from tests.support.kept import restore, telling_points
from tests.support.projects import Project, builder, shell, statuses, submits, task_of
from tests.support.tool_child import Forker, open_forker

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

MESS = "echo lost > a.txt; echo new > junk.txt"


@pytest.fixture
def project(tmp_path: Path, hermetic_home: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project.create(folder, {"a.txt": "one\n", "b.txt": "b\n"})


@pytest.fixture
def forker(project: Project) -> Iterator[Forker]:
    with open_forker(project.env) as forker:
        yield forker


@pytest.fixture
def run(project: Project, forker: Forker, tmp_path: Path) -> str:
    """The id of a run whose process died at a builder's work, and of which `kept` has a copy."""
    mends = [shell("echo two >> a.txt"), submits(changedFiles=["a.txt"])]
    script = {"fix": [shell(MESS), *mends], "fix@2": mends, "fix@3": mends}
    job = project.job([builder("fix", "a.txt")], script)
    # Its last step before the builder's result is durable.
    ended = forker.call(project.repo.root, "pinata_run", job, "kill:store.result.started:1")
    assert ended == -signal.SIGKILL
    shutil.copytree(project.folder, tmp_path / "kept", symlinks=True)
    (found,) = project.runs
    return found


def test_rerun_killed_at_any_step_is_made_up_for_and_begins_with_a_clean_worktree_every_time(
    project: Project, run: str, forker: Forker, tmp_path: Path
) -> None:
    root, kept, record = project.repo.root, tmp_path / "kept", tmp_path / "points"
    folder = RunFolder(root / ".git" / "pinata" / RunId(run))
    log = folder.events_file
    assert forker.call(root, RERUN, run, f"record:{record}") == 0
    for name, number in telling_points(record.read_text().split()):
        restore(project.folder, kept)
        # The worktree was made anew and is now brought back, so it is another folder than it was.
        known = folder.index_file(TaskId("fix")).with_suffix(".root")
        known.write_bytes(b"%d\n" % worktree_of(project, run).stat().st_ino)
        assert forker.call(root, RERUN, run, f"kill:{name}:{number}") == -signal.SIGKILL
        asked = any(isinstance(each.event, RerunRequested) for each in replay(log, RunId(run)))
        answer = trio.run(end, project, run)
        assert statuses(answer) == {"fix": "succeeded"}, (name, number)
        assert task_of(answer, "fix")["changedFiles"] == ["a.txt"]
        worktree = worktree_of(project, run)
        assert (worktree / "a.txt").read_text() == "one\ntwo\n", (name, number)
        assert not (worktree / "junk.txt").exists(), (name, number)
        events = [each.event for each in replay(log, RunId(run))]
        attempts = [event.attempt for event in events if isinstance(event, AttemptStarted)]
        assert len(attempts) == len(set(attempts))
        reruns = sum(isinstance(event, RerunRequested) for event in events)
        assert 1 <= reruns <= 1 + asked
    assert json.loads(log.read_text().splitlines()[-1])["type"] == "run_settled"


def worktree_of(project: Project, run: str) -> Path:
    (found,) = (project.folder / "state" / "pinata" / "worktrees").glob(f"*/{run}/fix")
    return found


async def end(project: Project, run: str) -> dict[str, Any]:
    """Start again whatever is lost, or finish what is left when nothing is."""
    context = app.build_context(project.env, project.repo.root, Silence())
    try:
        return await app.rerun_run(context, run)
    except RerunRefusedError:
        return await app.resume_run(context, run)
