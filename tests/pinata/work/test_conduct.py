"""Carrying a run to its end beside others of its process, and taking over one whose owner died."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
import trio.testing

from agents.models.scripted import PROVIDER as SCRIPTED
from engine.core.events import AttemptStarted, RunStarted
from engine.records.event import Logged
from tests.support.projects import Project, Recorder, reports, scout, statuses
from tests.support.rooms import has_room


@dataclass(slots=True)
class Opening(Recorder):
    """Tells when the first events of a run were written."""

    opened: trio.Event = field(default_factory=trio.Event)

    def happened(self, logged: Logged) -> None:
        Recorder.happened(self, logged)
        if isinstance(logged.event, RunStarted):
            self.opened.set()


async def test_run_waits_while_others_of_its_process_take_all_that_its_provider_bears(
    tmp_path: Path,
) -> None:
    opening = Opening()
    project = Project.create(tmp_path)
    project.recorder = opening
    limiter = project.let_work(1).limiter
    answers: list[dict[str, Any]] = []

    async def run() -> None:
        answers.append(await project.run([scout("look")], {"look": [reports()]}))

    limiter.start(SCRIPTED)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await opening.opened.wait()
        await trio.testing.wait_all_tasks_blocked()
        # A start would have been written together with the opening.
        assert not any(isinstance(event, AttemptStarted) for event in opening.events)
        limiter.end(SCRIPTED)
    assert statuses(answers[0]) == {"look": "succeeded"}
    assert has_room(limiter, SCRIPTED)


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
