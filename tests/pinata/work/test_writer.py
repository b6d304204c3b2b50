"""What a writer may do and what fails it, through the public tool."""

from pathlib import Path

import pytest

from tests.support.projects import (
    FAIL,
    PASS,
    Project,
    builder,
    read,
    says,
    scout,
    shell,
    statuses,
    submits,
    task_of,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n", "src/x.py": "x = 1\n"})


async def test_change_of_an_owned_file_is_captured_and_the_checkout_is_as_before(
    project: Project,
) -> None:
    project.repo.write("b.txt", "mine\n")
    answer = await project.run(
        [builder("fix", "a.txt")],
        {
            "fix": [
                says("edit", path="a.txt", edits=[{"oldText": "one", "newText": "two"}]),
                submits(changedFiles=["a.txt"]),
            ]
        },
    )
    fix = task_of(answer, "fix")
    assert (answer["status"], fix["status"], fix["changedFiles"]) == (
        "succeeded",
        "succeeded",
        ["a.txt"],
    )
    assert (project.repo.root / "a.txt").read_text() == "one\n"
    assert project.repo.git("status", "--porcelain").decode() == " M b.txt\n"
    patch = (await project.result(answer["run"], "fix"))["artifact"]["patch"]["path"]
    assert "+two" in read(patch)


async def test_change_of_an_unowned_file_by_shell_fails_the_task_naming_it(
    project: Project,
) -> None:
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [shell("echo x > b.txt; echo y > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    fix = task_of(answer, "fix")
    assert fix["status"] == "failed"
    assert "b.txt" in fix["reason"]
    assert "a.txt" not in fix["reason"]


async def test_write_through_a_symbolic_link_leaves_the_target_alone_and_fails(
    project: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    answer = await project.run(
        [builder("fix", "src")],
        {
            "fix": [
                shell(f"ln -s {outside} src/link"),
                says("write", path="src/link/stolen.txt", content="x"),
                submits(changedFiles=[]),
            ]
        },
    )
    assert list(outside.iterdir()) == []
    assert "does not name src/link" in task_of(answer, "fix")["reason"]


@pytest.mark.parametrize(
    ("claimed", "complaint"),
    [
        (["a.txt", "b.txt"], "it names b.txt, which did not change"),
        ([], "it does not name a.txt"),
    ],
    ids=["too-much", "too-little"],
)
async def test_claim_that_is_not_what_changed_fails_the_task(
    project: Project, claimed: list[str], complaint: str
) -> None:
    answer = await project.run(
        [builder("fix", "a.txt", "b.txt")],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=claimed)]},
    )
    assert complaint in task_of(answer, "fix")["reason"]


async def test_commit_in_the_worktree_fails_the_task(project: Project) -> None:
    commit = "git -c user.name=x -c user.email=x@x commit -qam done"
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [shell(f"echo two > a.txt; {commit}"), submits(changedFiles=["a.txt"])]},
    )
    assert "moved HEAD of its worktree" in task_of(answer, "fix")["reason"]


async def test_check_that_edits_an_owned_file_fails_the_task(project: Project) -> None:
    edit = ["sh", "-c", "echo three > a.txt"]
    answer = await project.run(
        [builder("fix", "a.txt", checks=[{"id": "lint", "argv": edit}])],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    fix = task_of(answer, "fix")
    assert fix["reason"] == (
        "the checks changed what they were to prove; have Git ignore their products: a.txt"
    )
    assert fix["engineChecks"] == {"passed": 1, "failed": 0, "notRun": 0}


async def test_silent_writer_is_asked_once_more_with_tools_that_only_read(
    project: Project,
) -> None:
    answer = await project.run(
        [builder("fix", "a.txt")],
        {
            "fix": [
                shell("echo two > a.txt"),
                {"text": "done"},
                {"text": "really"},
                says("write", path="a.txt", content="three\n"),
                submits(changedFiles=["a.txt"]),
            ]
        },
    )
    assert statuses(answer) == {"fix": "succeeded"}
    transcript = read((await project.result(answer["run"], "fix"))["transcript"])
    assert "is not yours to call; yours are: read, grep, find, ls and codemode" in transcript
    assert answer["tasks"][0]["artifact"]["fingerprint"]


async def test_writer_that_never_hands_in_fails_and_its_change_is_kept(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt")], {"fix": [shell("echo two > a.txt"), {"text": "done"}]}
    )
    fix = task_of(answer, "fix")
    assert (fix["status"], fix["changedFiles"]) == ("failed", ["a.txt"])
    assert fix["reason"] == "the agent handed in no result"
    assert (await project.result(answer["run"], "fix"))["failureStage"] == "result"


async def test_writer_whose_only_result_was_refused_fails_with_what_was_wrong(
    project: Project,
) -> None:
    """The second conversation, without a word in it, does not hide what the first one was told."""
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [submits(changedFiles=["/a.txt"]), {"text": "done"}, {"text": "really"}]},
    )
    reason = task_of(answer, "fix")["reason"]
    assert reason.startswith("the agent handed in no valid result; last: changedFiles[0]: ")


async def test_blocked_writer_keeps_its_change_and_runs_no_checks(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt", checks=[{"id": "t", "argv": PASS}])],
        {
            "fix": [
                shell("echo two > a.txt"),
                submits("blocked", changedFiles=["a.txt"], blockers=["no network"]),
            ]
        },
    )
    fix = task_of(answer, "fix")
    assert (fix["status"], fix["reason"]) == ("blocked", "no network")
    assert fix["engineChecks"] == {"passed": 0, "failed": 0, "notRun": 1}
    assert fix["changedFiles"] == ["a.txt"]


async def test_failing_check_stops_the_rest_and_blocks_dependents(project: Project) -> None:
    checks = [
        {"id": "one", "argv": PASS},
        {"id": "two", "argv": FAIL},
        {"id": "three", "argv": PASS},
    ]
    answer = await project.run(
        [builder("fix", "a.txt", checks=checks), scout("after", after=["fix"])],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    fix = task_of(answer, "fix")
    assert fix["engineChecks"] == {"passed": 1, "failed": 1, "notRun": 1}
    assert fix["reason"] == "check two failed: exited with 3"
    assert statuses(answer)["after"] == "blocked"


async def test_second_writer_sees_the_first_ones_change_and_lists_only_its_own(
    project: Project,
) -> None:
    answer = await project.run(
        [builder("one", "a.txt"), builder("two", "b.txt", after=["one"])],
        {
            "one": [shell("echo new > a.txt"), submits(changedFiles=["a.txt"])],
            "two": [shell("cat a.txt > b.txt"), submits(changedFiles=["b.txt"])],
        },
    )
    two = task_of(answer, "two")
    assert two["changedFiles"] == ["b.txt"]
    tree = two["artifact"]["result"]["tree"]
    assert project.repo.git("show", f"{tree}:b.txt") == b"new\n"


async def test_results_survive_a_pruning_garbage_collection(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    tree = task_of(answer, "fix")["artifact"]["result"]["tree"]
    project.repo.git("gc", "--quiet", "--prune=now")
    assert project.repo.git("show", f"{tree}:a.txt") == b"two\n"


async def test_hook_planted_by_an_agent_fails_its_task(project: Project) -> None:
    hook = project.repo.root / ".git" / "hooks" / "post-checkout"
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [shell(f"echo x > {hook}"), submits()]},
    )
    assert "post-checkout" in task_of(answer, "fix")["reason"]


async def test_ref_of_the_run_moved_by_an_agent_fails_its_task(project: Project) -> None:
    steal = (
        "for ref in $(git for-each-ref --format='%(refname)' refs/pinata); "
        "do git update-ref -d $ref; done"
    )
    answer = await project.run([builder("fix", "a.txt")], {"fix": [shell(steal), submits()]})
    fix = task_of(answer, "fix")
    assert fix["status"] == "failed"
    assert "refs/pinata/" in fix["reason"]


async def test_setup_runs_before_the_agent_and_must_leave_no_change(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [submits()]},
        config={"setup": "echo set > b.txt"},
    )
    fix = task_of(answer, "fix")
    assert "setup changed b.txt" in fix["reason"]
    result = await project.result(answer["run"], "fix")
    assert (result["failureStage"], result["usage"]["turns"]) == ("setup", 0)


async def test_writer_finds_included_files_and_none_is_part_of_its_change(
    project: Project,
) -> None:
    project.repo.write(".gitignore", "*.local\n")
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
    project.repo.write(".gitignore", "*.local\n")
    for number in range(1001):
        project.repo.write(f"{number}.local", "x")
    project.repo.write(".worktreeinclude", "*.local\n")
    answer = await project.run([builder("fix", "a.txt")], {"fix": [submits()]})
    fix = task_of(answer, "fix")
    assert fix["status"] == "failed"
    assert "matches 1,001 files" in fix["reason"]
    result = await project.result(answer["run"], "fix")
    assert (result["failureStage"], result["usage"]["turns"]) == ("workspace", 0)


SWAP = "W=$PWD; cd /; mv $W $W.bak; ln -s {} $W"


@pytest.mark.parametrize(
    "then",
    [
        says("write", path="a.txt", content="stolen\n"),
        says("edit", path="a.txt", edits=[{"oldText": "one", "newText": "stolen"}]),
        shell("echo stolen > a.txt"),
    ],
    ids=["write", "edit", "bash"],
)
async def test_worktree_that_became_a_link_to_the_checkout_fails_and_leaves_that_alone(
    then: dict[str, object], project: Project
) -> None:
    project.repo.git("worktree", "add", "-q", "../linked")
    linked = project.repo.root.parent / "linked"
    tie = (linked / ".git").read_text()
    answer = await project.run(
        [builder("fix", "a.txt")],
        {
            "fix": [shell(SWAP.format(linked)), then, submits(changedFiles=["a.txt"])],
            "fix@2": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
        },
    )
    assert task_of(answer, "fix")["reason"].startswith("its worktree was replaced: ")
    request = {"run": answer["run"], "task": "fix", "feedback": "again"}
    again = task_of(await project.call("pinata_repair", request), "fix")
    assert again["reason"].startswith("its worktree was replaced: ")
    assert (linked / "a.txt").read_text() == "one\n"
    assert (linked / ".git").read_text() == tie


async def test_worktree_that_a_check_replaces_fails_the_task(project: Project) -> None:
    check = {"id": "swap", "argv": ["sh", "-c", SWAP.format(project.repo.root)]}
    answer = await project.run(
        [builder("fix", "a.txt", checks=[check, {"id": "next", "argv": PASS}])],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    assert task_of(answer, "fix")["reason"].startswith("its worktree was replaced: ")
