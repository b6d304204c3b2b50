"""Every kind of repository is worked on exactly as Git would see it, or refused in a sentence."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import PinataError
from tests.support.checkouts import listing
from tests.support.matrix import FILES, NOTICED, REFUSED, WORKS, Build, Noticed, Refused, wrap_git
from tests.support.privileges import unprivileged
from tests.support.projects import (
    Project,
    approves,
    builder,
    reviewer,
    shell,
    submits,
    task_of,
)
from tests.support.repos import RepoBuilder
from worktrees.contents import copy_index

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

GOOD = ["it is as asked"]
TASKS = [
    builder("fix", "made.txt", "kept.txt", acceptance=GOOD),
    reviewer("check", "fix", acceptance=GOOD),
]
SCRIPT = {
    "fix": [
        shell("echo made > made.txt; echo more >> kept.txt"),
        submits(changedFiles=["kept.txt", "made.txt"]),
    ],
    "check": [approves()],
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


def stored_by_git(repo: RepoBuilder, scratch: Path) -> str:
    """Return the tree that Git itself would store, which leaves nothing in the repository."""
    scratch.mkdir()
    (scratch / "objects").mkdir()
    folder = Path(repo.ask("rev-parse", "--path-format=absolute", "--git-common-dir"))
    index = Path(repo.ask("rev-parse", "--path-format=absolute", "--git-path", "index"))
    copy_index(index, scratch / "index")
    env = {
        "GIT_INDEX_FILE": str(scratch / "index"),
        "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(folder / "objects"),
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    repo.git("-c", "core.safecrlf=false", "add", "--all", env=env)
    return os.fsdecode(repo.git("write-tree", env=env)).strip()


def everything(repo: RepoBuilder) -> dict[str, tuple[int, bytes]]:
    """Return the checkout's files and folders."""
    return listing(repo.root)


async def ran(project: Project) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the builder and its reviewer; return the run's summary and the builder's artifact."""
    before = project.repo.facts()
    answer = await project.run(TASKS, SCRIPT)
    fix = task_of(answer, "fix")
    assert fix["status"] == "succeeded", fix
    assert answer["status"] == "succeeded", answer
    assert project.repo.facts() == before
    return answer, fix["artifact"]


async def goes_in_and_out(project: Project, run: str) -> None:
    before = everything(project.repo)
    done = await project.call("pinata_integrate", {"run": run})
    assert done["status"] == "applied_unverified"
    assert done["receipt"]["application"] == "exact"
    changed = {
        name for name, found in everything(project.repo).items() if before.get(name) != found
    }
    assert changed == {"kept.txt", "made.txt"}
    await project.call("pinata_rollback", {"run": run, "confirm": True})
    assert everything(project.repo) == before


@pytest.mark.parametrize("build", WORKS.values(), ids=WORKS.keys())
async def test_works_as_git_would_store_it(project: Project, build: Build) -> None:
    build(project)
    expected = stored_by_git(project.repo, project.folder / "expected")
    answer, artifact = await ran(project)
    assert artifact["base"]["tree"] == expected
    assert answer.get("notices", []) == []
    await goes_in_and_out(project, answer["run"])


@pytest.mark.parametrize("row", NOTICED.values(), ids=NOTICED.keys())
async def test_works_with_a_notice(project: Project, row: Noticed) -> None:
    row.build(project)
    if row.differs:
        expected = project.repo.ask("rev-parse", "HEAD^{tree}")
    else:
        expected = stored_by_git(project.repo, project.folder / "expected")
    answer, artifact = await ran(project)
    assert artifact["base"]["tree"] == expected
    assert row.says in "\n".join(answer["notices"])
    doctor = project.pinata("doctor")
    assert doctor.returncode == 0
    assert row.says in doctor.stdout
    await goes_in_and_out(project, answer["run"])


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED.keys())
async def test_refused_in_one_sentence_before_anything_starts(
    project: Project, row: Refused
) -> None:
    row.build(project)
    before = everything(project.repo) if row.reachable else {}
    with pytest.raises(PinataError) as refused:
        await project.run(TASKS, SCRIPT)
    assert re.search(row.says, str(refused.value))
    assert (everything(project.repo) if row.reachable else {}) == before
    assert project.recorder.runs == []
    assert not list((project.folder / "state").rglob("*"))
    made = (*project.folder.glob("*/.git/pinata/*"), *project.folder.glob("*/pinata/*"))
    assert [path.name for path in made if path.name != "locks"] == []


@pytest.mark.parametrize("row", ["unborn", "merge", "mistaken-case", "path-too-long"])
def test_doctor_says_what_a_run_would_be_refused_with(project: Project, row: str) -> None:
    REFUSED[row].build(project)
    doctor = project.pinata("doctor")
    assert doctor.returncode == 1
    assert REFUSED[row].says in doctor.stdout + doctor.stderr


@pytest.mark.parametrize(
    ("place", "mode"), [("edited.txt", 0o000), ("folder", 0o000)], ids=["file", "folder"]
)
def test_what_cannot_be_read_is_refused_by_name(project: Project, place: str, mode: int) -> None:
    project.repo.write("folder/new.txt", "new\n")
    project.repo.write("edited.txt", "edited\n")
    project.repo.git("rm", "-r", "-q", "--cached", "folder")
    project.repo.commit("the folder is tracked again")
    project.repo.write("edited.txt", "edited again\n")
    (project.repo.root / place).chmod(mode)
    job = project.write_job(project.job(TASKS, SCRIPT))
    done = unprivileged(lambda: project.python("-m", "pinata", "run", str(job)))
    (project.repo.root / place).chmod(0o755)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert re.search(f"{place}.*Permission denied", done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert project.runs == []


async def test_folder_that_cannot_be_written_is_left_alone_by_integrate(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "folder"), reviewer("check", "fix")],
        {
            "fix": [shell("echo x > folder/x.txt"), submits(changedFiles=["folder/x.txt"])],
            "check": [approves()],
        },
    )
    before = everything(project.repo)
    (project.repo.root / "folder").chmod(0o500)
    done = unprivileged(lambda: project.python("-m", "pinata", "integrate", answer["run"]))
    (project.repo.root / "folder").chmod(before["folder"][0] & 0o777)
    assert "folder cannot be written" in done.stderr
    assert everything(project.repo) == before


@pytest.mark.parametrize("row", ["hidden-edit", "skipped-edit"])
async def test_edit_behind_a_flag_is_not_overwritten(project: Project, row: str) -> None:
    NOTICED[row].build(project)
    answer = await project.run(
        [builder("fix", "edited.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo theirs > edited.txt"), submits(changedFiles=["edited.txt"])],
            "check": [approves()],
        },
    )
    with pytest.raises(PinataError, match=r"edited\.txt"):
        await project.call("pinata_integrate", {"run": answer["run"]})
    assert (project.repo.root / "edited.txt").read_text() == "hidden\n"


async def test_programs_that_git_could_run_do_not_run(project: Project) -> None:
    trace = project.folder / "trace"
    project.repo.add_hooks(trace)
    monitor = project.folder / "monitor"
    monitor.write_text(f"#!/bin/sh\necho monitor >> {trace}\nexit 1\n")
    monitor.chmod(0o755)
    project.repo.git("config", "core.fsmonitor", str(monitor))
    project.repo.git("update-index", "--force-write-index")
    trace.unlink(missing_ok=True)
    project.repo.write("edited.txt", "edited\n")
    answer = await project.run(TASKS, SCRIPT)
    assert answer["status"] == "succeeded"
    await project.call("pinata_integrate", {"run": answer["run"]})
    await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    assert not trace.exists()


async def test_variables_of_a_calling_hook_reach_nothing(project: Project) -> None:
    other = RepoBuilder.create(project.folder / "other", {"other.txt": "other\n"})
    before = other.facts()
    for name, value in (("DIR", ""), ("INDEX_FILE", "/index"), ("OBJECT_DIRECTORY", "/objects")):
        project.repo.env[f"GIT_{name}"] = f"{other.root}/.git{value}"
    project.repo.env["GIT_WORK_TREE"] = str(other.root)
    answer = await project.run(TASKS, SCRIPT)
    for name in [name for name in project.repo.env if name.startswith("GIT_")]:
        del project.repo.env[name]
    assert answer["status"] == "succeeded"
    assert other.facts() == before
    assert task_of(answer, "fix")["artifact"]["base"]["commit"] == project.repo.ask(
        "rev-parse", "HEAD"
    )


async def test_old_git_is_refused_with_both_versions(project: Project) -> None:
    wrap_git(project, "echo git version 2.30.2; exit 0")
    with pytest.raises(PinataError, match=re.escape("Git 2.38 or newer is needed")):
        await project.run(TASKS, SCRIPT)


def test_doctor_has_nothing_to_say_about_an_ordinary_checkout(project: Project) -> None:
    project.repo.write("edited.txt", "edited\n")
    done = project.pinata("doctor")
    assert done.returncode == 0
    assert "can start from this checkout" in done.stdout
    assert "notice" not in done.stdout
