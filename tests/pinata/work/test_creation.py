"""Runs of a session while they are being made: what is remembered, when, and what is left."""

import json
from pathlib import Path

import pytest
import trio

from engine.core.errors import ConflictError, ExternalError, UsageError
from engine.system import faults
from pinata.work.owned_run import OwnedRun
from pinata.work.runtime import Runtime
from pinata.work.session import Session
from tests.support.hosted import KEY, hosted
from tests.support.projects import Project, builder, reports, scout, shell, submits

LOOK = [scout("look")]
SAYS = {"look": [reports("it is so")]}
BUILD = [builder("fix", "a.txt")]
FIXES = {"fix": [shell("echo b > a.txt"), submits(changedFiles=["a.txt"])]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "a\n"})


def entries(project: Project) -> list[str]:
    runs = Session.of(KEY, project.env).runs
    return sorted(path.name for path in runs.iterdir()) if runs.is_dir() else []


def ours(project: Project) -> list[str]:
    return [name for name in project.refs() if name.startswith("refs/pinata/")]


async def test_session_is_recorded_with_its_run_and_the_entry_leads_to_it(
    project: Project,
) -> None:
    async with hosted(project):
        answer = await project.run(LOOK, SAYS)
    record = json.loads((Path(answer["dir"]) / "run.json").read_text())
    assert record["session"] == KEY
    assert entries(project) == [f"{answer['run']}.json"]
    entry = json.loads(Session.of(KEY, project.env).run_file(answer["run"]).read_text())
    assert Path(entry["common_dir"]) / "pinata" / answer["run"] == Path(answer["dir"])
    assert entry["root"] == str(project.repo.root)


async def test_run_without_a_session_belongs_to_nobody(project: Project) -> None:
    answer = await project.run(LOOK, SAYS)
    record = json.loads((Path(answer["dir"]) / "run.json").read_text())
    assert record["session"] is None
    assert entries(project) == []


async def test_entry_is_durable_before_the_record_of_the_run(
    project: Project, tmp_path: Path
) -> None:
    faults.install(f"record:{tmp_path / 'passed'}")
    try:
        async with hosted(project):
            await project.run(LOOK, SAYS)
    finally:
        faults.install("")
    passed = (tmp_path / "passed").read_text().splitlines()
    assert passed.index("session.run.durable") < passed.index("run.record.started")


@pytest.mark.parametrize("point", ["session.run.renamed", "run.record.started"])
async def test_run_that_cannot_be_made_leaves_nothing_and_no_entry(
    project: Project, point: str
) -> None:
    async with hosted(project):
        faults.install(f"error:{point}:1:ENOSPC")
        try:
            with pytest.raises(ExternalError, match="No space left"):
                await project.run(BUILD, FIXES)
        finally:
            faults.install("")
    assert (project.runs, ours(project), entries(project)) == ([], [], [])


class Steps(trio.abc.Instrument):
    """Counts the steps of the task that makes and carries a run; asks for the end after one."""

    def __init__(self, runtime: Runtime, last: int | None = None) -> None:
        self.taken = 0
        self._runtime = runtime
        self._last = last

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name.endswith("Runtime._carry"):
            self.taken += 1
            if self.taken == self._last:
                self._runtime.cancel_mortal("the session has ended")


async def begin(project: Project, last: int | None = None) -> int:
    """Begin a run and ask for the end after so many steps; return how many it took to open."""
    assert project.runtime is not None
    steps = Steps(project.runtime, last)
    trio.lowlevel.add_instrument(steps)
    try:
        await project.run(BUILD, FIXES, background=True, survive=True)
    finally:
        trio.lowlevel.remove_instrument(steps)
    return steps.taken


async def is_refused(project: Project, last: int) -> bool:
    """Begin a run and ask for the end after so many steps; return whether nothing came of it."""
    try:
        await begin(project, last)
    except ConflictError as error:
        return "cancelled before anything began: the session has ended" in str(error)
    return False


@pytest.mark.slow
async def test_session_that_ends_while_a_run_is_being_made_leaves_nothing_of_it(
    project: Project,
) -> None:
    async with hosted(project) as (_, ends):
        needed = await begin(project)
        await ends.wait_next()
        before = (project.runs, ours(project), entries(project))
        early, last = 0, 0
        # One that is open survives: by then, the moment has come too late.
        while True:
            last += max(1, needed // 6)
            if not await is_refused(project, last):
                break
            assert (project.runs, ours(project), entries(project)) == before
            early += 1
        await ends.wait_next()
        assert early > 3


async def test_runs_that_survive_are_for_sessions(project: Project) -> None:
    refused = "survive: a run outlives its owner only in a Pi session's host"
    async with project.owning():
        with pytest.raises(UsageError, match=refused):
            await project.run(LOOK, SAYS, background=True, survive=True)
    async with hosted(project) as (_, ends):
        begun = await project.run(LOOK, SAYS, background=True, survive=True)
        assert project.runtime is not None
        owned = project.runtime.find(begun["run"])
        assert isinstance(owned, OwnedRun)
        assert owned.survives
        await ends.wait_next()
