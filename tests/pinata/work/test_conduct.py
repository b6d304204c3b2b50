"""Taking over a run whose owner died."""

import shutil
from pathlib import Path

from tests.support.projects import Project, reports, scout


def test_run_whose_results_cannot_be_saved_is_not_closed_and_says_so(tmp_path: Path) -> None:
    project = Project.create(tmp_path)
    job = project.write_job(project.job([scout("look")], {"look": [reports()]}))
    killed = project.pinata("run", str(job), env={"PINATA_FAULTS": "kill:store.result.started:1"})
    assert killed.returncode == -9, killed.stderr
    (run,) = project.runs
    results = project.repo.root / ".git" / "pinata" / run / "results"
    shutil.rmtree(results)
    refused = project.pinata("resume", run)
    assert refused.returncode == 1
    assert refused.stderr == "pinata: cannot save results: No such file or directory\n"
    results.mkdir(0o700)
    closed = project.pinata("resume", run)
    assert "run failed: 1 of 1 tasks" in closed.stdout, closed.stderr
