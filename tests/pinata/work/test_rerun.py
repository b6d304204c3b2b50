"""What was lost with its process is started again, from a clean start, and nothing else is."""

import json
import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import ConflictError
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    RepairStarted,
    RerunRequested,
    RunResumed,
    ToolEnded,
    Trace,
)
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import LOST_REASON, Status
from engine.logreader import replay
from engine.store import RunFolder
from pinata import app
from pinata.faces.logs import LogPrinter
from pinata.work.context import Context
from pinata.work.observer import OpenedRun
from pinata.work.result import SavedResult, encode_result
from tests.support.clock import FakeClock
from tests.support.live import agents_left, live
from tests.support.projects import (
    Project,
    Recorder,
    Task,
    Turn,
    approves,
    builder,
    reports,
    requests_changes,
    reviewer,
    scout,
    shell,
    statuses,
    submits,
    task_of,
)

FILES: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n"}
TASKS = [builder("fix", "a.txt", "b.txt"), reviewer("check", "fix")]
HANG: Turn = {"hang": True}
FIRST = AttemptId(TaskId("fix"), 1)
MESSY = "echo lost > a.txt; echo new > junk.txt; mkdir dist; echo made > dist/x"
SCRIPT: dict[str, list[Turn]] = {
    "fix": [shell(MESSY), HANG],
    "fix@2": [shell("cat a.txt; ls; echo two > a.txt"), submits(changedFiles=["a.txt"])],
    "check": [approves()],
}


@dataclass(slots=True)
class Dying(Recorder):
    """Ends the process, as far as a run can tell, after an agent's first call of a tool."""

    task: str = "fix"
    number: int = 1
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def noted(self, event: Trace) -> None:
        Recorder.noted(self, event)
        if isinstance(event, ToolEnded) and event.attempt == attempt(self.task, self.number):
            self.scope.cancel()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


def attempt(task: str, number: int) -> AttemptId:
    return AttemptId(TaskId(task), number)


async def dies(project: Project, dying: Dying, tool: str, arguments: object) -> None:
    """Call a tool in a process that dies during the call."""
    before, project.recorder = project.recorder, dying
    with dying.scope:
        await project.call(tool, arguments)
    project.recorder = before
    assert dying.scope.cancelled_caught


async def lost_run(
    project: Project,
    tasks: Sequence[Task] = TASKS,
    script: Mapping[str, Sequence[Turn]] = SCRIPT,
    task: str = "fix",
    **fields: object,
) -> str:
    """Return the id of a run whose process died while `task` was at work."""
    await dies(project, Dying(task=task), "pinata_run", project.job(tasks, script, **fields))
    (run,) = project.runs
    return run


async def lost_repair(project: Project, **fields: object) -> str:
    """Return the id of a run whose process died while the builder repaired its change."""
    script = {
        "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"], summary="first try")],
        "fix@2": [shell("echo lost > b.txt; echo new > junk.txt"), HANG],
        "fix@3": [shell("cat a.txt; echo three > b.txt"), submits(changedFiles=["a.txt", "b.txt"])],
        "check": [requests_changes()],
        "check@2": [approves()],
    }
    answer = await project.run(TASKS, script, **fields)
    run: str = answer["run"]
    arguments = {"run": run, "task": "fix", "feedback": "b.txt too"}
    await dies(project, Dying(number=2), "pinata_repair", arguments)
    return run


async def rerun(project: Project, run: str) -> dict[str, Any]:
    return await app.rerun_run(app.build_context(project.env, project.repo.root, Recorder()), run)


async def resume(project: Project, run: str) -> dict[str, Any]:
    return await app.resume_run(app.build_context(project.env, project.repo.root, Recorder()), run)


def folder_of(project: Project, run: str) -> RunFolder:
    return RunFolder(project.repo.root / ".git" / "pinata" / RunId(run))


def log_of(project: Project, run: str) -> list[object]:
    return [each.event for each in replay(folder_of(project, run).events_file, RunId(run))]


def conversation(project: Project, run: str, task: str, number: int) -> str:
    return folder_of(project, run).transcript_file(attempt(task, number)).read_text()


def worktree_of(project: Project, run: str) -> Path:
    (found,) = (project.folder / "state" / "pinata" / "worktrees").glob(f"*/{run}/fix")
    return found


async def test_lost_builder_begins_with_a_clean_worktree_and_its_reviewer_follows(
    project: Project,
) -> None:
    run = await lost_run(project)
    closed = await resume(project, run)
    assert statuses(closed) == {"fix": "cancelled", "check": "blocked"}
    assert task_of(closed, "fix")["reason"] == LOST_REASON
    answer = await rerun(project, run)
    assert statuses(answer) == {"fix": "succeeded", "check": "succeeded"}, answer
    fix = task_of(answer, "fix")
    assert (fix["changedFiles"], fix["artifact"]["attempt"]) == (["a.txt"], 2)
    worktree = worktree_of(project, run)
    assert sorted(each.name for each in worktree.iterdir()) == [".git", "a.txt", "b.txt"]
    assert '"one\\na.txt\\nb.txt' in conversation(project, run, "fix", 2)
    assert "## Repair" not in conversation(project, run, "fix", 2)
    assert "void" not in conversation(project, run, "check", 1)


async def test_run_whose_owner_died_is_closed_and_started_again_in_one_go(project: Project) -> None:
    run = await lost_run(project)
    answer = await rerun(project, run)
    assert answer["status"] == "succeeded"
    log = log_of(project, run)
    assert [type(event) for event in log].count(RunResumed) == 1
    assert log.count(RerunRequested((TaskId("fix"),))) == 1
    assert not any(isinstance(event, RepairStarted) for event in log)


async def test_log_of_a_task_tells_of_the_rerun_that_opened_it(project: Project) -> None:
    tasks = [*TASKS, scout("look", after=["check"])]
    script = SCRIPT | {"look": [reports()]}
    run = await lost_run(project, tasks, script)
    await resume(project, run)
    await rerun(project, run)
    lines: list[str] = []

    def show(text: str) -> bool:
        lines.extend(text.splitlines())
        return True

    def print_log() -> None:
        given = Namespace(task="look", json=True)
        LogPrinter(folder_of(project, run), given, show).print_new()

    await trio.to_thread.run_sync(print_log)
    opened = [line for line in map(json.loads, lines) if line["type"] == "rerun_requested"]
    assert [each["agents"] for each in opened] == [["fix", "check", "look"]]
    assert not any(line["type"] == "run_resumed" for line in map(json.loads, lines))


async def test_what_a_rerun_came_to_is_integrated_like_anything_else(project: Project) -> None:
    run = await lost_run(project)
    await rerun(project, run)
    answer = await project.call("pinata_integrate", {"run": run})
    assert answer["status"] == "applied_unverified"
    assert (project.repo.root / "a.txt").read_text() == "two\n"


async def test_second_rerun_is_refused_and_records_nothing(project: Project) -> None:
    run = await lost_run(project)
    await rerun(project, run)
    before = folder_of(project, run).events_file.read_bytes()
    with pytest.raises(ConflictError, match=r"^no task of the run was lost, so nothing is started"):
        await rerun(project, run)
    assert folder_of(project, run).events_file.read_bytes() == before


async def test_costs_of_lost_attempts_stay_counted(project: Project) -> None:
    usage = {"input": 1_000, "output": 1_000, "costUsd": 0.25}
    script = SCRIPT | {"fix": [{**shell("true"), "usage": usage}, HANG]}
    run = await lost_run(project, script=script)
    closed = await resume(project, run)
    assert closed["costUsd"] == 0.25
    answer = await rerun(project, run)
    assert answer["costUsd"] >= 0.25
    assert answer["tokens"] >= closed["tokens"] > 0


async def test_lost_repair_is_given_again_in_a_clean_worktree_with_what_was_to_be_repaired(
    project: Project,
) -> None:
    run = await lost_repair(project)
    answer = await rerun(project, run)
    assert statuses(answer) == {"fix": "succeeded", "check": "succeeded"}, answer
    fix = task_of(answer, "fix")
    assert (fix["changedFiles"], fix["artifact"]["attempt"]) == (["a.txt", "b.txt"], 3)
    assert (worktree_of(project, run) / "b.txt").read_text() == "three\n"
    assert not (worktree_of(project, run) / "junk.txt").exists()
    said = conversation(project, run, "fix", 3)
    assert "> b.txt too" in said
    assert "first try" in said
    assert "succeeded" in said
    assert LOST_REASON not in said
    (notice,) = fix["notices"]
    assert notice.startswith("attempt 2 was lost: a new worktree holds the captured change of att")
    assert "earlier approvals are void" in conversation(project, run, "check", 2)


async def test_what_was_brought_into_the_lost_worktree_hides_nothing_in_the_new_one(
    project: Project,
) -> None:
    for name in (".gitignore", ".worktreeinclude"):
        project.repo.write(name, "*.local\n")
    project.repo.write("x.local", "mine\n")
    changed = [".gitignore", "x.local"]
    makes = [shell("> .gitignore; echo new > x.local"), submits(changedFiles=changed)]
    script = {"fix": [shell("cat x.local"), HANG], "fix@2": makes, "check": [approves()]}
    tasks = [builder("fix", *changed), reviewer("check", "fix")]
    run = await lost_run(project, tasks, script)
    assert "mine" in conversation(project, run, "fix", 1)
    (project.repo.root / "x.local").unlink()
    answer = await rerun(project, run)
    assert task_of(answer, "fix")["changedFiles"] == changed, answer


async def test_repairs_that_were_used_stay_used_and_a_rerun_is_none(project: Project) -> None:
    run = await lost_repair(project, config={"limits": {"repairs": 1}})
    await rerun(project, run)
    log = log_of(project, run)
    assert [each for each in log if isinstance(each, RepairStarted)] == [
        RepairStarted(attempt("fix", 2))
    ]
    with pytest.raises(ConflictError, match=r"repaired once and limits\.repairs is 1"):
        await project.call("pinata_repair", {"run": run, "task": "fix", "feedback": "more"})


async def test_messages_to_the_attempt_before_a_lost_repair_still_reach_the_reviewer(
    project: Project,
) -> None:
    project.recorder = Steering()
    run = await lost_repair(project)
    await rerun(project, run)
    assert "mind the gap" in conversation(project, run, "check", 2)


@dataclass(slots=True)
class Steering(Recorder):
    """Sends the builder's first attempt a message."""

    opened: OpenedRun | None = None

    def run_opened(self, run: OpenedRun) -> None:
        Recorder.run_opened(self, run)
        self.opened = run

    def noted(self, event: Trace) -> None:
        if isinstance(event, ToolEnded) and (event.attempt, event.tool) == (FIRST, "bash"):
            assert self.opened is not None
            self.opened.steer(FIRST.task, "mind the gap")


async def test_lost_reviewer_runs_anew_and_the_builder_does_not(project: Project) -> None:
    script = SCRIPT | {
        "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
        "check": [shell("true"), HANG],
        "check@2": [approves()],
    }
    run = await lost_run(project, script=script, task="check")
    before = await project.result(run, "fix")
    answer = await rerun(project, run)
    assert statuses(answer) == {"fix": "succeeded", "check": "succeeded"}, answer
    assert await project.result(run, "fix") == before
    assert "void" not in conversation(project, run, "check", 2)


async def test_several_tasks_that_were_lost_are_all_started_again_and_no_other(
    project: Project,
) -> None:
    tasks = [scout("one"), scout("two"), scout("done"), scout("last", after=["one", "done"])]
    script = {"one": [shell("true"), HANG], "two": [HANG], "done": [reports()], "last": [reports()]}
    script |= {f"{task}@2": [reports()] for task in ("one", "two", "done")}
    await dies(project, Dying(task="one"), "pinata_run", project.job(tasks, script))
    (run,) = project.runs
    before = log_of(project, run)
    answer = await rerun(project, run)
    assert answer["status"] == "succeeded", answer
    log = log_of(project, run)
    starts = [event.attempt for event in log if isinstance(event, AttemptStarted)]
    ended = {event.attempt for event in before if isinstance(event, AttemptSettled)}
    again = {event for event in starts if event.number == 2}
    assert len(starts) == len(set(starts))
    assert again == {attempt(each.task, 2) for each in starts if each.number == 1} - {
        attempt(each.task, 2) for each in {*ended, attempt("last", 1)}
    }
    assert attempt("one", 2) in again


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("look", "no task of the run was lost, so nothing is started again: repair a builder, or"),
        (None, "the run was stopped (enough), so nothing of it is started again: start a new run"),
    ],
    ids=["a task", "the run"],
)
async def test_what_somebody_cancelled_is_not_started_again(
    project: Project, task: str | None, sentence: str
) -> None:
    project.recorder = working = Working()
    script = {"look": [shell("true"), HANG]}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(project.run, [scout("look")], script)
        await working.works.wait()
        assert working.opened is not None
        await working.opened.record_cancel("enough", None if task is None else TaskId(task))
    (run,) = project.runs
    if task is None:
        forget_end(folder_of(project, run))
    with pytest.raises(ConflictError, match=f"^{re.escape(sentence)}"):
        await rerun(project, run)


def forget_end(folder: RunFolder) -> None:
    """Have a log end before anything had settled, as it does when the owner dies then."""
    lines = folder.events_file.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b"settled" not in line]
    folder.events_file.write_bytes(b"".join(kept))


async def test_time_in_which_the_run_is_settled_does_not_count(project: Project) -> None:
    clock = FakeClock()

    def context(recorder: Recorder) -> Context:
        built = app.build_context(project.env, project.repo.root, recorder)
        return replace(built, clock=clock)

    dying = Dying()
    job = project.job(TASKS, SCRIPT, config={"limits": {"jobMs": 60_000}})
    with dying.scope:
        await app.call_tool(context(dying), "pinata_run", job)
    (run,) = project.runs
    assert (await app.resume_run(context(Recorder()), run))["status"] == "failed"
    clock.advance(3_600_000)
    answer = await app.rerun_run(context(Recorder()), run)
    assert (answer["status"], answer["elapsedMs"]) == ("succeeded", 0)


async def test_run_that_is_out_of_time_is_refused(project: Project) -> None:
    run = await lost_run(project)
    folder = folder_of(project, run)
    record = json.loads(folder.run_file.read_text())
    record["deadline_at_ms"] = record["started_at_ms"] + 1
    folder.run_file.write_text(json.dumps(record))
    before = folder.events_file.read_bytes()
    with pytest.raises(ConflictError, match=r"^the run has used up its 5400000 ms, so nothing of"):
        await rerun(project, run)
    assert folder.events_file.read_bytes() == before


async def test_run_that_somebody_carries_on_is_refused_naming_the_process(
    project: Project,
) -> None:
    run = await lost_run(project, script=SCRIPT | {"fix@2": [shell("true"), HANG]})
    working = Working()
    context = app.build_context(project.env, project.repo.root, working)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app.rerun_run, context, run)
        await working.works.wait()
        with pytest.raises(ConflictError, match=rf"process {os.getpid()}\b"):
            await rerun(project, run)
        assert working.opened is not None
        working.opened.cancel("seen")


@dataclass(slots=True)
class Working(Recorder):
    """Tells when an agent is at work."""

    opened: OpenedRun | None = None
    works: trio.Event = field(default_factory=trio.Event)

    def run_opened(self, run: OpenedRun) -> None:
        Recorder.run_opened(self, run)
        self.opened = run

    def noted(self, event: Trace) -> None:
        if isinstance(event, ToolEnded):
            self.works.set()


async def test_result_that_was_saved_in_time_counts_and_is_not_made_again(
    project: Project,
) -> None:
    tasks = [scout("look"), scout("later", after=["look"])]
    script = {"look": [shell("true"), HANG], "look@2": [reports()], "later": [reports()]}
    run = await lost_run(project, tasks, script, task="look")
    folder = folder_of(project, run)
    saved = SavedResult(
        task=TaskId("look"),
        agent="scout",
        attempt=1,
        status=Status.FAILED,
        reason="gave up",
    )
    await trio.to_thread.run_sync(folder.save_result, attempt("look", 1), encode_result(saved))
    before = folder.events_file.read_bytes()
    with pytest.raises(ConflictError, match=r"^no task of the run was lost: resume the run"):
        await rerun(project, run)
    assert folder.events_file.read_bytes() == before
    assert statuses(await resume(project, run)) == {"look": "failed", "later": "blocked"}


async def test_worktree_that_was_replaced_is_refused_before_anything_is_recorded(
    project: Project,
) -> None:
    run = await lost_run(project)
    worktree = worktree_of(project, run)
    worktree.rename(worktree.with_name("aside"))
    worktree.mkdir()
    (worktree / "precious.txt").write_text("a person's\n")
    before = folder_of(project, run).events_file.read_bytes()
    with pytest.raises(ConflictError, match=r"^its worktree was replaced"):
        await rerun(project, run)
    assert (worktree / "precious.txt").read_text() == "a person's\n"
    assert folder_of(project, run).events_file.read_bytes() == before


@pytest.mark.slow
def test_run_that_was_killed_is_closed_then_started_again_and_then_no_more(
    project: Project,
) -> None:
    fix, check = builder("fix", "a.txt", after=["look"]), reviewer("check", "fix")
    tasks = [scout("look"), fix, check, scout("later", after=["look", "check"])]
    script = SCRIPT | {
        "fix": [shell(MESSY), shell("sleep 600")],
        "look": [reports()],
        "later": [reports()],
    }
    job = str(project.write_job(project.job(tasks, script)))
    with live(project, "run", job, "--json", "--mode", "observe") as run:
        run.wait_event("agent_settled")
        run.wait_event("tool_end")
        run.process.kill()
        run.end()
    (id_,) = project.runs
    closed = trio.run(resume, project, id_)
    assert statuses(closed) == {
        "look": "succeeded",
        "fix": "cancelled",
        "check": "blocked",
        "later": "blocked",
    }
    assert task_of(closed, "fix")["reason"] == LOST_REASON
    again = project.pinata("rerun", id_[:8], "--plain")
    assert again.returncode == 0, again.stderr
    assert "rerun requested: fix, check and later" in again.stdout
    assert "look: started" not in again.stdout
    assert f"to apply it: pinata integrate {id_}" in again.stderr
    with pytest.raises(ConflictError, match=r"^no task of the run was lost"):
        trio.run(rerun, project, id_)
    assert agents_left(project) == []
