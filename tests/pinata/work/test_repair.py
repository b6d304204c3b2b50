"""A repaired change is one change since the base, judged anew; the one before counts no more."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import ConflictError, UsageError
from engine.core.events import RepairStarted
from engine.core.ids import AttemptId, RunId, TaskId
from engine.records.event import Logged
from engine.store import RunFolder
from pinata import app
from tests.support.clock import FakeClock
from tests.support.projects import (
    Project,
    Recorder,
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
SCRIPT: dict[str, list[Turn]] = {
    "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"], summary="first try")],
    "fix@2": [shell("echo three > b.txt"), submits(changedFiles=["a.txt", "b.txt"])],
    "check": [requests_changes(summary="b.txt is missing")],
    "check@2": [approves()],
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


async def repair(
    project: Project, run: str, task: str = "fix", feedback: str = "b.txt too"
) -> dict[str, Any]:
    return await project.call("pinata_repair", {"run": run, "task": task, "feedback": feedback})


async def rejected_run(
    project: Project, script: Mapping[str, Sequence[Turn]] | None = None, **fields: object
) -> str:
    answer = await project.run(TASKS, SCRIPT | dict(script or {}), **fields)
    assert statuses(answer) == {"fix": "succeeded", "check": "rejected"}, answer
    run: str = answer["run"]
    return run


def folder_of(project: Project, run: str) -> RunFolder:
    return RunFolder(project.repo.root / ".git" / "pinata" / RunId(run))


def attempt(task: str, number: int) -> AttemptId:
    return AttemptId(TaskId(task), number)


def brief(folder: RunFolder, task: str, number: int) -> str:
    lines = folder.transcript_file(attempt(task, number)).read_text().splitlines()
    for line in map(json.loads, lines):
        message = line.get("message", {})
        if message.get("role") == "user":
            content = message["content"]
            return content if isinstance(content, str) else content[0]["text"]
    raise AssertionError(lines)


def worktree_of(project: Project, run: str) -> Path:
    (found,) = (project.folder / "state" / "pinata" / "worktrees").glob(f"*/{run}/fix")
    return found


def forget_worktree(project: Project, worktree: Path) -> None:
    """Have Git know nothing of a worktree any more."""
    for known in (project.repo.root / ".git" / "worktrees").iterdir():
        if (known / "gitdir").read_text().strip() == str(worktree / ".git"):
            shutil.rmtree(known)


async def test_rejected_change_is_mended_and_reviewed_as_what_it_is_then(project: Project) -> None:
    run = await rejected_run(project)
    before = await project.result(run, "fix")
    answer = await repair(project, run)
    assert answer["status"] == "succeeded"
    fix, check = task_of(answer, "fix"), task_of(answer, "check")
    assert fix["changedFiles"] == ["a.txt", "b.txt"]
    assert fix["artifact"]["attempt"] == 2
    assert fix["artifact"]["base"] == before["artifact"]["base"]
    assert fix["artifact"]["fingerprint"] != before["artifact"]["fingerprint"]
    assert check["review"]["fingerprint"] == fix["artifact"]["fingerprint"]
    assert (check["verdict"], check["review"]["current"]) == ("approve", True)


async def test_briefs_of_a_repair_say_what_is_to_be_mended_and_what_is_void(
    project: Project,
) -> None:
    run = await rejected_run(project)
    await repair(project, run, feedback="change b.txt\ntoo")
    folder = folder_of(project, run)
    mend = brief(folder, "fix", 2)
    assert "## Repair" in mend
    assert "> change b.txt\n> too" in mend
    assert '"summary":"first try"' in mend
    assert "earlier approvals are void" in brief(folder, "check", 2)
    assert "## Repair" not in brief(folder, "fix", 1)
    assert "void" not in brief(folder, "check", 1)


async def test_every_attempt_stays_readable_beside_the_others(project: Project) -> None:
    run = await rejected_run(project)
    folder = folder_of(project, run)
    files = [
        folder.attempt_result_file(attempt("fix", 1)),
        folder.patch_file(attempt("fix", 1)),
        folder.transcript_file(attempt("fix", 1)),
        folder.attempt_result_file(attempt("check", 1)),
        folder.review_file(attempt("check", 1)),
        folder.transcript_file(attempt("check", 1)),
    ]
    before = [path.read_bytes() for path in files]
    refs = {name: id_ for name, id_ in project.refs().items() if name.endswith("/tasks/fix/1")}
    await repair(project, run)
    assert [path.read_bytes() for path in files] == before
    assert all(path.with_name(path.name.replace(".1.", ".2.")).is_file() for path in files)
    assert (await project.result(run, "fix"))["attempt"] == 2
    assert refs.items() <= project.refs().items()
    assert f"refs/pinata/{run}/tasks/fix/2" in project.refs()


REFUSALS: dict[str, tuple[str, str]] = {
    "a reviewer": ("check", "task check is a reviewer's, and repair is for builders"),
    "a reader": ("look", "task look is a reader's, and repair is for builders"),
    "a builder that was built upon": ("one", "task two has worked with the result of task one"),
}


@pytest.mark.parametrize(("task", "sentence"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_refused_repair_says_why_and_changes_nothing(
    project: Project, task: str, sentence: str
) -> None:
    answer = await project.run(
        [
            *TASKS,
            builder("one", "c.txt"),
            builder("two", "d.txt", after=["one"]),
            scout("look"),
        ],
        SCRIPT
        | {
            "one": [shell("echo c > c.txt"), submits(changedFiles=["c.txt"])],
            "two": [shell("echo d > d.txt"), submits(changedFiles=["d.txt"])],
            "look": [reports()],
        },
    )
    folder = folder_of(project, answer["run"])
    log = folder.events_file.read_bytes()
    with pytest.raises(ConflictError, match=sentence):
        await repair(project, answer["run"], task)
    assert folder.events_file.read_bytes() == log


async def test_repairs_are_counted_over_all_processes_and_end_at_the_limit(
    project: Project,
) -> None:
    run = await rejected_run(project, config={"limits": {"repairs": 1}})
    await repair(project, run)
    folder = folder_of(project, run)
    log = folder.events_file.read_bytes()
    refused = project.pinata("repair", run, "fix", "--feedback", "once more")
    assert refused.returncode == 4
    assert refused.stderr == (
        "pinata: task fix was repaired once and limits.repairs is 1: start a new run\n"
    )
    assert folder.events_file.read_bytes() == log


async def test_repair_whose_agent_never_started_does_not_count(project: Project) -> None:
    run = await rejected_run(project, {"fix@3": SCRIPT["fix@2"]}, config={"limits": {"repairs": 1}})
    worktree = worktree_of(project, run)
    # Made before the other goes, or it could be given the same inode.
    other = project.folder / "other"
    other.mkdir()
    shutil.rmtree(worktree)
    forget_worktree(project, worktree)
    other.rename(worktree)
    failed = await repair(project, run)
    assert statuses(failed) == {"fix": "failed", "check": "blocked"}
    assert "its worktree was replaced" in task_of(failed, "fix")["reason"]
    worktree.rmdir()
    assert (await repair(project, run))["status"] == "succeeded"


async def test_worktree_that_is_gone_is_made_anew_with_the_earlier_change(
    project: Project,
) -> None:
    project.repo.write("setup.sh", "echo once >> $PINATA_ROOT/../setups; echo x > ignored.txt\n")
    project.repo.write(".gitignore", "ignored.txt\n")
    project.repo.commit("setup")
    run = await rejected_run(
        project,
        {
            "fix": [
                shell("rm a.txt; mkdir n; echo n > b.txt"),
                submits(changedFiles=["a.txt", "b.txt"]),
            ]
        },
        config={"setup": "sh setup.sh"},
    )
    shutil.rmtree(worktree_of(project, run))
    answer = await repair(project, run)
    fix = task_of(answer, "fix")
    assert answer["status"] == "succeeded", answer
    assert fix["changedFiles"] == ["a.txt", "b.txt"]
    assert any("the worktree of attempt 1 was gone" in notice for notice in fix["notices"])
    assert not (worktree_of(project, run) / "a.txt").exists()
    assert (project.folder / "setups").read_text() == "once\nonce\n"


async def test_worktree_that_cannot_be_made_whole_again_is_not_taken_for_whole_later(
    project: Project,
) -> None:
    project.repo.write(".gitattributes", "*.loud filter=loud\n")
    project.repo.commit("attributes")
    for key, value in (("clean", "cat"), ("smudge", "cat"), ("required", "true")):
        project.repo.git("config", f"filter.loud.{key}", value)
    first = [shell("echo x > x.loud"), submits(changedFiles=["x.loud"])]
    then = [shell("echo y > y.loud"), submits(changedFiles=["x.loud", "y.loud"])]
    script = {"fix": first, "fix@2": then, "fix@3": then, "check@3": [approves()]}
    tasks = [builder("fix", "x.loud", "y.loud"), reviewer("check", "fix")]
    answer = await project.run(tasks, SCRIPT | script)
    run = answer["run"]
    shutil.rmtree(worktree_of(project, run))
    project.repo.git("config", "filter.loud.smudge", "false")
    failed = task_of(await repair(project, run), "fix")
    assert failed["status"] == "failed"
    assert "smudge filter" in failed["reason"]
    assert not list((project.folder / "state" / "pinata" / "worktrees").glob(f"*/{run}/fix"))
    project.repo.git("config", "filter.loud.smudge", "cat")
    answer = await repair(project, run)
    assert task_of(answer, "fix")["changedFiles"] == ["x.loud", "y.loud"]


async def test_setup_is_not_run_again_in_a_worktree_that_is_still_there(project: Project) -> None:
    project.repo.write("setup.sh", "echo once >> $PINATA_ROOT/../setups; echo x > ignored.txt\n")
    project.repo.write(".gitignore", "ignored.txt\n")
    project.repo.commit("setup")
    run = await rejected_run(project, config={"setup": "sh setup.sh"})
    answer = await repair(project, run)
    assert answer["status"] == "succeeded"
    assert (project.folder / "setups").read_text() == "once\n"
    assert "notices" not in task_of(answer, "fix")


async def test_setup_that_failed_is_run_again_and_judged_by_what_it_changes_itself(
    project: Project,
) -> None:
    setup = "test -e $PINATA_ROOT/../ready || exit 3; echo x > ignored.txt"
    project.repo.write(".gitignore", "ignored.txt\n")
    project.repo.commit("ignore")
    script = {"fix": [], "check": [approves()]}
    answer = await project.run(TASKS, SCRIPT | script, config={"setup": setup})
    assert statuses(answer) == {"fix": "failed", "check": "blocked"}
    (project.folder / "ready").touch()
    answer = await repair(project, answer["run"])
    assert task_of(answer, "fix")["changedFiles"] == ["b.txt"]


async def test_what_an_earlier_attempt_did_to_its_worktrees_ties_is_put_right(
    project: Project,
) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -qam moved; rm .git"
    answer = await project.run(
        TASKS,
        SCRIPT
        | {
            "fix": [shell(f"echo two > a.txt; {commit}"), submits(changedFiles=["a.txt"])],
            "fix@2": [
                shell("git log --oneline | wc -l > b.txt"),
                submits(changedFiles=["a.txt", "b.txt"]),
            ],
            "check": [approves()],
        },
    )
    assert "moved HEAD" in task_of(answer, "fix")["reason"]
    answer = await repair(project, answer["run"])
    assert answer["status"] == "succeeded", answer
    assert (worktree_of(project, answer["run"]) / "b.txt").read_text().strip() == "1"


async def test_ignored_file_of_an_earlier_attempt_is_still_told_of(project: Project) -> None:
    project.repo.write(".gitignore", "ignored.txt\n")
    project.repo.commit("ignore")
    leave = "echo two > a.txt; echo x > ignored.txt"
    run = await rejected_run(project, {"fix": [shell(leave), submits(changedFiles=["a.txt"])]})
    answer = await repair(project, run)
    assert any("ignored.txt" in notice for notice in task_of(answer, "fix")["notices"])


HOOK = "H=$(git rev-parse --path-format=absolute --git-common-dir)/hooks/post-commit"


@pytest.mark.parametrize("is_gone", [False, True], ids=["kept", "worktree gone"])
async def test_hook_of_an_earlier_attempt_is_not_forgiven_until_it_is_gone(
    project: Project, *, is_gone: bool
) -> None:
    own = "git config extensions.worktreeConfig true" if is_gone else ":"
    plant = f"{own}; {HOOK}; mkdir -p ${{H%/*}}; echo : > $H; chmod +x $H"
    plant = f"echo two > a.txt; {plant}"
    script = {"fix": [shell(plant), submits()], "fix@3": SCRIPT["fix@2"], "check": [approves()]}
    answer = await project.run(TASKS, SCRIPT | script)
    assert "hooks/post-commit" in task_of(answer, "fix")["reason"]
    if is_gone:
        shutil.rmtree(worktree_of(project, answer["run"]))
    failed = task_of(await repair(project, answer["run"]), "fix")
    assert failed["reason"].startswith("since its first attempt began, what decides what Git sees")
    assert "hooks/post-commit" in failed["reason"]
    assert failed["reason"].endswith("; put that back as it was, or start a new run")
    (project.repo.root / ".git" / "hooks" / "post-commit").unlink()
    if is_gone:
        project.repo.git("config", "--unset", "extensions.worktreeConfig")
    answer = await repair(project, answer["run"])
    assert answer["status"] == "succeeded", answer


async def test_what_earlier_attempts_cost_stays_in_the_totals_and_in_the_limit(
    project: Project,
) -> None:
    def dear(turns: Sequence[Turn]) -> list[Turn]:
        usage = {"input": 10, "output": 5, "costUsd": 0.6}
        return [{**turns[0], "usage": usage}, *turns[1:]]

    script = {"fix": dear(SCRIPT["fix"]), "fix@2": dear(SCRIPT["fix@2"])}
    run = await rejected_run(project, script, config={"limits": {"costUsd": 1.0}})
    answer = await repair(project, run)
    assert (answer["status"], answer["costUsd"], answer["tokens"]) == ("cancelled", 1.2, 30)
    assert "cost limit" in task_of(answer, "fix")["reason"]


async def test_job_clock_stands_still_while_the_run_is_settled(project: Project) -> None:
    clock = FakeClock()

    async def call(tool: str, arguments: object) -> dict[str, Any]:
        context = app.build_context(project.env, project.repo.root, project.recorder)
        return await app.call_tool(replace(context, clock=clock), tool, arguments)

    job = project.job(TASKS, SCRIPT, config={"limits": {"jobMs": 60_000}})
    run = (await call("pinata_run", job))["run"]
    clock.advance(3_600_000)
    request = {"run": run, "task": "fix", "feedback": "b.txt too"}
    answer = await call("pinata_repair", request)
    assert (answer["status"], answer["elapsedMs"]) == ("succeeded", 0)


async def test_run_out_of_time_is_not_repaired(project: Project) -> None:
    run = await rejected_run(project)
    folder = folder_of(project, run)
    record = json.loads(folder.run_file.read_text())
    record["deadline_at_ms"] = record["started_at_ms"] + 1
    folder.run_file.write_text(json.dumps(record))
    with pytest.raises(ConflictError, match="task fix cannot be repaired, since the run has used"):
        await repair(project, run)


async def test_integration_during_a_repair_never_takes_the_change_from_before(
    project: Project,
) -> None:
    started, gate = project.folder / "started", project.folder / "gate"
    os.mkfifo(gate)
    waits = f"echo x > {started}; read go < {gate}; echo three > b.txt"
    answer = await project.run(
        TASKS,
        SCRIPT
        | {
            "fix@2": [shell(waits), submits(changedFiles=["a.txt", "b.txt"])],
            "check": [approves()],
            "check@2": [approves()],
        },
    )
    run = answer["run"]
    assert answer["status"] == "succeeded"

    async def mend() -> None:
        assert (await repair(project, run))["status"] == "succeeded"

    def integrate_meanwhile() -> tuple[Any, Any]:
        while not started.exists():
            pass
        refused = project.pinata("integrate", run)
        seen = project.pinata("status", run, "--json")
        gate.write_text("go\n")
        return refused, json.loads(seen.stdout)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mend)
        refused, seen = await trio.to_thread.run_sync(integrate_meanwhile)
    assert refused.returncode == 4
    assert f"process {os.getpid()}" in refused.stderr
    assert statuses(seen) == {"fix": "running", "check": "queued"}
    assert "artifact" not in task_of(seen, "fix")
    assert (project.repo.root / "a.txt").read_text() == "one\n"
    await project.call("pinata_integrate", {"run": run})
    assert (project.repo.root / "b.txt").read_text() == "three\n"


@dataclass
class Killer(Recorder):
    """Ends the process's work the moment that a repair begins to count."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def happened(self, logged: Logged) -> None:
        if isinstance(logged.event, RepairStarted):
            self.scope.cancel()


async def test_change_from_before_a_repair_that_died_is_never_integrated(
    project: Project,
) -> None:
    answer = await project.run(TASKS, SCRIPT | {"check": [approves()], "fix@2": [{"hang": True}]})
    run = answer["run"]
    project.recorder = killer = Killer()
    with killer.scope:
        await repair(project, run)
    assert killer.scope.cancelled_caught
    with pytest.raises(ConflictError, match="task fix is running"):
        await project.call("pinata_integrate", {"run": run})
    closed = project.pinata("resume", run)
    assert closed.returncode == 1
    with pytest.raises(ConflictError, match="task fix is cancelled"):
        await project.call("pinata_integrate", {"run": run})
    with pytest.raises(ConflictError, match="task fix was cancelled, which no repair mends"):
        await repair(project, run)
    assert (project.repo.root / "a.txt").read_text() == "one\n"


async def test_repaired_change_replaces_the_integrated_one_and_rollback_leads_to_the_start(
    project: Project,
) -> None:
    project.repo.write("a.txt", "mine\n")
    first = [
        shell("echo two > a.txt; echo n > new.txt"),
        submits(changedFiles=["a.txt", "new.txt"]),
    ]
    then = [shell("rm new.txt; echo three > b.txt"), submits(changedFiles=["a.txt", "b.txt"])]
    script = {"fix": first, "fix@2": then, "check": [approves()]}
    answer = await project.run(
        [builder("fix", "a.txt", "b.txt", "new.txt"), reviewer("check", "fix")],
        SCRIPT | script,
        integratedChecks=[{"id": "seen", "argv": ["test", "-f", "a.txt"]}],
    )
    run = answer["run"]
    assert (await project.call("pinata_integrate", {"run": run}))["status"] == "verified"
    assert (await repair(project, run))["status"] == "succeeded"
    root = project.repo.root
    assert (root / "new.txt").exists()
    done = await project.call("pinata_integrate", {"run": run})
    assert (done["status"], done["receipt"]["application"]) == ("verified", "exact")
    assert [entry["path"] for entry in done["files"]] == ["a.txt", "b.txt"]
    now = {name: (root / name).read_text() for name in ("a.txt", "b.txt")}
    assert now == {"a.txt": "two\n", "b.txt": "three\n"}
    assert not (root / "new.txt").exists()
    again = await project.call("pinata_integrate", {"run": run})
    assert again["status"] == "verified"
    await project.call("pinata_rollback", {"run": run, "confirm": True})
    now = {name: (root / name).read_text() for name in ("a.txt", "b.txt")}
    assert now == {"a.txt": "mine\n", "b.txt": "b\n"}
    assert project.repo.git("status", "--porcelain") == b" M a.txt\n"


async def test_command_shows_the_repair_and_takes_feedback_from_a_file(project: Project) -> None:
    run = await rejected_run(project)
    feedback = project.folder / "feedback.txt"
    feedback.write_text("b.txt too\n")
    done = project.pinata("repair", run[:8], "fix", "--feedback-file", str(feedback))
    assert done.returncode == 0, done.stderr
    assert "fix: repair requested: b.txt too" in done.stdout
    assert "fix: started (builder, attempt 2)" in done.stdout
    assert f"to apply it: pinata integrate {run}" in done.stderr
    feedback.write_bytes(b"\xff")
    refused = project.pinata("repair", run, "fix", "--feedback-file", str(feedback))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is not UTF-8 text" in refused.stderr


async def test_latest_run_is_the_one_that_started_last_whatever_was_repaired_since(
    project: Project,
) -> None:
    older = await rejected_run(project)
    newer = await rejected_run(project)
    await repair(project, older)
    assert (await project.call("pinata_status", {}))["run"] == newer


async def test_repair_of_nothing_in_particular_is_no_valid_call(project: Project) -> None:
    run = await rejected_run(project)
    with pytest.raises(UsageError, match="feedback: is blank"):
        await repair(project, run, feedback=" \n")
    with pytest.raises(UsageError, match="is longer than 64 KiB"):
        await repair(project, run, feedback="x" * 70_000)
    with pytest.raises(UsageError, match='"other" is not a task of this run'):
        await repair(project, run, "other")
