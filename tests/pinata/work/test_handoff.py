"""What is handed over is exactly what was approved, and stays as it was handed over."""

from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ConflictError, CorruptionError
from tests.support.projects import (
    PASS,
    Project,
    approves,
    builder,
    read,
    reports,
    requests_changes,
    reviewer,
    scout,
    shell,
    submits,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


def made(project: Project) -> dict[str, bytes]:
    """Return the files of all hand-offs, by their place."""
    folder = project.repo.root / ".git" / "pinata"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.glob("*/handoffs/**/*"))
        if path.is_file()
    }


async def changes(project: Project, run: dict[str, Any]) -> dict[str, Any]:
    return await project.call("pinata_changes", {"run": run["run"]})


async def test_hand_off_holds_what_was_approved_and_is_the_same_each_time(
    project: Project,
) -> None:
    project.repo.write("b.txt", "mine\n")
    head = project.repo.ask("rev-parse", "HEAD").strip()
    checks = [{"id": "fine", "argv": PASS}]
    run = await project.run(
        [builder("fix", "a.txt", checks=checks), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [approves(findings=[{"severity": "low", "message": "m", "evidence": "e"}])],
        },
    )
    status = project.repo.ask("status", "--porcelain")
    manifest = await changes(project, run)
    files = made(project)
    assert await changes(project, run) == manifest
    assert made(project) == files
    assert project.repo.ask("status", "--porcelain") == status

    assert manifest["schemaVersion"] == 1
    assert manifest["startingHead"] == head
    assert manifest["reviewScope"] == "builder-artifacts-only"
    assert manifest["snapshot"]["uncommittedFiles"] == ["b.txt"]
    (fix,) = manifest["builders"]
    assert fix["base"]["commit"] == manifest["snapshot"]["commit"] != head
    assert fix["base"]["uncommitted"] is True
    assert fix["agent"]["name"] == "builder"
    assert [(c["path"], c["status"]) for c in fix["changes"]] == [("a.txt", "M")]
    assert [(c["id"], c["passed"]) for c in fix["checks"]] == [("fine", True)]
    (review,) = fix["reviews"]
    assert (review["task"], review["verdict"]) == ("check", "approve")
    assert review["fingerprint"] == fix["fingerprint"]
    assert [finding["message"] for finding in review["findings"]] == ["m"]
    assert fix["refusals"] == []

    project.repo.git("apply", fix["patch"]["path"])
    assert (project.repo.root / "a.txt").read_text() == "two\n"
    told = await project.call("pinata_status", {"run": run["run"]})
    assert told["handoffs"] == [{"handoff": manifest["handoff"], "freshness": "current"}]


async def test_new_evidence_makes_a_new_hand_off_beside_the_old(project: Project) -> None:
    run = await project.run(
        [builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "fix@2": [shell("echo three > a.txt"), submits(changedFiles=["a.txt"])],
            "*": [approves()],
        },
    )
    first = await changes(project, run)
    before = made(project)
    again = {"run": run["run"], "task": "fix", "feedback": "make it three"}
    assert (await project.call("pinata_repair", again))["status"] == "succeeded"
    told = await project.call("pinata_status", {"run": run["run"]})
    assert told["handoffs"] == [{"handoff": first["handoff"], "freshness": "historical"}]
    second = await changes(project, run)
    assert second["handoff"] != first["handoff"]
    (fix,) = second["builders"]
    assert (fix["attempt"], fix["base"]) == (2, first["builders"][0]["base"])
    assert "+three" in read(fix["patch"]["path"])
    after = made(project)
    assert {path: after[path] for path in before} == before
    told = await project.call("pinata_status", {"run": run["run"]})
    assert told["handoffs"] == [
        {"handoff": first["handoff"], "freshness": "historical"},
        {"handoff": second["handoff"], "freshness": "current"},
    ]


async def test_dependent_builder_hands_over_only_its_own_change(project: Project) -> None:
    run = await project.run(
        [
            builder("first", "a.txt"),
            reviewer("check-first", "first"),
            builder("then", "b.txt", after=["first"]),
            reviewer("check-then", "then"),
        ],
        {
            "first": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "then": [shell("cat a.txt > b.txt"), submits(changedFiles=["b.txt"])],
            "*": [approves()],
        },
    )
    manifest = await changes(project, run)
    assert manifest["order"] == ["first", "then"]
    assert "snapshot" not in manifest
    first, then = manifest["builders"]
    assert then["base"]["tree"] == first["result"]["tree"]
    assert then["base"]["predecessors"] == ["first"]
    assert [change["path"] for change in then["changes"]] == ["b.txt"]
    assert "a.txt" not in read(then["patch"]["path"])


async def test_what_is_not_approved_is_named_instead(project: Project) -> None:
    script = {
        "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
        "check": [requests_changes()],
        "look": [reports()],
    }
    rejected = await project.run([builder("fix", "a.txt"), reviewer("check", "fix")], script)
    with pytest.raises(ConflictError, match=r"task check is rejected"):
        await changes(project, rejected)
    unreviewed = await project.run([builder("fix", "a.txt")], script)
    with pytest.raises(ConflictError, match=r"task fix: nobody reviewed"):
        await changes(project, unreviewed)
    readers = await project.run([scout("look")], script)
    with pytest.raises(ConflictError, match="no task that changes files"):
        await changes(project, readers)
    assert made(project) == {}


async def test_what_can_never_be_integrated_is_handed_over_with_the_reason(
    project: Project,
) -> None:
    run = await project.run(
        [builder("fix", "link"), reviewer("check", "fix")],
        {
            "fix": [shell("ln -s a.txt link"), submits(changedFiles=["link"])],
            "check": [approves()],
        },
    )
    (fix,) = (await changes(project, run))["builders"]
    assert fix["refusals"] == [
        "link is a symbolic link: such a change is never integrated; make it by hand"
    ]


@pytest.mark.parametrize("name", ["fix.patch", "manifest.json"])
async def test_altered_hand_off_is_told_and_not_handed_over(name: str, project: Project) -> None:
    run = await project.run(
        [builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [approves()],
        },
    )
    manifest = await changes(project, run)
    path = Path(manifest["path"]).with_name(name)
    kept = path.read_bytes()
    spoiled = kept.replace(b"two", b"six").replace(b"approve", b"reprove")
    for data in (spoiled, b"{", b"[]", None):
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        with pytest.raises(CorruptionError, match=name):
            await changes(project, run)
