"""A verdict is bound to one exact change, and everything in doubt is not an approval."""

from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ConflictError
from tests.support.projects import (
    FAIL,
    Project,
    approves,
    builder,
    read,
    requests_changes,
    reviewer,
    says,
    shell,
    submits,
    task_of,
)

CHANGE = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


async def reviewed(project: Project, *turns: dict[str, Any], **fields: object) -> dict[str, Any]:
    """Run a builder, and a reviewer of it that takes `turns`; return the summary."""
    return await project.run(
        [builder("fix", "a.txt"), reviewer("judge", "fix", **fields)],
        {"fix": CHANGE, "judge": list(turns)},
    )


async def test_approval_is_bound_to_what_was_captured_and_read_in_the_writers_worktree(
    project: Project,
) -> None:
    answer = await reviewed(project, says("read", path="a.txt"), approves())
    judge, fix = task_of(answer, "judge"), task_of(answer, "fix")
    assert (judge["status"], judge["verdict"]) == ("succeeded", "approve")
    assert judge["review"] == {
        "target": {"task": "fix"},
        "fingerprint": fix["artifact"]["fingerprint"],
        "scope": "builder-artifact",
        "verdict": "approve",
        "current": True,
    }
    transcript = read((await project.result(answer["run"], "judge"))["transcript"])
    assert "two" in transcript
    diff = project.repo.root / ".git" / "pinata" / answer["run"] / "reviews" / "judge.1.diff"
    assert "+two" in read(str(diff))


async def test_failed_and_changes_requested_is_a_rejection(project: Project) -> None:
    answer = await reviewed(project, requests_changes(status="failed", summary="off by one"))
    judge = task_of(answer, "judge")
    assert (judge["status"], judge["reason"]) == ("rejected", "changes requested: off by one")


@pytest.mark.parametrize("turn", [approves(), requests_changes()], ids=["approval", "rejection"])
async def test_failing_evidence_check_fails_the_review_whatever_it_said(
    project: Project, turn: dict[str, Any]
) -> None:
    answer = await reviewed(project, turn, evidenceChecks=[{"id": "seen", "argv": FAIL}])
    judge = task_of(answer, "judge")
    assert (judge["status"], judge["reason"]) == ("failed", "check seen failed: exited with 3")


async def test_evidence_check_that_changes_what_is_reviewed_fails_the_review(
    project: Project,
) -> None:
    edit = [{"id": "edit", "argv": ["sh", "-c", "echo three > a.txt"]}]
    answer = await reviewed(project, approves(), evidenceChecks=edit)
    judge = task_of(answer, "judge")
    assert judge["status"] == "failed"
    assert "an evidence check changed the source" in judge["reason"]
    with pytest.raises(ConflictError, match="task judge is failed"):
        await project.call("pinata_integrate", {"run": answer["run"]})


async def test_writers_worktree_that_changes_while_it_is_reviewed_fails_the_review(
    project: Project,
) -> None:
    elsewhere = "cd ../fix && echo three > a.txt"
    answer = await project.run(
        [
            builder("fix", "a.txt"),
            reviewer("judge", "fix", after=["fix", "meddle"]),
            builder("meddle", "b.txt", after=["fix"]),
        ],
        {"fix": CHANGE, "meddle": [shell(elsewhere), submits()], "judge": [approves()]},
    )
    judge = task_of(answer, "judge")
    assert (judge["status"], judge["reason"]) == (
        "failed",
        "what was reviewed changed meanwhile: a.txt",
    )


@pytest.mark.parametrize(
    "write",
    ["sed -i s/two/2/ {}", "cp -p {0} k; echo x >> {0}; cp -p k {0}; rm k", "rm {}"],
    ids=["altered", "put right again", "gone"],
)
async def test_diff_that_somebody_writes_to_while_it_is_judged_fails_the_review(
    write: str, project: Project
) -> None:
    """The reviewer itself can do it here, so that nothing has to happen at the right moment."""
    at = '"$(git rev-parse --path-format=absolute --git-common-dir)"/pinata/*/reviews/judge.1.diff'
    check = [{"id": "meddle", "argv": ["sh", "-c", write.format(at)]}]
    answer = await reviewed(project, approves(), evidenceChecks=check)
    judge = task_of(answer, "judge")
    assert judge["status"] == "failed"
    assert "somebody wrote to the diff that it was to judge: " in judge["reason"]
    assert judge["reason"].endswith("reviews/judge.1.diff")


async def test_reviewer_whose_results_are_all_refused_fails_with_what_was_wrong(
    project: Project,
) -> None:
    answer = await reviewed(project, submits())
    assert task_of(answer, "judge")["reason"] == (
        "the agent handed in no valid result; last: "
        "review: is missing; a succeeded reviewer hands in a verdict"
    )


async def test_silent_reviewer_has_no_verdict(project: Project) -> None:
    answer = await reviewed(project, {"text": "looks fine"})
    judge = task_of(answer, "judge")
    assert (judge["status"], judge["reason"]) == ("failed", "the agent handed in no result")
    with pytest.raises(ConflictError, match="task judge is failed"):
        await project.call("pinata_integrate", {"run": answer["run"]})
