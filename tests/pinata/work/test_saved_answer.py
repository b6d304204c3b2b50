"""The whole saved result of a task holds all that is known of it, under the names of answers."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.events import Sender
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.store import RunFolder
from pinata.work.result import SteerRecord
from pinata.work.saved_answer import saved_answer
from pinata.work.shown import RunCache
from pinata.work.summary import BRIEF_BYTES, TaskFacts
from tests.support.projects import (
    FAIL,
    PASS,
    Project,
    approves,
    builder,
    read,
    reports,
    reviewer,
    scout,
    shell,
    submits,
)

pytestmark = pytest.mark.slow

CHECKS = [
    {"id": "one", "argv": PASS},
    {"id": "two", "argv": FAIL},
    {"id": "three", "argv": PASS},
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def test_failed_builder_keeps_its_change_its_proofs_and_how_it_was_set_up(
    project: Project,
) -> None:
    answer = await project.run(
        [builder("fix", "a.txt", checks=CHECKS), reviewer("judge", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "judge": [approves()],
        },
        config={"setup": "echo ready"},
    )
    run = answer["run"]
    found = await project.result(run, "fix")
    summary = next(task for task in answer["tasks"] if task["id"] == "fix")
    assert {key: found[key] for key in summary if key != "artifact"} == {
        key: value for key, value in summary.items() if key != "artifact"
    }
    assert summary["artifact"].items() <= found["artifact"].items()
    (change,) = found["artifact"]["changes"]
    assert (change["path"], change["status"]) == ("a.txt", "M")
    patch = read(found["artifact"]["patch"]["path"]).encode()
    assert found["artifact"]["patch"]["bytes"] == len(patch)
    assert found["artifact"]["patch"]["sha256"] == hashlib.sha256(patch).hexdigest()
    assert (found["attempt"], found["failureStage"]) == (1, "verification")
    assert found["result"]["changedFiles"] == ["a.txt"]
    assert [(each["id"], each["list"], each["passed"]) for each in found["checks"]] == [
        ("one", "checks", True),
        ("two", "checks", False),
    ]
    assert found["notRun"] == ["three"]
    assert (found["turns"], found["toolCalls"]) == (2, 2)
    assert found["model"].startswith("scripted/")
    assert found["startedAt"] <= found["endedAt"]
    assert (found["setup"]["source"], found["setup"]["command"]) == ("config", "echo ready")
    assert read(f"{found['setup']['logs']}/stdout") == "ready\n"
    saved = read(f"{answer['dir']}/results/fix.json").encode()
    assert found["digest"] == hashlib.sha256(saved).hexdigest()
    unstarted = await project.result(run, "judge")
    assert (unstarted["status"], unstarted["attempt"], unstarted["result"]) == ("blocked", 0, None)
    assert "setup" not in unstarted


async def test_brief_is_whole_and_nothing_is_shortened(project: Project) -> None:
    brief = "b" * (BRIEF_BYTES + 1)
    answer = await project.run([scout("look")], {"look": [reports(brief)]})
    assert answer["tasks"][0]["truncated"] is True
    found = await project.result(answer["run"], "look")
    assert (found["brief"], "truncated" in found, found["checkoutChanged"]) == (brief, False, False)


async def test_messages_are_told_with_their_sender_and_their_way(project: Project) -> None:
    answer = await project.run([scout("look")], {"look": [reports()]})
    shown = RunCache().read(RunFolder(Path(answer["dir"])))
    task = TaskId("look")
    before = shown.results[task]
    steers = (
        SteerRecord("why", Sender.USER),
        SteerRecord("and then", Sender.PARENT, follow_up=True),
    )
    told = replace(shown, results={task: replace(before, steers=steers)})
    assert saved_answer(told, shown.spec.task(task))["steers"] == [
        {"as": "steer", "sender": "user", "message": "why"},
        {"as": "followUp", "sender": "parent", "message": "and then"},
    ]


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (Status.RUNNING, None, "there is no saved result before the task settles"),
        (Status.UNCERTAIN, "x is lost", "there is no saved result of this task: x is lost"),
        (Status.CANCELLED, None, "there is no saved result of this task"),
    ],
    ids=["running", "lost", "cancelled"],
)
async def test_where_there_is_no_result_the_answer_says_so(
    project: Project, status: Status, reason: str | None, message: str
) -> None:
    answer = await project.run([scout("look")], {"look": [reports()]})
    shown = RunCache().read(RunFolder(Path(answer["dir"])))
    task = TaskId("look")
    without = replace(shown, facts={task: TaskFacts(status, reason)}, results={})
    assert saved_answer(without, shown.spec.task(task)) == {
        "run": answer["run"],
        "id": "look",
        "status": status.value,
        "message": message,
    }
