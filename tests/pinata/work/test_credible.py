"""A result that the log never announced counts for what can be checked of it, and no more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinata import app
from pinata.work.observer import Silence
from tests.support.projects import Project, approves, builder, reviewer, shell, statuses, submits

Forged = Callable[[dict[str, Any]], object]
FIX = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
OTHER = [shell("echo two > b.txt"), submits(changedFiles=["b.txt"])]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


def folder_of(project: Project, run: str) -> Path:
    return project.repo.root / ".git" / "pinata" / run


def cut_log(folder: Path, last: str, task: str) -> None:
    """Leave the log as it was when the process wrote its line `last` about `task`."""
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    events = [json.loads(line) for line in lines]
    at = next(n for n, e in enumerate(events) if e["type"] == last and e["agent"] == task)
    (folder / "events.jsonl").write_text("".join(lines[: at + 1]))


async def resumed(project: Project, run: str) -> dict[str, str]:
    context = app.build_context(project.env, project.repo.root, Silence())
    await app.resume_run(context, run)
    return statuses(await project.call("pinata_status", {"run": run}))


async def one_builder(project: Project) -> Path:
    answer = await project.run([builder("fix", "a.txt")], {"fix": FIX})
    assert statuses(answer) == {"fix": "succeeded"}
    folder = folder_of(project, answer["run"])
    cut_log(folder, "agent_started", "fix")
    return folder


async def test_change_whose_process_died_before_it_said_so_counts(project: Project) -> None:
    folder = await one_builder(project)
    assert await resumed(project, folder.name) == {"fix": "succeeded"}


@pytest.mark.parametrize(
    "forged",
    [
        lambda r: r["artifact"].update(fingerprint="0" * 64),
        lambda r: r["artifact"].update(result_tree=r["artifact"]["base_tree"], changes=[]),
        lambda r: r["artifact"].update(result_commit=r["artifact"]["base_commit"]),
        lambda r: r["artifact"].update(result_tree="0" * 40),
        lambda r: r["submission"].update(changedFiles=[]),
        lambda r: r.update(artifact=None),
        lambda r: r.update(task="other"),
        lambda r: r.update(attempt=2),
    ],
)
async def test_change_of_which_something_is_not_true_is_cancelled(
    project: Project, forged: Forged
) -> None:
    folder = await one_builder(project)
    path = folder / "results" / "fix.1.json"
    result = json.loads(path.read_text())
    forged(result)
    path.write_text(json.dumps(result))
    assert await resumed(project, folder.name) == {"fix": "cancelled"}


async def test_change_that_its_ref_does_not_keep_is_cancelled(project: Project) -> None:
    folder = await one_builder(project)
    project.repo.git("update-ref", f"refs/pinata/{folder.name}/tasks/fix/1", "HEAD")
    assert await resumed(project, folder.name) == {"fix": "cancelled"}


async def test_change_is_not_believed_where_its_commits_hold_other_trees(project: Project) -> None:
    folder = await one_builder(project)
    ref = f"refs/pinata/{folder.name}/tasks/fix/1"
    tree = project.repo.git("rev-parse", "HEAD^{tree}").decode().strip()
    commit = project.repo.git("commit-tree", tree, "-m", "x").decode().strip()
    project.repo.git("update-ref", ref, commit)
    path = folder / "results" / "fix.1.json"
    result = json.loads(path.read_text())
    result["artifact"]["result_commit"] = commit
    path.write_text(json.dumps(result))
    assert await resumed(project, folder.name) == {"fix": "cancelled"}


@pytest.mark.parametrize(("beside", "status"), [(["fix"], "cancelled"), (["judge"], "succeeded")])
async def test_verdict_counts_unless_a_writer_could_have_written_it(
    project: Project, beside: list[str], status: str
) -> None:
    answer = await project.run(
        [
            builder("fix", "a.txt"),
            reviewer("judge", "fix"),
            builder("other", "b.txt", after=beside),
        ],
        {"fix": FIX, "judge": [approves()], "other": OTHER},
    )
    folder = folder_of(project, answer["run"])
    cut_log(folder, "agent_started", "other" if beside == ["fix"] else "judge")
    if beside == ["judge"]:
        # As the log stands now, the second builder has not begun.
        project.repo.git("update-ref", "-d", f"refs/pinata/{folder.name}/tasks/other/1")
    assert (await resumed(project, folder.name))["judge"] == status
