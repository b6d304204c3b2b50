"""A retired run still says what it did, takes back what it applied, and refuses the rest."""

from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ConflictError
from pinata import app
from pinata.work.retirement import RetiredRunError
from tests.support.garbage import FILES, approved_run, collect, folder_of, integrated_run, refs_of
from tests.support.projects import Project

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


async def retired(project: Project, run: str) -> str:
    """Retire a run and have Git delete every object that nothing names any more."""
    answer = await collect(project, run)
    assert answer["retired"] == [run], answer
    project.repo.git("reflog", "expire", "--expire=now", "--all")
    project.repo.git("gc", "--quiet", "--prune=now")
    return run


async def refusal(project: Project, tool: str, run: str, **more: str) -> str:
    with pytest.raises(RetiredRunError) as caught:
        await project.call(tool, {"run": run, **more})
    return str(caught.value)


async def test_retired_run_names_the_remedy_of_all_that_it_cannot_do(project: Project) -> None:
    run = await retired(project, await approved_run(project))
    patches = folder_of(project, run).path / "patches"
    where = f"its patches lie in {patches} and in refs/pinata/{run}/evidence"
    gone = f"run {run} is retired: its worktrees and the objects of its changes were given up; "
    assert await refusal(project, "pinata_integrate", run) == (
        f"{gone}apply it by hand ({where}), or start a new run"
    )
    mend = {"task": "fix", "feedback": "mend it"}
    assert await refusal(project, "pinata_repair", run, **mend) == (
        f"{gone}start a new run ({where})"
    )
    handed = folder_of(project, run).handoffs
    assert await refusal(project, "pinata_changes", run) == (
        f"{gone}what was handed over before lies in {handed}, {where}"
    )
    with pytest.raises(ConflictError, match="was not integrated: nothing to roll back"):
        await project.call("pinata_rollback", {"run": run, "confirm": True})
    project.repo.git("apply", str(patches / "fix.1.patch"))
    assert (project.repo.root / "a.txt").read_text() == "two\n"


async def test_retired_run_still_says_what_it_did(project: Project) -> None:
    run = await integrated_run(project)
    before = await project.call("pinata_status", {"run": run})
    await retired(project, run)
    after = await project.call("pinata_status", {"run": run})
    *earlier, notice = after.pop("notices")
    assert earlier == before.pop("notices", [])
    assert notice.startswith("the run is retired, so it cannot go on or be integrated: its patches")
    assert after == before
    context = app.build_context(project.env, project.repo.root, project.recorder)
    resumed = await app.resume_run(context, run)
    assert resumed["status"] == "succeeded"
    receipt = await project.call("pinata_verify", {"run": run})
    assert receipt["application"] == "exact"
    says = "no evidence was written: the run is retired, and what it is made of may be gone"
    assert receipt["notices"] == [says]


async def test_retired_run_is_verified_by_its_evidence_and_rolled_back(project: Project) -> None:
    run = await retired(project, await integrated_run(project))
    context = app.build_context(project.env, project.repo.root, project.recorder)
    ref = f"refs/pinata/{run}/evidence"
    verified: dict[str, Any] = await app.verify_evidence(
        context, name=ref, expected=None, commit=None, run_checks=False
    )
    assert (verified["faults"], verified["application"]) == ([], "exact")
    answer = await project.call("pinata_rollback", {"run": run, "confirm": True})
    assert answer["files"] == [{"path": "a.txt", "outcome": "restored"}]
    (notice,) = answer["notices"]
    assert notice.startswith("the run is retired and cannot be integrated again: its patches lie")
    assert (project.repo.root / "a.txt").read_text() == "one\n"
    assert refs_of(project, run) == ["evidence"]
    assert (await collect(project))["removed"] == []
