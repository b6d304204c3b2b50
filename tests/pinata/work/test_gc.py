"""Garbage collection gives up what nobody needs, and nothing that anybody could miss."""

import json
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UsageError
from engine.core.ids import RunId
from engine.system import faults
from engine.system.locks import claim
from pinata.work.places import Places
from tests.support.garbage import (
    FILES,
    SCRIPT,
    approved_run,
    collect,
    everything,
    folder_of,
    has_nothing_to_do,
    integrated_run,
    refs_of,
    worktree_of,
)
from tests.support.github import Github
from tests.support.projects import (
    Project,
    approves,
    builder,
    reports,
    reviewer,
    scout,
    shell,
    statuses,
    submits,
)
from tests.support.repos import RepoBuilder

pytestmark = pytest.mark.slow

UNWANTED = "integrate or repair it, or name the run with --discard"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


async def scouted(project: Project) -> str:
    answer = await project.run([scout("look")], {"*": [reports()]})
    run: str = answer["run"]
    return run


def kept(answer: dict[str, Any]) -> dict[str, str]:
    """Return why each thing stays, by the run and what it is."""
    return {f"{item.get('run')} {item['what']}": item["reason"] for item in answer["kept"]}


async def test_settled_run_of_readers_has_nothing_to_give_up_and_is_retired(
    project: Project,
) -> None:
    run = await scouted(project)
    assert await collect(project) == {
        "confirmed": True,
        "retired": [run],
        "removed": [],
        "kept": [],
        "failed": [],
    }
    mark = json.loads(folder_of(project, run).retirement_file.read_text())
    assert (mark["kind"], mark["run"], mark["discarded"]) == ("retirement", run, False)
    assert await collect(project) == {
        "confirmed": True,
        "retired": [],
        "removed": [],
        "kept": [],
        "failed": [],
    }


async def test_preview_changes_nothing_and_says_what_a_confirmed_call_does(
    project: Project,
) -> None:
    run = await integrated_run(project)
    other = await scouted(project)
    before = everything(project.folder)
    preview = await collect(project, confirm=False)
    assert everything(project.folder) == before
    done = await collect(project)
    assert preview.pop("removable") == done.pop("removed")
    assert preview == done | {"confirmed": False}
    assert set(done["retired"]) == {run, other}


async def test_integrated_run_keeps_what_it_said_and_gives_up_the_rest(project: Project) -> None:
    run = await integrated_run(project)
    folder, worktree = folder_of(project, run), worktree_of(project, run)
    records = {path for path in folder.path.rglob("*") if path.is_file()}
    records -= set((folder.path / "indexes").rglob("*"))
    answer = await collect(project)
    assert (answer["retired"], answer["kept"], answer["failed"]) == ([run], [], [])
    assert not worktree.parent.exists()
    assert project.repo.ask("worktree", "list", "--porcelain").count("worktree ") == 1
    assert refs_of(project, run) == ["evidence"]
    assert {path for path in folder.path.rglob("*") if path.is_file()} == records | {
        folder.retirement_file
    }
    assert not (folder.path / "indexes").exists()
    assert has_nothing_to_do(await collect(project))


async def test_change_that_was_not_integrated_stays_until_somebody_says_that_it_may_go(
    project: Project,
) -> None:
    run = await approved_run(project)
    worktree = worktree_of(project, run)
    answer = await collect(project)
    assert has_nothing_to_do(answer)
    assert kept(answer) == {f"{run} worktree": f"its change was not integrated: {UNWANTED}"}
    assert worktree.is_dir()
    assert refs_of(project, run) == ["base", "evidence", "tasks/fix/1"]
    with pytest.raises(UsageError, match="no stored run"):
        await collect(project, "ffff")
    with pytest.raises(UsageError, match=f"run {run} is named twice: name it once"):
        await collect(project, run, run[:6])
    assert worktree.is_dir()
    answer = await collect(project, run[:6])
    assert (answer["retired"], answer["kept"]) == ([run], [])
    assert not worktree.exists()
    assert refs_of(project, run) == ["evidence"]
    assert json.loads(folder_of(project, run).retirement_file.read_text())["discarded"]


async def test_file_that_a_person_put_into_a_worktree_keeps_it(project: Project) -> None:
    run = await integrated_run(project)
    worktree = worktree_of(project, run)
    mine = worktree / "mine.txt"
    mine.write_text("mine\n")
    for discard in ((), (run,)):
        answer = await collect(project, *discard)
        assert has_nothing_to_do(answer)
        says = "mine.txt differs from what was captured"
        assert kept(answer) == {f"{run} worktree": says}
    assert mine.read_text() == "mine\n"
    mine.rename(worktree / "mine.ignored")
    says = "mine.ignored came or changed since work there ended"
    assert kept(await collect(project)) == {f"{run} worktree": says}
    (worktree / "mine.ignored").unlink()
    assert (await collect(project))["retired"] == [run]


async def test_file_of_a_person_stays_though_work_in_another_worktree_ended_later(
    project: Project,
) -> None:
    project.repo.write("b.txt", "one\n")
    project.repo.commit("another file")
    script = SCRIPT | {
        "other": [shell("echo two > b.txt"), submits(changedFiles=["b.txt"])],
        "other@2": [shell("echo three > b.txt"), submits(changedFiles=["b.txt"])],
    }
    tasks = [
        *(builder("fix", "a.txt"), reviewer("check", "fix")),
        *(builder("other", "b.txt"), reviewer("look", "other")),
    ]
    run = (await project.run(tasks, script))["run"]
    mine = worktree_of(project, run) / "mine.ignored"
    mine.write_text("mine\n")
    await project.call("pinata_repair", {"run": run, "task": "other", "feedback": "three"})
    await project.call("pinata_integrate", {"run": run})
    answer = await collect(project)
    says = "mine.ignored came or changed since work there ended"
    assert kept(answer) == {f"{run} worktree": says}
    assert [item["name"] for item in answer["removed"]] == [str(worktree_of(project, run, "other"))]
    assert mine.read_text() == "mine\n"


async def test_clock_that_was_set_back_keeps_a_worktree(project: Project) -> None:
    run = await integrated_run(project)
    log = folder_of(project, run).events_file
    events = [json.loads(line) for line in log.read_text().splitlines()]
    late = [event | {"at": event["at"] + 86_400_000} for event in events]
    log.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in late))
    answer = await collect(project)
    assert has_nothing_to_do(answer)
    assert kept(answer)[f"{run} worktree"].startswith("the clock was set back since work there")


async def test_damaged_runs_are_told_and_good_ones_beside_them_go(project: Project) -> None:
    good, damaged, distrusted, torn = [await scouted(project) for _ in range(4)]
    folder_of(project, damaged).run_file.write_text("{")
    folder_of(project, distrusted).distrust_file.write_text("somebody wrote to it")
    log = folder_of(project, torn).events_file
    log.write_text("?\n" + log.read_text())
    unreadable = await scouted(project)
    folder_of(project, unreadable).events_file.unlink()
    folder_of(project, unreadable).events_file.mkdir()
    folder = folder_of(project, good).path
    link = folder.with_name("0" * 16)
    link.symlink_to(folder)
    answer = await collect(project)
    assert answer["retired"] == [good]
    assert answer["failed"] == []
    reasons = kept(answer)
    assert reasons.pop(f"{'0' * 16} run").startswith("it is a link or no folder")
    assert set(reasons) == {f"{run} run" for run in (damaged, distrusted, torn, unreadable)}
    assert "is damaged" in reasons[f"{damaged} run"]
    assert "somebody wrote to it" in reasons[f"{distrusted} run"]
    assert link.is_symlink()


async def test_worktree_of_a_pull_request_goes_with_its_refs(project: Project) -> None:
    hub = Github.open(project.repo, project.folder)
    task = {"id": "judge", "agent": "reviewer", "task": "judge", "reviewPr": 7}
    run = (await project.run([task], {"*": [approves()]}))["run"]
    place = worktree_of(project, run, "pr.7")
    assert refs_of(project, run) == ["pr/7/base", "pr/7/head"]
    (place / "mine.txt").write_text("mine\n")
    answer = await collect(project)
    assert kept(answer) == {f"{run} worktree": "mine.txt differs from what was captured"}
    (place / "mine.txt").unlink()
    answer = await collect(project)
    assert answer["retired"] == [run]
    assert not place.exists()
    assert refs_of(project, run) == []
    assert hub.head


async def test_worktree_below_another_state_folder_keeps_the_objects(project: Project) -> None:
    run = await integrated_run(project)
    other = Project(project.repo, project.folder / "other")
    other.folder.mkdir()
    answer = await collect(other)
    assert has_nothing_to_do(answer)
    assert kept(answer) == {
        f"{run} worktree": "it lies outside of this state folder: set XDG_STATE_HOME as it was, "
        "and call again"
    }
    assert refs_of(project, run) == ["base", "evidence", "tasks/fix/1"]


async def test_what_no_record_names_stays(project: Project) -> None:
    run = await integrated_run(project)
    beside = worktree_of(project, run, "mine")
    beside.mkdir()
    project.repo.git("update-ref", f"refs/pinata/{run}/tasks/fix/9", "HEAD")
    answer = await collect(project)
    assert answer["retired"] == [run]
    assert {item["name"]: item["reason"] for item in answer["kept"]} == {
        str(beside): "no record of the run names it",
        f"refs/pinata/{run}/tasks/fix/9": "it is not what the run's records say",
    }
    assert beside.is_dir()
    assert refs_of(project, run) == ["evidence", "tasks/fix/9"]
    assert has_nothing_to_do(await collect(project))


async def test_builder_that_changed_nothing_has_nothing_to_lose(project: Project) -> None:
    script = {"idle": [submits()], "stuck": [shell("echo two > a.txt"), submits("failed")]}
    answer = await project.run([builder("idle", "b.txt"), builder("stuck", "a.txt")], script)
    assert statuses(answer) == {"idle": "succeeded", "stuck": "failed"}
    run = answer["run"]
    answer = await collect(project)
    assert answer["retired"] == []
    assert [item["name"] for item in answer["removed"]] == [str(worktree_of(project, run, "idle"))]
    assert kept(answer) == {f"{run} worktree": f"its change was not integrated: {UNWANTED}"}
    assert (await collect(project, run))["retired"] == [run]


async def test_leftovers_of_calls_that_are_over_go(project: Project) -> None:
    run = await approved_run(project)
    folder = folder_of(project, run)
    left = [folder.scratch / "index-1", folder.integration / "slots-4"]
    for each in left:
        each.mkdir(parents=True)
    link = folder.path / "link.json"
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as served:
        link.write_text(json.dumps({"socket": f"{short}/link.sock"}))
        served.bind(f"{short}/link.sock")
        served.listen()
        answer = await collect(project)
    assert [item["name"] for item in answer["removed"]] == [*map(str, left)]
    assert [item["name"] for item in (await collect(project))["removed"]] == [str(link)]
    assert has_nothing_to_do(await collect(project))
    assert folder.scratch.is_dir()


async def test_refusal_of_one_run_is_told_and_the_others_go_on(project: Project) -> None:
    first, second = sorted([await integrated_run(project), await scouted(project)])
    run = first if worktree_of(project, first).exists() else second
    try:
        faults.install("error:lease.set_aside:1:ENOSPC")
        answer = await collect(project)
        faults.install("error:run.retired.started:1:EACCES")
        again = await collect(project)
        faults.install("error:refs.delete.started:1:EROFS")
        third = await collect(project)
    finally:
        faults.install("")
    assert [item["what"] for item in answer["failed"]] == ["worktree"]
    assert answer["failed"][0]["reason"] == "No space left on device"
    assert set(answer["retired"]) == {first, second} - {run}
    assert (again["retired"], [item["what"] for item in again["failed"]]) == ([], ["run"])
    assert (third["retired"], {item["what"] for item in third["failed"]}) == ([run], {"ref"})
    last = await collect(project)
    assert {item["what"] for item in last["removed"]} == {"ref", "file"}
    assert has_nothing_to_do(await collect(project))
    assert refs_of(project, run) == ["evidence"]


async def test_change_whose_checkout_is_gone_stays(project: Project) -> None:
    linked = project.repo.root.with_name("linked")
    project.repo.git("worktree", "add", "--quiet", "--detach", str(linked))
    there = Project(RepoBuilder(linked, project.repo.env), project.folder)
    run = await integrated_run(there)
    linked.rename(project.folder / "away")
    says = f"its checkout cannot be looked at, since {linked} is not a folder: {UNWANTED}"
    assert kept(await collect(project)) == {f"{run} worktree": says}
    RepoBuilder.create(linked)
    says = f"its checkout {linked} is not there any more: {UNWANTED}"
    assert kept(await collect(project)) == {f"{run} worktree": says}


async def test_worktree_that_cannot_be_compared_is_told_and_stays(project: Project) -> None:
    run = await integrated_run(project)
    other = await scouted(project)
    worktree = worktree_of(project, run)
    root = folder_of(project, run).path / "indexes" / "fix.root"
    known = root.read_text()
    root.write_text("?")
    answer = await collect(project, confirm=False)
    assert kept(answer) == {f"{run} worktree": f"{root} is damaged"}
    root.write_text(known)
    project.repo.git("update-ref", "-d", f"refs/pinata/{run}/tasks/fix/1")
    project.repo.git("prune", "--expire=now")
    (worktree / "a.txt").write_text("mine\n")
    answer = await collect(project)
    assert answer["retired"] == [other]
    assert [(item["what"], item["run"]) for item in answer["failed"]] == [("run", run)]
    assert (worktree / "a.txt").read_text() == "mine\n"
    (worktree / "a.txt").write_text("two\n")
    project.repo.git("update-ref", "-d", f"refs/pinata/{run}/evidence")
    answer = await collect(project)
    assert answer["retired"] == []
    (failed,) = answer["failed"]
    assert failed["reason"].startswith("no evidence was written: ")
    assert worktree.is_dir()
    assert refs_of(project, run) == ["base"]


async def test_change_stays_until_the_checkout_holds_what_the_run_came_to(
    project: Project,
) -> None:
    run = await integrated_run(project)

    async def reason() -> str:
        (found,) = kept(await collect(project)).values()
        return found

    project.repo.write("a.txt", "three\n")
    says = f"its checkout does not hold its change any more in a.txt: {UNWANTED}"
    assert await reason() == says
    project.repo.write("a.txt", "two\n")
    await project.call("pinata_rollback", {"run": run, "confirm": True})
    assert await reason() == f"its integration was rolled back: {UNWANTED}"
    await project.call("pinata_integrate", {"run": run})
    turns = [shell("echo three > a.txt"), submits(changedFiles=["a.txt"])]
    (project.folder / "script.json").write_text(json.dumps({"fix@2": turns, "*": [approves()]}))
    await project.call("pinata_repair", {"run": run, "task": "fix", "feedback": "three"})
    assert await reason() == f"what it came to since then was not integrated: {UNWANTED}"
    await project.call("pinata_integrate", {"run": run})
    project.repo.commit("the change")
    assert (await collect(project))["retired"] == [run]
    assert refs_of(project, run) == ["evidence"]


async def test_run_that_somebody_owns_or_that_is_not_at_rest_is_not_touched(
    project: Project,
) -> None:
    run = await integrated_run(project)
    places = Places.of(await project.repo.discovered(), project.env)
    async with claim(places.run_lock(RunId(run)), what="the run", holder="somebody else"):
        for confirm in (False, True):
            answer = await collect(project, run, confirm=confirm)
            assert kept(answer) == {f"{run} run": "it is owned by somebody else"}
    async with claim(places.checkout_lock, what="the checkout", holder="somebody else"):
        (reason,) = kept(await collect(project)).values()
    assert reason == f"the checkout {project.repo.root} is held by somebody else"
    journal = folder_of(project, run).integration / "journal.json"
    text = journal.read_text()
    for state in ("applying", "rolling_back"):
        journal.write_text(text.replace('"applied_unverified"', f'"{state}"'))
        answer = await collect(project, run)
        assert has_nothing_to_do(answer)
        assert list(kept(answer)) == [f"{run} run"]
    journal.write_text(text)
    log = folder_of(project, run).events_file
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    (reason,) = kept(await collect(project, run)).values()
    assert reason.startswith("it has not settled")
    assert worktree_of(project, run).is_dir()


async def test_worktree_whose_folder_is_gone_is_forgotten_and_lost_evidence_written_again(
    project: Project,
) -> None:
    run = await integrated_run(project)
    worktree = worktree_of(project, run)
    worktree.rename(project.folder / "away")
    assert str(worktree) in project.repo.ask("worktree", "list", "--porcelain")
    evidence = f"refs/pinata/{run}/evidence"
    newest = project.refs()[evidence]
    project.repo.git("update-ref", evidence, f"{newest}^")
    assert (await collect(project))["retired"] == [run]
    told = project.repo.ask("ls-tree", "-r", "--name-only", evidence)
    assert told == project.repo.ask("ls-tree", "-r", "--name-only", newest)
    assert str(worktree) not in project.repo.ask("worktree", "list", "--porcelain")
    assert refs_of(project, run) == ["evidence"]
    assert has_nothing_to_do(await collect(project))
