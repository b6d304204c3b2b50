"""A destination is proved as it is, whether or not anything was applied to it."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UsageError
from tests.support.projects import (
    FAIL,
    PASS,
    Project,
    approves,
    builder,
    read,
    reports,
    reviewer,
    scout,
    shell,
    submits,
)

pytestmark = pytest.mark.slow
CHANGED = ["a.txt", "gone.txt", "new.txt"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files = {"a.txt": "one\n", "gone.txt": "g\n", "kept.txt": "k\n", ".gitignore": "*.log\n"}
    return Project.create(tmp_path, dict(files))


async def approved_run(project: Project, **fields: object) -> str:
    answer = await project.run(
        [builder("fix", *CHANGED), reviewer("check", "fix")],
        {
            "fix": [
                shell("echo two > a.txt; rm gone.txt; echo n > new.txt"),
                submits(changedFiles=CHANGED),
            ],
            "check": [approves()],
        },
        **fields,
    )
    assert answer["status"] == "succeeded", answer
    return str(answer["run"])


async def verify(project: Project, run: str, **fields: object) -> dict[str, Any]:
    return await project.call("pinata_verify", {"run": run, **fields})


async def freshness(project: Project, run: str) -> str:
    status = await project.call("pinata_status", {"run": run})
    return str(status["verification"]["freshness"])


def written(name: str) -> list[str]:
    return [sys.executable, "-c", f"open({name!r}, 'a').write('x')"]


async def test_destination_is_verified_without_applying_anything(project: Project) -> None:
    run = await approved_run(project, integratedChecks=[{"id": "fine", "argv": PASS}])
    project.repo.write("kept.txt", "staged\n")
    project.repo.git("add", "kept.txt")
    before = project.repo.facts()
    receipt = await verify(project, run)
    assert receipt["status"] == "verified"
    assert (receipt["application"], receipt["differingPaths"]) == ("different", CHANGED)
    assert receipt["scope"] == "destination-checks"
    assert receipt["reviewScope"] == "builder-artifacts-only"
    assert receipt["origin"] == "verify"
    assert receipt["omitted"] == []
    assert "ignored files" in receipt["uncovered"]
    assert receipt["head"] == project.repo.ask("rev-parse", "HEAD").strip()
    assert project.repo.facts() == before
    assert await freshness(project, run) == "current"


async def test_destination_is_exact_after_integration_and_different_after_an_edit(
    project: Project,
) -> None:
    run = await approved_run(project, integratedChecks=[{"id": "fine", "argv": PASS}])
    await project.call("pinata_integrate", {"run": run})
    assert await freshness(project, run) == "current"
    project.repo.git("add", "--all")
    project.repo.git("commit", "-qm", "the user goes on")
    receipt = await verify(project, run)
    assert (receipt["status"], receipt["application"]) == ("verified", "exact")
    project.repo.write("a.txt", "edited\n")
    assert await freshness(project, run) == "historical"
    receipt = await verify(project, run)
    assert (receipt["application"], receipt["differingPaths"]) == ("different", ["a.txt"])
    assert await freshness(project, run) == "current"


async def test_check_that_changes_source_spoils_the_verification(project: Project) -> None:
    run = await approved_run(project)
    receipt = await verify(project, run, checks=[{"id": "log", "argv": written("made.log")}])
    assert receipt["status"] == "verified"
    receipt = await verify(project, run, checks=[{"id": "mess", "argv": written("made.txt")}])
    assert receipt["status"] == "source_changed"
    assert receipt["after"]["contentTree"] != receipt["contentTree"]
    assert await freshness(project, run) == "historical"


async def test_checks_of_a_call_replace_the_runs_own_for_that_call_alone(
    project: Project,
) -> None:
    run = await approved_run(project, integratedChecks=[{"id": "own", "argv": PASS}])
    checks = [{"id": "mine", "argv": FAIL}, {"id": "later", "argv": PASS}]
    receipt = await verify(project, run, checks=checks)
    assert receipt["status"] == "verification_failed"
    assert [(check["id"], check["list"]) for check in receipt["checks"]] == [("mine", "explicit")]
    assert receipt["omitted"] == ["later"]
    again = await verify(project, run)
    assert again["status"] == "verified"
    assert [(c["id"], c["list"]) for c in again["checks"]] == [("own", "integratedChecks")]

    first, second = (each["checks"][0]["stdout"] for each in (receipt, again))
    assert first["path"] != second["path"]
    for log in (first, second):
        assert hashlib.sha256(read(log["path"]).encode()).hexdigest() == log["sha256"]
    assert (receipt["id"], again["id"]) == (1, 2)


async def test_moved_checkout_leaves_freshness_unknown(project: Project) -> None:
    run = await approved_run(project)
    await verify(project, run)
    # A linked worktree shares the records, and the checkout that the run speaks of moves away.
    other = project.folder / "other"
    project.repo.git("worktree", "add", "-q", str(other))
    for name in CHANGED[:2]:
        (project.repo.root / name).unlink()
    assert await freshness(project, run) == "historical"
    project.repo.root.joinpath(".git").rename(project.folder / "moved.git")
    (other / ".git").write_text(f"gitdir: {project.folder}/moved.git/worktrees/other\n")
    elsewhere = Project(replace(project.repo, root=other), project.folder)
    assert await freshness(elsewhere, run) == "unknown"


async def test_no_checks_need_a_reason_and_are_never_a_pass(project: Project) -> None:
    run = await approved_run(project, noIntegratedChecksReason="none yet")
    assert (await verify(project, run))["noChecksReason"] == "none yet"
    receipt = await verify(project, run, checks=[], noChecksReason="a look is enough")
    assert (receipt["status"], receipt["noChecksReason"]) == ("not_run", "a look is enough")
    with pytest.raises(UsageError, match=r"noChecksReason is missing"):
        await verify(project, run, checks=[])
    with pytest.raises(UsageError, match=r"noChecksReason: goes with"):
        await verify(project, run, noChecksReason="why not")
    with pytest.raises(UsageError, match=r"noChecksReason: goes with"):
        await verify(project, run, checks=[{"id": "a", "argv": PASS}], noChecksReason="why not")


async def test_run_without_writers_has_nothing_to_differ_in(project: Project) -> None:
    answer = await project.run([scout("look")], {"look": [reports()]})
    receipt = await verify(project, answer["run"])
    assert (receipt["application"], receipt["differingPaths"]) == ("exact", [])
    assert receipt["status"] == "not_run"


async def test_writer_that_failed_is_said_not_to_be_compared(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt"), builder("other", "new.txt")],
        {
            "fix": [shell("echo two > a.txt"), submits("failed", blockers=["no"])],
            "other": [shell("echo n > new.txt"), submits(changedFiles=["new.txt"])],
        },
    )
    receipt = await verify(project, answer["run"])
    assert receipt["differingPaths"] == ["new.txt"]
    project.repo.write("new.txt", "n\n")
    receipt = await verify(project, answer["run"])
    assert (receipt["application"], receipt["differingPaths"]) == ("different", [])
    assert receipt["notices"] == ["not compared, since there is no verified change: fix"]
