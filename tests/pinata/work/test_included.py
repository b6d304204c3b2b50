"""Files that `.worktreeinclude` brings into a writer's worktree, through the public tool."""

from pathlib import Path

import pytest

from tests.support.projects import Project, builder, read, shell, submits, task_of


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files: dict[str, str | bytes] = {".gitignore": "*.local\n", "a.txt": "one\n"}
    return Project.create(tmp_path, files)


async def test_writer_finds_included_files_and_none_is_part_of_its_change(
    project: Project,
) -> None:
    project.repo.write("settings.local", "mine\n")
    project.repo.write("large.local", bytes(20 << 20))
    project.repo.place("link.local").symlink_to("settings.local")
    project.repo.write("new.txt", "not ignored\n")
    project.repo.write(".worktreeinclude", "*.local\nnew.txt\n")
    answer = await project.run(
        [builder("fix", ".gitignore", "a.txt")],
        {
            "fix": [
                shell("ls -A; cat settings.local > a.txt; : > .gitignore"),
                submits(changedFiles=[".gitignore", "a.txt"]),
            ]
        },
    )
    fix = task_of(answer, "fix")
    assert (fix["status"], fix["changedFiles"]) == ("succeeded", [".gitignore", "a.txt"])
    assert project.repo.git("show", f"{fix['artifact']['result']['tree']}:a.txt") == b"mine\n"
    assert fix["notices"] == [
        "large.local is larger than 16 MiB and was not copied into the worktree",
        "link.local is not a regular file and was not copied into the worktree",
    ]
    seen = read((await project.result(answer["run"], "fix"))["transcript"])
    assert "settings.local" in seen
    assert "link.local" not in seen


async def test_too_many_included_files_fail_the_task_before_its_agent_starts(
    project: Project,
) -> None:
    for number in range(1001):
        project.repo.write(f"{number}.local", "x")
    project.repo.write(".worktreeinclude", "*.local\n")
    answer = await project.run([builder("fix", "a.txt")], {"fix": [submits()]})
    fix = task_of(answer, "fix")
    assert fix["status"] == "failed"
    assert "matches 1,001 files" in fix["reason"]
    result = await project.result(answer["run"], "fix")
    assert (result["stage"], result["usage"]["turns"]) == ("workspace", 0)
