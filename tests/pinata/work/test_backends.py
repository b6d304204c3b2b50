"""Runs whose agents are programs: how one of them dies, and what another attempt makes of it."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from pinata import app
from tests.support.live import live
from tests.support.model_server import one_after_another, open_model_server
from tests.support.pi_agents import PROVIDER, write_models
from tests.support.pi_children import install
from tests.support.programs import is_running
from tests.support.projects import Project, builder, reviewer, scout, statuses, task_of

pytestmark = pytest.mark.slow
LONG_S = 60
DIES = """
begin()
print("fatal: out of memory", file=sys.stderr)
os._exit(3)
"""
HANGS = """
begin()
open({pid!r}, "w").write(str(os.getpid()))
time.sleep(600)
"""
REPORTS = "begin(); submit(); say('agent_settled')"
# A builder that does better when it is told to, and a reviewer that looks at what there is.
BUILDS = """
brief = begin()
if brief.startswith("# Task judge"):
    is_good = open("a.txt").read() == "good"
    verdict = "approve" if is_good else "changes_requested"
    submit(review={"verdict": verdict}, brief=None)
else:
    open("a.txt", "w").write("good" if "## Repair" in brief else "bad")
    submit(changedFiles=["a.txt"], brief=None)
say("agent_settled")
"""


@dataclass
class PiProject(Project):
    """A repository whose user has a Pi that is a program of the test's."""

    search: str = ""

    @property
    def env(self) -> dict[str, str]:
        """See `Project`."""
        added = {"PATH": self.search, "PI_CODING_AGENT_DIR": str(self.folder / "agent")}
        return super().env | added

    def job(self, tasks: Any, script: Any = (), **fields: Any) -> dict[str, Any]:
        """Return a job whose agents are a Pi each."""
        model = {"provider": PROVIDER, "id": "m1", "thinking": "off"}
        config = {"models": {"default": model}, "backend": "process"}
        return {"tasks": tasks, "config": config, "approval": "the test says so"} | fields


@pytest.fixture
async def project(tmp_path: Path) -> PiProject:
    """A project with a model that nobody asks."""
    project = PiProject.create(tmp_path, {"a.txt": "one\n"})
    async with open_model_server(one_after_another()) as server:
        write_models(tmp_path / "agent", server)
    return project


async def test_an_agent_that_dies_silently_fails_its_task_with_its_last_words(
    project: PiProject,
) -> None:
    project.search = install(project.folder, DIES)
    with trio.fail_after(LONG_S):
        answer = await project.call("pinata_run", project.job([scout("look")]))
    look = task_of(answer, "look")
    assert look["status"] == "failed"
    assert look["reason"] == "Pi ended by itself, with code 3; it last said: fatal: out of memory"


async def test_what_is_left_of_a_dead_owners_agents_is_ended_and_done_again(
    project: PiProject,
) -> None:
    pid = project.folder / "pid"
    project.search = install(project.folder, HANGS.format(pid=str(pid)))
    job = str(project.write_job(project.job([scout("look")])))

    def lose() -> None:
        with live(project, "run", job, "--json") as process:
            process.wait_event("agent_started")
            while not pid.exists() or not pid.read_text():
                trio.from_thread.check_cancelled()
            os.kill(process.process.pid, signal.SIGKILL)

    with trio.fail_after(LONG_S):
        await trio.to_thread.run_sync(lose)
        install(project.folder, REPORTS)
        context = app.build_context(project.env, project.repo.root, project.recorder)
        answer = await app.rerun_run(context, project.runs[0])
    assert statuses(answer) == {"look": "succeeded"}
    assert not is_running(int(pid.read_text()))
    transcripts = project.repo.root / ".git/pinata" / project.runs[0] / "transcripts"
    assert len(list(transcripts.iterdir())) == 2


async def test_a_builder_mends_what_its_reviewer_found(project: PiProject) -> None:
    project.search = install(project.folder, BUILDS)
    tasks = [builder("fix", "a.txt"), reviewer("judge", "fix")]
    with trio.fail_after(LONG_S):
        answer = await project.call("pinata_run", project.job(tasks))
        assert statuses(answer) == {"fix": "succeeded", "judge": "rejected"}
        request = {"run": answer["run"], "task": "fix", "feedback": "make it good"}
        mended = await project.call("pinata_repair", request)
    assert statuses(mended) == {"fix": "succeeded", "judge": "succeeded"}
    await project.call("pinata_integrate", {"run": answer["run"]})
    assert (project.repo.root / "a.txt").read_text() == "good"
