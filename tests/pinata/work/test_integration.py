"""Approved changes go in exactly, come out exactly, and nothing else ever goes in."""

import os
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ConflictError, UsageError
from pinata.faces.text import integration_lines
from pinata.work.history import outlines
from tests.support.movers import forget_renameat2
from tests.support.projects import (
    FAIL,
    PASS,
    Project,
    approves,
    builder,
    requests_changes,
    reviewer,
    shell,
    statuses,
    submits,
    task_of,
)

FILES: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n", "dir/c.txt": "c\n"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


async def approved_run(
    project: Project, command: str, changed: list[str], **fields: object
) -> dict[str, Any]:
    """Run a builder that runs `command`, and a reviewer that approves."""
    owned = [*changed]
    answer = await project.run(
        [builder("fix", *owned), reviewer("check", "fix")],
        {"fix": [shell(command), submits(changedFiles=changed)], "check": [approves()]},
        **fields,
    )
    assert answer["status"] == "succeeded", answer
    return answer


def listing(project: Project) -> dict[str, tuple[int, bytes]]:
    """Return every file of the checkout with its mode and bytes, and every folder."""
    found = {}
    for folder, folders, names in os.walk(project.repo.root):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*names, *folders):
            path = Path(folder) / name
            data = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(project.repo.root))] = (path.lstat().st_mode, data)
    return found


def head_and_index(project: Project) -> tuple[bytes, bytes]:
    return (
        project.repo.git("rev-parse", "HEAD"),
        project.repo.git("ls-files", "--stage", "--debug"),
    )


async def test_change_goes_in_beside_the_users_own_edit_and_is_verified(project: Project) -> None:
    checks = [{"id": "seen", "argv": ["grep", "-q", "two", "a.txt"]}]
    answer = await approved_run(
        project,
        "echo two > a.txt; mkdir new; echo n > new/n.txt",
        ["a.txt", "new/n.txt"],
        integratedChecks=checks,
    )
    project.repo.write("b.txt", "mine\n")
    before = head_and_index(project)
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert done["status"] == "verified"
    assert [entry["path"] for entry in done["files"]] == ["a.txt", "new/n.txt"]
    assert done["receipt"]["application"] == "exact"
    assert head_and_index(project) == before
    now = {name: data for name, (_, data) in listing(project).items()}
    assert (now["a.txt"], now["b.txt"], now["new/n.txt"]) == (b"two\n", b"mine\n", b"n\n")

    inode = (project.repo.root / "a.txt").stat().st_ino
    again = await project.call("pinata_integrate", {"run": answer["run"]})
    assert (again["status"], again["receipt"]["id"]) == ("verified", 2)
    assert (project.repo.root / "a.txt").stat().st_ino == inode


async def test_without_checks_the_change_is_applied_unverified_with_the_reason(
    project: Project,
) -> None:
    answer = await approved_run(
        project, "echo two > a.txt", ["a.txt"], noIntegratedChecksReason="there are none"
    )
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert done["status"] == "applied_unverified"
    assert done["receipt"]["noChecksReason"] == "there are none"


async def test_absence_of_files_that_are_replaced_in_steps_is_told(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"])
    forget_renameat2(monkeypatch)
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert project.repo.root.joinpath("a.txt").read_bytes() == b"two\n"
    assert any("is absent for a moment" in line for line in integration_lines(done))
    monkeypatch.undo()
    await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    assert project.repo.root.joinpath("a.txt").read_bytes() == b"one\n"


async def test_edited_destination_is_refused_before_anything_is_written(project: Project) -> None:
    answer = await approved_run(project, "echo two > a.txt; echo x > b.txt", ["a.txt", "b.txt"])
    project.repo.write("b.txt", "mine\n")
    before = listing(project)
    with pytest.raises(ConflictError, match=r"b\.txt"):
        await project.call("pinata_integrate", {"run": answer["run"]})
    assert listing(project) == before
    with pytest.raises(ConflictError, match="was not integrated"):
        await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})


async def test_head_may_advance_by_a_commit_on_other_files_only(project: Project) -> None:
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"])
    project.repo.write("b.txt", "theirs\n")
    project.repo.commit("elsewhere")
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert done["status"] == "applied_unverified"


async def test_head_that_advanced_over_an_affected_file_is_refused(project: Project) -> None:
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"])
    project.repo.write("a.txt", "theirs\n")
    project.repo.commit("here")
    with pytest.raises(ConflictError, match=r"a\.txt"):
        await project.call("pinata_integrate", {"run": answer["run"]})


@pytest.mark.parametrize(
    ("command", "path", "complaint"),
    [
        ("echo k=1 > .env", ".env", "bears secrets"),
        ("ln -s b.txt link", "link", "symbolic link"),
    ],
    ids=["secret", "symlink"],
)
async def test_change_that_never_goes_in_is_refused_naming_it(
    project: Project, command: str, path: str, complaint: str
) -> None:
    answer = await approved_run(project, command, [path])
    with pytest.raises(ConflictError, match=complaint):
        await project.call("pinata_integrate", {"run": answer["run"]})


async def test_template_of_a_secret_file_goes_in(project: Project) -> None:
    answer = await approved_run(project, "echo k= > .env.example", [".env.example"])
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert done["status"] == "applied_unverified"


async def test_unreviewed_builder_is_refused(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    with pytest.raises(ConflictError, match="task fix: nobody reviewed"):
        await project.call("pinata_integrate", {"run": answer["run"]})


async def test_one_rejection_of_two_reviews_is_refused(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt"), reviewer("yes", "fix"), reviewer("no", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "yes": [approves()],
            "no": [requests_changes(summary="wrong")],
        },
    )
    assert statuses(answer) == {"fix": "succeeded", "yes": "succeeded", "no": "rejected"}
    with pytest.raises(ConflictError, match="task no is rejected"):
        await project.call("pinata_integrate", {"run": answer["run"]})


async def test_commit_after_integration_ends_both_resuming_and_rolling_back(
    project: Project,
) -> None:
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"])
    await project.call("pinata_integrate", {"run": answer["run"]})
    project.repo.commit("take it")
    for tool, more in (("pinata_integrate", {}), ("pinata_rollback", {"confirm": True})):
        with pytest.raises(ConflictError, match="HEAD has changed"):
            await project.call(tool, {"run": answer["run"]} | more)


async def test_failing_check_leaves_the_change_in_place_and_says_so(project: Project) -> None:
    checks = [{"id": "no", "argv": FAIL}, {"id": "later", "argv": PASS}]
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"], integratedChecks=checks)
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert done["status"] == "verification_failed"
    assert done["receipt"]["omitted"] == ["later"]
    assert listing(project)["a.txt"][1] == b"two\n"


async def test_check_that_writes_source_is_a_changed_source(project: Project) -> None:
    checks = [{"id": "messy", "argv": ["sh", "-c", "echo x > junk.txt"]}]
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"], integratedChecks=checks)
    done = await project.call("pinata_integrate", {"run": answer["run"]})
    assert (done["status"], done["receipt"]["status"]) == (
        "verification_failed",
        "source_changed",
    )


async def test_two_ordered_builders_of_one_file_leave_the_last_ones_content(
    project: Project,
) -> None:
    answer = await project.run(
        [
            builder("one", "a.txt"),
            reviewer("judge-one", "one"),
            builder("two", "a.txt", after=["one"]),
            reviewer("judge-two", "two"),
        ],
        {
            "one": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "two": [shell("echo three >> a.txt"), submits(changedFiles=["a.txt"])],
            "*": [approves()],
        },
    )
    await project.call("pinata_integrate", {"run": answer["run"]})
    assert listing(project)["a.txt"][1] == b"two\nthree\n"
    await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    assert listing(project)["a.txt"][1] == b"one\n"


async def test_staging_between_integration_and_rollback_refuses_the_rollback(
    project: Project,
) -> None:
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"])
    await project.call("pinata_integrate", {"run": answer["run"]})
    project.repo.write("b.txt", "staged\n")
    project.repo.git("add", "b.txt")
    before = listing(project)
    with pytest.raises(ConflictError, match="index has changed"):
        await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    assert listing(project) == before


async def test_rollback_is_the_identity_and_needs_to_be_meant(project: Project) -> None:
    project.repo.write("a.txt", "dirty before\n")
    (project.repo.root / "dir/c.txt").chmod(0o640)
    before = listing(project)
    answer = await approved_run(
        project,
        "echo two > a.txt; rm dir/c.txt; mkdir -p n/m; echo x > n/m/x",
        ["a.txt", "dir/c.txt", "n/m/x"],
    )
    await project.call("pinata_integrate", {"run": answer["run"]})
    assert listing(project) != before
    with pytest.raises(UsageError, match="confirm"):
        await project.call("pinata_rollback", {"run": answer["run"]})
    done = await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    assert [(entry["path"], entry["outcome"]) for entry in done["files"]] == [
        ("a.txt", "restored"),
        ("dir/c.txt", "restored"),
        ("n/m/x", "removed"),
    ]
    assert listing(project) == before
    with pytest.raises(ConflictError, match="already"):
        await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    again = await project.call("pinata_integrate", {"run": answer["run"]})
    assert again["status"] == "applied_unverified"


async def test_status_and_the_list_of_runs_say_what_became_of_an_integration(
    project: Project,
) -> None:
    async def said() -> tuple[str | None, str | None]:
        shown = await project.call("pinata_status", {"run": run})
        (listed,) = outlines(project.repo.root / ".git")
        return shown.get("integration"), listed.get("integration")

    run = (await approved_run(project, "echo two > a.txt", ["a.txt"]))["run"]
    assert await said() == (None, None)
    await project.call("pinata_integrate", {"run": run})
    assert await said() == ("applied_unverified", "applied_unverified")
    await project.call("pinata_rollback", {"run": run, "confirm": True})
    assert await said() == ("rolled_back", "rolled_back")


async def test_rollback_after_an_edit_does_nothing_and_names_the_file(project: Project) -> None:
    answer = await approved_run(project, "echo two > a.txt; echo x > b.txt", ["a.txt", "b.txt"])
    await project.call("pinata_integrate", {"run": answer["run"]})
    project.repo.write("b.txt", "edited since\n")
    before = listing(project)
    with pytest.raises(ConflictError, match=r"b\.txt"):
        await project.call("pinata_rollback", {"run": answer["run"], "confirm": True})
    assert listing(project) == before


async def test_tampered_result_file_is_damage_and_nothing_is_done(project: Project) -> None:
    answer = await approved_run(project, "echo two > a.txt", ["a.txt"])
    path = project.repo.root / ".git" / "pinata" / answer["run"] / "results" / "check.1.json"
    path.write_bytes(path.read_bytes().replace(b"did what was asked", b"did what was wanted"))
    done = project.pinata("integrate", answer["run"])
    assert done.returncode == 5
    assert "check.1.json" in done.stderr
    assert task_of(answer, "fix")["status"] == "succeeded"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the first first", "the last first"])
async def test_folder_of_two_integrations_goes_with_whichever_is_taken_back_last(
    project: Project, order: tuple[int, int]
) -> None:
    before = listing(project)
    runs = []
    for name in ("one", "two"):
        path = f"new/inner/{name}.txt"
        run = await approved_run(project, f"mkdir -p new/inner; echo x > {path}", [path])
        await project.call("pinata_integrate", {"run": run["run"]})
        runs.append(run["run"])
    for number in order:
        await project.call("pinata_rollback", {"run": runs[number], "confirm": True})
    assert listing(project) == before
    assert not project.repo.root.joinpath("new").exists()


async def test_folder_that_its_user_made_anew_is_not_taken_for_one_of_an_integration(
    project: Project,
) -> None:
    first = await approved_run(project, "mkdir new; echo x > new/one.txt", ["new/one.txt"])
    await project.call("pinata_integrate", {"run": first["run"]})
    await project.call("pinata_rollback", {"run": first["run"], "confirm": True})
    project.repo.root.joinpath("new").mkdir()
    second = await approved_run(project, "mkdir new; echo x > new/two.txt", ["new/two.txt"])
    await project.call("pinata_integrate", {"run": second["run"]})
    await project.call("pinata_rollback", {"run": second["run"], "confirm": True})
    assert project.repo.root.joinpath("new").is_dir()
