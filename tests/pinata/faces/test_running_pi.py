"""A whole job whose agents are a real Pi each, with a model on the loopback interface."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.models.script import decode_script
from tests.support.model_server import from_script, open_model_server
from tests.support.pi_agents import PROVIDER, write_models
from tests.support.projects import (
    Project,
    approves,
    builder,
    reports,
    reviewer,
    says,
    scout,
    statuses,
    submits,
    task_of,
)
from tests.support.real_pi import with_pi

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
USAGE = {"input": 1_000, "output": 100}
SCRIPT = {
    "look": [says("read", path="a.txt") | {"usage": USAGE}, reports("a.txt says one")],
    "fix": [says("write", path="a.txt", content="two\n"), submits(changedFiles=["a.txt"])],
    "judge": [says("grep", pattern="tw[o]"), approves()],
}


async def test_scout_builder_and_reviewer_are_each_a_pi_of_their_own(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    choose = from_script(decode_script(json.dumps(SCRIPT).encode(), "script.json"))
    async with open_model_server(choose) as server:
        write_models(tmp_path / "agent", server)
        environment = with_pi(project.env, tmp_path / "agent")

        async def pinata(*arguments: str) -> subprocess.CompletedProcess[str]:
            return await trio.to_thread.run_sync(
                lambda: project.pinata(*arguments, env=environment)
            )

        done = await pinata("run", str(project.write_job(job())), "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads((await pinata("status", "--json")).stdout)
        integrated = await pinata("integrate", answer["run"], "--json")
        transcript = await pinata("transcript", answer["run"], "judge")
    assert statuses(answer) == {"look": "succeeded", "fix": "succeeded", "judge": "succeeded"}
    assert integrated.returncode == 0, integrated.stdout + integrated.stderr
    assert (project.repo.root / "a.txt").read_text() == "two\n"
    usage = task_of(answer, "look")["usage"]
    assert (usage["turns"], usage["toolCalls"], usage["tokens"]) == (2, 2, 1_100)
    assert usage["costUsd"] == pytest.approx(0.0012)
    assert "without fd on PATH, the Pi of tasks look and judge offers no find" in answer["notices"]
    assert "tool grep: a.txt:1: two" in transcript.stdout


def job() -> dict[str, Any]:
    """Return a job of three agents that are a Pi each, however that is said."""
    tasks = [
        scout("look"),
        builder("fix", "a.txt", after=["look"]),
        reviewer("judge", "fix"),
    ]
    model = {"provider": PROVIDER, "id": "m1", "thinking": "off"}
    config = {"models": {"default": model}, "backend": "process"}
    return {"tasks": tasks, "config": config, "approval": "the test says so"}
