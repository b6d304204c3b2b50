"""Whatever step garbage collection dies at, the next one ends it, and nothing is lost meanwhile."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from pinata.tools.registry import GC
from tests.support.garbage import (
    FILES,
    collect,
    folder_of,
    has_nothing_to_do,
    integrated_run,
    refs_of,
    worktree_of,
)
from tests.support.kept import restore, telling_points
from tests.support.projects import Project, approves, shell, submits
from tests.support.tool_child import Forker, open_forker

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]


@pytest.fixture
def project(tmp_path: Path, hermetic_home: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project.create(folder, dict(FILES))


@pytest.fixture
def forker(project: Project) -> Iterator[Forker]:
    with open_forker(project.env) as forker:
        yield forker


def renew(project: Project, run: str) -> None:
    """Have all that is told of a run be told now, so that what was copied counts as older."""
    log, now_ms = folder_of(project, run).events_file, time.time_ns() // 1_000_000
    events = [json.loads(line) | {"at": now_ms} for line in log.read_text().splitlines()]
    lines = [json.dumps(event, separators=(",", ":")) + "\n" for event in events]
    log.write_text("".join(lines))


def put_back(project: Project, run: str, kept: Path) -> None:
    """Make everything as it was kept; a worktree that was made anew is the one it stands for."""
    restore(project.folder, kept)
    inode = worktree_of(project, run).lstat().st_ino
    (folder_of(project, run).path / "indexes" / "fix.root").write_text(f"{inode}\n")
    renew(project, run)


def records(project: Project, run: str) -> dict[str, bytes]:
    """Return what a run said: its record, log, results, patches and receipts."""
    folder = folder_of(project, run)
    kept = [folder.run_file, folder.events_file]
    for place in (folder.results, folder.transcripts, folder.integration, folder.path / "patches"):
        kept += [path for path in place.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in kept}


def test_collection_killed_at_any_step_is_ended_by_the_next_and_loses_nothing(
    project: Project, forker: Forker, tmp_path: Path
) -> None:
    run = trio.run(integrated_run, project)
    kept, record = tmp_path / "kept", tmp_path / "points"
    shutil.copytree(project.folder, kept, symlinks=True)
    root = project.repo.root
    put_back(project, run, kept)
    assert forker.call(root, GC, [], f"record:{record}") == 0
    names = record.read_text().split()
    assert {"lease.set_aside", "lease.condemned", "run.retired.durable", "refs.delete.done"} <= set(
        names
    )
    for name, number in telling_points(names):
        put_back(project, run, kept)
        said = records(project, run)
        ended = forker.call(root, GC, [], f"kill:{name}:{number}")
        assert ended == -signal.SIGKILL, (name, number)
        if not folder_of(project, run).retirement_file.exists():
            assert refs_of(project, run) == ["base", "evidence", "tasks/fix/1"], name
        answer = trio.run(collect, project)
        assert (answer["kept"], answer["failed"]) == ([], []), (name, number)
        assert has_nothing_to_do(trio.run(collect, project)), (name, number)
        assert refs_of(project, run) == ["evidence"]
        assert not worktree_of(project, run).parent.exists(), (name, number)
        assert records(project, run) == said, (name, number)
        assert (root / "a.txt").read_text() == "two\n"
        assert project.repo.ask("worktree", "list", "--porcelain").count("worktree ") == 1


def test_collection_killed_while_somebody_is_in_a_worktree_keeps_all_that_they_save(
    project: Project, forker: Forker, tmp_path: Path
) -> None:
    run = trio.run(integrated_run, project)
    root, worktree, record = project.repo.root, worktree_of(project, run), tmp_path / "points"
    aside = worktree.with_name(".fix.aside")
    with subprocess.Popen(["cat"], cwd=worktree, stdin=subprocess.PIPE) as person:
        assert forker.call(root, GC, [], f"record:{record}") == 0
        names = record.read_text().split()
        assert {"lease.set_aside", "lease.put_back"} <= set(names)
        assert not {"lease.condemned", "run.retired.durable"} & set(names)
        for name in ("lease.set_aside", "lease.put_back"):
            assert forker.call(root, GC, [], f"kill:{name}:1") == -signal.SIGKILL
            # Whoever is in there meets the folder wherever it is by now.
            mine = Path(f"/proc/{person.pid}/cwd") / f"{name}.txt"
            mine.write_text("mine\n")
            preview = trio.run(partial(collect, project, confirm=False))
            says = f"{mine.name} differs from what was captured"
            assert [item["reason"] for item in preview["kept"]] == [says]
            answer = trio.run(collect, project)
            assert has_nothing_to_do(answer)
            assert [item["reason"] for item in answer["kept"]] == [says]
            assert (worktree / mine.name).read_text() == "mine\n"
            assert not aside.exists()
            (worktree / mine.name).unlink()
        assert person.stdin is not None
        person.stdin.close()
    assert trio.run(collect, project)["retired"] == [run]


def test_repair_after_a_collection_that_was_killed_goes_on_in_the_worktree(
    project: Project, forker: Forker
) -> None:
    run = trio.run(integrated_run, project)
    root, worktree = project.repo.root, worktree_of(project, run)
    assert forker.call(root, GC, [], "kill:lease.set_aside:1") == -signal.SIGKILL
    (worktree.with_name(".fix.aside") / "mine.ignored").write_text("mine\n")
    turns = [shell("echo three > a.txt"), submits(changedFiles=["a.txt"])]
    script = {"fix@2": turns, "*": [approves()]}
    (project.folder / "script.json").write_text(json.dumps(script))
    asked = {"run": run, "task": "fix", "feedback": "three"}
    answer = trio.run(project.call, "pinata_repair", asked)
    assert answer["status"] == "succeeded", answer
    assert (worktree / "mine.ignored").read_text() == "mine\n"
    assert (worktree / "a.txt").read_text() == "three\n"
