"""Runs of a session whose host died, as the next host finds them."""

from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.ids import RunId
from engine.core.outcome import LOST_REASON, Status
from engine.system import faults, locks
from pinata.work.homecoming import _look_after, come_home
from tests.support.hosted import Watch, host_context, hosted
from tests.support.projects import Project, reports, scout, statuses, task_of

HANGS = {"hang": True}
TASKS = [scout("done"), scout("lost", after=["done"]), scout("next", after=["lost"])]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "a\n"})


async def dies_at_work(project: Project, **fields: Any) -> RunId:
    """Have the session's host die while an agent is at work; return its run."""
    script = {"done": [reports()], "lost": [HANGS], "next": [reports()]}
    run = RunId("")
    with trio.CancelScope() as life:
        async with hosted(project):
            run = RunId((await project.run(TASKS, script, background=True, **fields))["run"])
            assert project.runtime is not None
            owned = project.runtime.find(run)
            assert owned is not None
            await Watch(owned).wait_running("lost")
            life.cancel()
            await trio.lowlevel.checkpoint()
    assert life.cancelled_caught
    return run


@pytest.mark.slow
async def test_run_without_an_owner_is_carried_on_and_told_once(project: Project) -> None:
    run = await dies_at_work(project)
    async with hosted(project) as (deliveries, ends):
        context = host_context(project)
        assert context.session is not None
        assert await deliveries.pending() == []
        assert await come_home(context, context.session) == [
            f"run {run} had lost its owner and goes on here; its end will be told"
        ]
        await ends.wait_next()
        [found] = await deliveries.pending()
        assert statuses(found.answer) == {
            "done": "succeeded",
            "lost": "cancelled",
            "next": "blocked",
        }
        assert task_of(found.answer, "lost")["reason"] == LOST_REASON
        assert f"`pinata rerun {run}` starts again what was lost" in found.text
        await deliveries.confirm(found.key)
        assert await deliveries.pending() == []
        assert await come_home(context, context.session) == []


@pytest.mark.slow
async def test_run_that_broke_off_in_a_living_host_is_taken_up_by_it_and_told(
    project: Project,
) -> None:
    script = {"done": [reports()], "lost": [HANGS], "next": [reports()]}
    away = project.folder / "away"
    async with hosted(project) as (deliveries, ends):
        context = host_context(project)
        runtime = context.runtime
        assert runtime is not None
        assert context.session is not None
        run = RunId((await project.run(TASKS, script, background=True))["run"])
        owned = runtime.find(run)
        assert owned is not None
        await Watch(owned).wait_running("lost")
        faults.install("error:eventlog.append.written:1:ENOSPC")
        try:
            owned.request_cancel("a test")
            await ends.wait_next()
        finally:
            faults.install("")
        assert "No space left" in runtime.broken_off[run]
        project.repo.root.rename(away)
        assert await come_home(context, context.session) == []
        away.rename(project.repo.root)
        assert await deliveries.pending() == []
        assert list(runtime.broken_off) == [run]
        [says] = await come_home(context, context.session)
        assert says.endswith("goes on here; its end will be told")
        await ends.wait_next()
        assert runtime.broken_off == {}
        [found] = await deliveries.pending()
        assert found.run == run


async def test_run_that_is_owned_elsewhere_is_left_alone_and_told_by_name(
    project: Project,
) -> None:
    run = await dies_at_work(project)
    log = project.repo.root / ".git" / "pinata" / run / "events.jsonl"
    before = log.read_bytes()
    lock = project.repo.root / ".git" / "pinata" / "locks" / f"run-{run}.lock"
    async with hosted(project), locks.claim(lock, what="it", holder="process 12"):
        context = host_context(project)
        assert context.session is not None
        assert await come_home(context, context.session) == [
            f"run {run} goes on in process 12, which owns it; it is left alone here"
        ]
    assert log.read_bytes() == before


async def test_run_that_cannot_be_taken_over_is_told_and_stays(project: Project) -> None:
    run = await dies_at_work(project)
    log = project.repo.root / ".git" / "pinata" / run / "events.jsonl"
    before = log.read_bytes()
    (project.folder / "script.json").unlink()
    async with hosted(project) as (deliveries, _):
        context = host_context(project)
        assert context.session is not None
        [says] = await come_home(context, context.session)
        assert says.startswith(f"run {run} has no live owner and cannot be carried on here: ")
        assert "script.json" in says
        assert await deliveries.pending() == []
    assert log.read_bytes() == before


async def test_run_that_settled_while_it_was_looked_for_is_nothing_to_tell(
    project: Project,
) -> None:
    async with hosted(project) as (deliveries, ends):
        answer = await project.run([scout("look")], {"look": [reports()]})
        [owed] = await deliveries._look()
        assert await _look_after(host_context(project), owed) == ""
        assert ends.heard == []
        assert [each.answer for each in await deliveries.pending()] == [answer]


async def test_runs_that_settled_or_cannot_be_read_need_nobody(project: Project) -> None:
    run = await dies_at_work(project)
    log = project.repo.root / ".git" / "pinata" / run / "events.jsonl"
    log.write_bytes(b"*" + log.read_bytes())
    async with hosted(project):
        await project.run([scout("look")], {"look": [reports()]})
        context = host_context(project)
        assert context.session is not None
        assert await come_home(context, context.session) == []


def undo(folder: Path) -> None:
    """Remove all that a run did, as if its process had died at its opening."""
    for made in (folder / "events.jsonl", *folder.glob("transcripts/*"), *folder.glob("results/*")):
        made.unlink()


async def test_run_that_died_before_its_first_event_is_carried_on(project: Project) -> None:
    async with hosted(project):
        answer = await project.run([scout("look")], {"look": [reports()]})
    folder = Path(answer["dir"])
    undo(folder)
    async with hosted(project) as (deliveries, ends):
        context = host_context(project)
        assert context.session is not None
        [says] = await come_home(context, context.session)
        assert "goes on here" in says
        await ends.wait_next()
        [found] = await deliveries.pending()
        assert found.status is Status.SUCCEEDED
