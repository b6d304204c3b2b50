"""Who gets codemode and what comes of it, through the public tool."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.roster import load_roster
from engine.core.spec import RunConfig
from pinata.work.agent import has_codemode
from tests.support.projects import (
    Project,
    approves,
    builder,
    read,
    reports,
    reviewer,
    says,
    scout,
    statuses,
    submits,
    task_of,
)

SCOUT = load_roster().definitions["scout"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


async def transcript(project: Project, run: str, task: str) -> str:
    """Return what a task's agent said and was told, as it is on disk."""
    return read((await project.result(run, task))["transcript"])


@pytest.mark.parametrize(
    ("defined", "configured", "expected"),
    [
        (None, True, True),
        (None, False, False),
        (True, False, True),
        (False, True, False),
    ],
)
def test_the_definition_decides_before_the_configuration(
    *, defined: bool | None, configured: bool, expected: bool
) -> None:
    definition = replace(SCOUT, codemode=defined)
    config = replace(RunConfig(), codemode=configured)
    assert has_codemode(definition, config) is expected


async def test_an_agent_has_codemode_unless_somebody_says_no(project: Project) -> None:
    code = 'print(read(path="a.txt"), "and", read(path="b.txt"))'
    answer = await project.run([scout("look")], {"look": [says("codemode", code=code), reports()]})
    assert statuses(answer) == {"look": "succeeded"}
    said = await transcript(project, answer["run"], "look")
    assert "## Scripts" in said
    assert "one and b" in said


async def test_an_agent_without_codemode_is_not_told_of_it(project: Project) -> None:
    answer = await project.run(
        [scout("look")],
        {"look": [says("codemode", code="1"), reports()]},
        config={"codemode": False},
    )
    assert statuses(answer) == {"look": "succeeded"}
    said = await transcript(project, answer["run"], "look")
    assert "## Scripts" not in said
    assert "is not yours to call; yours are: read, grep, find and ls" in said


async def test_scripts_are_guarded_like_their_agents(project: Project) -> None:
    reader = "try:\n    bash(command='touch made')\nexcept RuntimeError as error:\n    print(error)"
    writer = "try:\n    write('b.txt', 'mine')\nexcept RuntimeError as error:\n    print(error)"
    answer = await project.run(
        [scout("look"), builder("fix", "a.txt")],
        {
            "look": [says("codemode", code=reader), reports()],
            "fix": [says("codemode", code=writer), submits()],
        },
    )
    assert statuses(answer) == {"look": "succeeded", "fix": "succeeded"}
    assert "is not yours to call" in await transcript(project, answer["run"], "look")
    assert "is not owned by this task" in await transcript(project, answer["run"], "fix")
    assert not (project.repo.root / "made").exists()
    assert task_of(answer, "fix").get("changedFiles", []) == []


async def test_calls_of_a_script_count_and_exhaust_the_budget(project: Project) -> None:
    code = "for _ in range(3):\n    read(path='a.txt')"
    answer = await project.run(
        [scout("look")],
        {"look": [says("codemode", code=code), reports()]},
        config={"limits": {"maxToolCalls": 2}},
    )
    look = task_of(answer, "look")
    assert look["status"] == "failed"
    assert "tool-call budget" in look["reason"]


async def test_instructions_of_the_run_reach_every_brief_before_the_tasks_own(
    project: Project,
) -> None:
    answer = await project.run(
        [
            scout("look"),
            builder("fix", "a.txt", after=["look"], instructions=["keep the tone"]),
            reviewer("check", "fix"),
        ],
        {
            "look": [reports()],
            "fix": [says("write", path="a.txt", content="two\n"), submits(changedFiles=["a.txt"])],
            "check": [approves()],
        },
        instructions=["write plain English"],
    )
    assert answer["status"] == "succeeded", answer
    for task in ("look", "fix", "check"):
        entries = (await transcript(project, answer["run"], task)).splitlines()
        (brief,) = [line for line in entries if "write plain English" in line]
        assert '"role":"user"' in brief
        if task == "fix":
            assert brief.index("write plain English") < brief.index("keep the tone")
