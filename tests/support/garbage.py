"""Garbage collection as a face calls it, and what there is on disk before and after."""

import os
from pathlib import Path
from typing import Any

from engine.core.ids import RunId
from engine.store import RunFolder
from pinata import app
from tests.support.projects import Project, approves, builder, reviewer, shell, submits

FILES: dict[str, str | bytes] = {"a.txt": "one\n", ".gitignore": "*.ignored\n"}
SCRIPT = {
    "fix": [shell("echo two > a.txt; touch made.ignored"), submits(changedFiles=["a.txt"])],
    "*": [approves()],
}


async def collect(project: Project, *discard: str, confirm: bool = True) -> dict[str, Any]:
    """Call garbage collection and return its answer."""
    context = app.build_context(project.env, project.repo.root, project.recorder)
    return await app.collect_garbage(context, confirm=confirm, discard=discard)


def has_nothing_to_do(answer: dict[str, Any]) -> bool:
    """Whether there was nothing to remove, to retire, or that failed."""
    return not (answer["removed"] or answer["retired"] or answer["failed"])


async def approved_run(project: Project) -> str:
    """Return the id of a run whose builder changed a.txt and was approved."""
    answer = await project.run([builder("fix", "a.txt"), reviewer("check", "fix")], SCRIPT)
    assert answer["status"] == "succeeded", answer
    run: str = answer["run"]
    return run


async def integrated_run(project: Project) -> str:
    """Return the id of a run whose change is in the checkout."""
    run = await approved_run(project)
    await project.call("pinata_integrate", {"run": run})
    return run


def folder_of(project: Project, run: str) -> RunFolder:
    """Return where a run is stored."""
    return RunFolder(project.repo.root / ".git" / "pinata" / RunId(run))


def worktree_of(project: Project, run: str, name: str = "fix") -> Path:
    """Return where a worktree of a run is or was."""
    (repository,) = (project.folder / "state" / "pinata" / "worktrees").iterdir()
    return repository / run / name


def refs_of(project: Project, run: str) -> list[str]:
    """Return a run's refs, without what their names have in common."""
    prefix = f"refs/pinata/{run}/"
    return sorted(ref.removeprefix(prefix) for ref in project.refs() if ref.startswith(prefix))


def everything(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return what tells whether anything was written; Git renews the times of its objects."""
    found = {}
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            facts = Path(parent, name).lstat()
            when = 0 if "objects" in parent else facts.st_ctime_ns
            found[str(Path(parent, name))] = facts.st_ino, facts.st_size, when
    return found
