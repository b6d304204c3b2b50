"""A run goes on only with refs that its own records name."""

from pathlib import Path

import pytest

from engine.core.errors import ConflictError
from tests.support.projects import Project, approves, builder, reviewer, shell, statuses, submits

PLANT = "git update-ref refs/pinata/$(basename $(dirname $PWD))/{} {}"
EVIDENCE = "$(git commit-tree -m planted $(git mktree </dev/null))"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def failed_run(project: Project, command: str) -> str:
    """Run a builder that does something it must not; return the run."""
    identity = "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x"
    command = f"{identity} GIT_COMMITTER_EMAIL=x; {command}"
    answer = await project.run(
        [builder("fix", "a.txt"), reviewer("judge", "fix")],
        {
            "fix": [shell(command), submits()],
            "fix@2": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "judge": [approves()],
        },
    )
    assert statuses(answer) == {"fix": "failed", "judge": "blocked"}, answer
    run: str = answer["run"]
    return run


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("evidence", EVIDENCE),
        ("planted", "HEAD"),
        ("tasks/fix/2", "HEAD"),
        ("tasks/other/1", "HEAD"),
        ("base", EVIDENCE),
        ("checkout", "HEAD"),
        ("pr/1/head", "HEAD"),
    ],
)
async def test_repair_is_refused_until_a_ref_that_nobody_knows_is_put_right(
    name: str, target: str, project: Project
) -> None:
    run = await failed_run(project, PLANT.format(name, target))
    ref, request = f"refs/pinata/{run}/{name}", {"run": run, "task": "fix", "feedback": "do it"}
    with pytest.raises(ConflictError, match=f"{ref} .*`git update-ref") as refused:
        await project.call("pinata_repair", request)
    remedy = str(refused.value).split("`")[1].split()
    project.repo.git(*remedy[1:])
    answer = await project.call("pinata_repair", request)
    assert statuses(answer) == {"fix": "succeeded", "judge": "succeeded"}


async def test_repair_is_refused_until_an_attempts_ref_keeps_what_it_came_to(
    project: Project,
) -> None:
    run = await failed_run(project, "echo x > nobodys.txt")
    ref, request = f"refs/pinata/{run}/tasks/fix/1", {"run": run, "task": "fix", "feedback": "x"}
    kept = project.repo.ask("rev-parse", ref)
    project.repo.git("update-ref", ref, "HEAD")
    with pytest.raises(ConflictError, match=f"put it back with `git update-ref {ref} {kept}`"):
        await project.call("pinata_repair", request)
