"""Whatever write fails, the answer is a sentence and the next command works.

A recording run lists the crash points that a scenario passes; then the scenario is repeated once
for each of them with an error of the system there, so a new durable step is tested without
touching this file.
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import ConflictError, PinataError
from engine.system import faults
from pinata import app
from tests.support.projects import (
    PASS,
    Project,
    approves,
    builder,
    reviewer,
    shell,
    submits,
)
from tests.support.repos import RepoBuilder, git_env
from tests.test_kills import CHANGE, CHANGED, checkout, new_project

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

Answer = dict[str, Any]
Call = Callable[[], Awaitable[Answer]]
Fault = tuple[str, int, str]
Scenario = Callable[[Path, Fault], Awaitable[None]]

_OPEN = ("queued", "running")
# Each part is a test of its own, so that none of them takes minutes.
_PARTS = range(6)
_HALVES = range(2)
# Tried once more with an error of permissions, and one of the medium. What a snapshot, a worktree,
# a capture, an apply and a rollback do at each of them is tested apart, and faster.
_ALSO = ("run.record.written", "store.result.renamed")


def job(project: Project) -> Answer:
    return project.job(
        [builder("fix", *CHANGED), reviewer("check", "fix")],
        {"fix": [shell(CHANGE), submits(changedFiles=CHANGED)], "check": [approves()]},
        integratedChecks=[{"id": "seen", "argv": PASS}],
    )


async def run(project: Project) -> Answer:
    return await project.call("pinata_run", job(project))


async def resume(project: Project, run: str) -> Answer:
    context = app.build_context(project.env, project.repo.root, project.recorder)
    return await app.resume_run(context, run)


async def integrate(project: Project, run: str) -> Answer:
    return await project.call("pinata_integrate", {"run": run})


async def roll_back(project: Project, run: str) -> Answer:
    return await project.call("pinata_rollback", {"run": run, "confirm": True})


async def faults_of(names: Path, call: Call, *, passes: int | None = None) -> list[Fault]:
    """Carry out a call, and return a full disk at each point that it passes, and some more.

    Args:
        names: where the points are written down.
        call: the call.
        passes: how many passes of one point count; None for all of them.
    """
    faults.install(f"record:{names}")
    try:
        await call()
    finally:
        faults.install("")
    seen: Counter[str] = Counter()
    found: list[Fault] = []
    for name in (await trio.to_thread.run_sync(names.read_text)).split():
        seen[name] += 1
        if passes is not None and seen[name] > passes:
            continue
        also = ("EACCES", "EIO") if name in _ALSO and seen[name] == 1 else ()
        found += [(name, seen[name], code) for code in ("ENOSPC", *also)]
    assert found
    return found


async def failing(fault: Fault, call: Call) -> Answer | None:
    """Carry out a call that meets an error of the system; None when it said so in a sentence.

    What it raises beside that would be a traceback for a person, and fails the test.
    """
    faults.install(":".join(("error", *map(str, fault))))
    said = None
    try:
        return await call()
    except PinataError as error:
        said = str(error)
    finally:
        faults.install("")
    assert said
    assert "\n" not in said
    return None


async def for_each(found: list[Fault], folder: Path, scenario: Scenario) -> None:
    """Repeat a scenario once for each fault, and fail with all that failed."""
    wrong = []
    for number, fault in enumerate(found):
        try:
            await scenario(folder / f"at-{number}", fault)
        except Exception as error:  # noqa: BLE001 - told for each
            wrong.append(f"{fault}: {error!r}")
    assert wrong == []


def copied(fresh: Path, folder: Path) -> Project:
    """Return a project of its own in `folder`, equal to the one in `fresh`."""
    shutil.copytree(fresh, folder, symlinks=True)
    root = folder / "repo"
    return Project(RepoBuilder(root, git_env(root.with_name("repo-home"))), folder)


async def answers(project: Project) -> dict[str, Answer]:
    """Return the tasks of the latest run as the status shows them; none without a run."""
    status = await project.call("pinata_status", {})
    return {task["id"]: task for task in status.get("tasks", [])}


def assert_nothing_half_made(project: Project) -> None:
    """Fail if a worktree, its announcement, a private index or a staged file is left half made."""
    listed = project.repo.ask("worktree", "list", "--porcelain")
    assert "initializing" not in listed
    assert "prunable" not in listed
    made = project.repo.root / ".git" / "pinata"
    left = [p for p in made.rglob("*") if p.suffix == ".intent" or p.parent.name == "scratch"]
    left += [p for p in made.rglob(".*") if p.is_file()]
    assert left == []
    assert "pinata" not in project.repo.ask("status", "--porcelain", "--ignored")


def assert_results_survive_collection(project: Project) -> None:
    """Fail if Git may throw away an object that a saved result names."""
    project.repo.git("prune", "--expire=now")
    named = set()
    for path in (project.repo.root / ".git" / "pinata").glob("*/results/*.json"):
        artifact = json.loads(path.read_bytes())["artifact"]
        if artifact is not None:
            names = ("base_commit", "base_tree", "result_commit", "result_tree")
            named |= {artifact[name] for name in names}
    if named:
        project.repo.git("rev-list", "--objects", "--quiet", *sorted(named))


@pytest.mark.parametrize("part", _PARTS)
async def test_run_that_cannot_write_says_so_and_blocks_nothing(tmp_path: Path, part: int) -> None:
    fresh = tmp_path / "fresh"
    new_project(fresh)
    first = copied(fresh, tmp_path / "first")
    found = await faults_of(tmp_path / "points", lambda: run(first))

    async def scenario(folder: Path, fault: Fault) -> None:
        project = copied(fresh, folder)
        before = checkout(project)
        answer = await failing(fault, lambda: run(project))
        assert checkout(project) == before
        if answer is not None:
            assert all(t["status"] == "succeeded" or t["reason"] for t in answer["tasks"]), answer
        await assert_in_order_again(project)
        assert checkout(project) == before

    await for_each(found[part :: len(_PARTS)], tmp_path, scenario)


async def assert_in_order_again(project: Project) -> None:
    """Fail unless one command closes what a failed run left, and the next run goes well."""
    kept = {t: a for t, a in (await answers(project)).items() if a["status"] not in _OPEN}
    if project.runs:
        await resume(project, project.runs[0])
        after = await answers(project)
        assert not any(answer["status"] in _OPEN for answer in after.values()), after
        assert {task: after[task] for task in kept} == kept
    else:
        assert not any("pinata" in name for name in project.refs())
    assert_results_survive_collection(project)
    assert_nothing_half_made(project)
    assert (await run(project))["status"] == "succeeded"


@pytest.mark.parametrize("part", _HALVES)
async def test_integration_that_cannot_write_is_completed_or_undone_by_one_command(
    tmp_path: Path, part: int
) -> None:
    project = new_project(tmp_path)
    id_ = (await run(project))["run"]
    old = checkout(project)
    # What differs between the steps of one apply is tested where they are made.
    found = await faults_of(tmp_path / "in", lambda: integrate(project, id_), passes=1)
    new = checkout(project)
    back = await faults_of(tmp_path / "out", lambda: roll_back(project, id_), passes=1)
    assert checkout(project) == old != new

    for number, fault in enumerate(found[part :: len(_HALVES)]):
        await failing(fault, lambda: integrate(project, id_))
        begun = checkout(project)
        assert begun in (old, new), fault
        if number % 2 or begun == old:
            assert (await integrate(project, id_))["status"] == "verified", fault
            assert checkout(project) == new, fault
        await roll_back(project, id_)
        assert checkout(project) == old, fault
    for fault in back[part :: len(_HALVES)]:
        await integrate(project, id_)
        await failing(fault, lambda: roll_back(project, id_))
        with suppress(ConflictError):  # when it is rolled back already
            await roll_back(project, id_)
        assert checkout(project) == old, fault
    assert_results_survive_collection(project)
    assert_nothing_half_made(project)


# What a shell takes from every process that it starts: file sizes in KiB, and open files.
_LIMITS = ("-f 0", "-f 1", "-f 8", "-n 16", "-n 20")


@pytest.mark.parametrize("limit", _LIMITS)
async def test_run_under_a_limit_of_the_system_says_so_and_blocks_nothing(
    limit: str, tmp_path: Path
) -> None:
    project = new_project(tmp_path)
    before = checkout(project)
    path = project.write_job(job(project))
    done = limited(project, limit, "run", str(path))
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr.startswith("pinata: ") or done.stderr
    assert checkout(project) == before
    await assert_in_order_again(project)
    assert checkout(project) == before


def limited(project: Project, limit: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `pinata` as a person does in a shell that has set a limit."""
    script = f'ulimit {limit} && exec "$@"'
    command = ["bash", "-c", script, "bash", sys.executable, "-m", "pinata", *arguments]
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(
            lambda: subprocess.run(
                command,
                cwd=project.repo.root,
                env=project.program_env | {"PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        ).result()
