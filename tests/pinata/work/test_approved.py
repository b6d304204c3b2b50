"""What is let into a checkout is held against the request once more, whoever wrote the records."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ConflictError, CorruptionError
from tests.support.projects import PASS, Project, approves, builder, reviewer, shell, submits

Forged = Callable[[dict[str, Any]], object]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


async def run_of(project: Project) -> Path:
    """Run a builder with a check, and a reviewer with one; return the folder of the run."""
    checks = [{"id": "seen", "argv": PASS}]
    answer = await project.run(
        [
            builder("fix", "a.txt", checks=checks),
            reviewer("judge", "fix", evidenceChecks=checks),
        ],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "judge": [approves()],
        },
    )
    assert answer["status"] == "succeeded"
    return project.repo.root / ".git" / "pinata" / str(answer["run"])


def forge(folder: Path, task: str, forged: Forged) -> None:
    """Change a result, and have the log announce what it is then."""
    path, log = folder / "results" / f"{task}.1.json", folder / "events.jsonl"
    before = path.read_bytes()
    result = json.loads(before)
    forged(result)
    path.write_text(json.dumps(result))
    old, new = (hashlib.sha256(data).hexdigest() for data in (before, path.read_bytes()))
    assert old in log.read_text()
    log.write_text(log.read_text().replace(old, new))


def other_argv(result: dict[str, Any]) -> None:
    result["checks"][0]["argv"] = ["true"]


@pytest.mark.parametrize(
    ("task", "forged", "says"),
    [
        ("fix", lambda r: r.update(checks=[]), "check seen has no proof"),
        ("fix", other_argv, "check seen has no proof that it passed as it was planned"),
        ("fix", lambda r: r["checks"].append(r["checks"][0]), "its checks are not the planned"),
        ("fix", lambda r: r["checks"][0].update(passed=False, code=1), "check seen did not pass"),
        ("judge", lambda r: r.update(checks=[]), "check seen has no proof"),
        ("fix", lambda r: r["artifact"]["changes"][0].update(path="b.txt"), "does not own: b.txt"),
        ("fix", lambda r: r["submission"].update(changedFiles=[]), "does not name a.txt"),
        ("fix", lambda r: r["submission"].pop("changedFiles"), "names no changed files"),
        ("fix", lambda r: r.update(submission=None), "without a captured change"),
        ("fix", lambda r: r["artifact"].update(base_tree="0" * 40), "from the run's base"),
    ],
)
async def test_result_that_cannot_be_true_goes_nowhere(
    project: Project, task: str, forged: Forged, says: str
) -> None:
    folder = await run_of(project)
    forge(folder, task, forged)
    with pytest.raises(CorruptionError, match=says):
        await project.call("pinata_integrate", {"run": folder.name})
    with pytest.raises(CorruptionError, match=f"saved result of task {task} is not true"):
        await project.call("pinata_changes", {"run": folder.name})
    assert (project.repo.root / "a.txt").read_text() == "one\n"


async def test_run_that_did_not_succeed_as_a_whole_goes_nowhere(project: Project) -> None:
    folder = await run_of(project)
    lines = (folder / "events.jsonl").read_text().splitlines()
    lines[-1] = lines[-1].replace('"succeeded"', '"cancelled"')
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(ConflictError, match="the run is cancelled: it must succeed as a whole"):
        await project.call("pinata_integrate", {"run": folder.name})
