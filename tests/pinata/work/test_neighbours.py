"""A writer leaves the refs of other runs alone, whose processes may be gone."""

from pathlib import Path

import pytest
import trio

from engine.core.ids import CommitId, RunId
from engine.system.locks import claim
from pinata.work.places import Places
from tests.support.garbage import collect
from tests.support.projects import Project, builder, shell, submits, task_of
from worktrees.evidence import EvidenceTree, keep_evidence, read_evidence

FIX = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
OTHERS = "for r in $(git for-each-ref --format='%(refname)' refs/pinata | grep -v $RUN); do "


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def fixed(project: Project, command: str = "") -> dict[str, object]:
    """Run a builder that does its work and `command`; return what became of it and its run."""
    turns = [shell(f"RUN=$(basename $(dirname $PWD)); {command}"), *FIX] if command else FIX
    answer = await project.run([builder("fix", "a.txt")], {"fix": turns})
    return task_of(answer, "fix") | {"run": answer["run"]}


@pytest.mark.parametrize(
    "command",
    [
        OTHERS + "[ ${r##*/} = base ] || git update-ref -d $r; done",
        OTHERS + "git update-ref $r HEAD; done",
    ],
    ids=["deleted", "moved"],
)
async def test_writer_that_robs_another_run_fails(command: str, project: Project) -> None:
    first = await fixed(project)
    fix = await fixed(project, command)
    assert fix["status"] == "failed"
    said = str(fix["reason"])
    assert said.startswith("refs of other runs were moved or deleted: ")
    assert f"refs/pinata/{first['run']}/evidence and refs/pinata/{first['run']}/tasks/fix/1" in said


async def test_run_that_a_process_owns_is_its_owners_business(project: Project) -> None:
    first = await fixed(project)
    places = Places.of(await project.repo.discovered(), project.env)
    lock = places.run_lock(RunId(str(first["run"])))
    async with claim(lock, what="the run", holder="somebody"):
        fix = await fixed(project, OTHERS + "git update-ref -d $r; done")
    assert fix["status"] == "succeeded", fix


async def test_evidence_of_another_run_may_grow_meanwhile(project: Project) -> None:
    first = await fixed(project)
    run, repo = RunId(str(first["run"])), await project.repo.discovered()
    gate = project.folder / "gate"
    grown: list[CommitId] = []

    async def grow() -> None:
        while not (project.folder / "begun").exists():  # noqa: ASYNC110 - another program's
            await trio.sleep(0.01)
        ref = f"refs/pinata/{run}/evidence"
        commit = CommitId(project.repo.ask("rev-parse", ref))
        found = await read_evidence(repo, commit)
        more = dict(found.documents) | {"receipts/9.json": b"{}"}
        grown.append(await keep_evidence(repo, run, EvidenceTree(more, found.files), 0))
        gate.touch()

    wait = f"touch {project.folder}/begun; until [ -e {gate} ]; do sleep 0.01; done"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grow)
        fix = await fixed(project, wait)
    assert grown
    assert fix["status"] == "succeeded", fix


@pytest.mark.slow
async def test_run_that_is_retired_meanwhile_was_not_robbed(project: Project) -> None:
    first = await fixed(project)
    gate = project.folder / "gate"

    async def retire() -> None:
        while not (project.folder / "begun").exists():  # noqa: ASYNC110 - another program's
            await trio.sleep(0.01)
        answer = await collect(project, str(first["run"]))
        assert answer["retired"] == [first["run"]], answer
        gate.touch()

    wait = f"touch {project.folder}/begun; until [ -e {gate} ]; do sleep 0.01; done"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(retire)
        fix = await fixed(project, wait)
    assert fix["status"] == "succeeded", fix
    evidence = f"refs/pinata/{first['run']}/evidence"
    robbing = await fixed(project, f"git update-ref -d {evidence}")
    assert robbing["reason"] == f"refs of other runs were moved or deleted: {evidence}"


async def test_refs_of_a_run_that_never_came_to_be_are_nobodys(project: Project) -> None:
    unmade = RunId("0" * 16)
    project.repo.git("update-ref", f"refs/pinata/{unmade}/base", "HEAD")
    (project.repo.root / ".git" / "pinata" / unmade).mkdir(parents=True)
    fix = await fixed(project, OTHERS + "git update-ref -d $r; done")
    assert fix["status"] == "succeeded", fix
