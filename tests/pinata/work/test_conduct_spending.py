"""What a run may spend, over all of its agents and attempts."""

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    RunStarted,
    TaskQueued,
    UsageReported,
)
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.recovery import recover
from engine.core.spec import Kind, TaskSpec
from engine.core.state import RunState
from engine.scheduler import Continuation
from pinata.work.conduct import _spent_before
from tests.support.clock import patient_clock
from tests.support.projects import Project, Turn, reports, says, scout, statuses, task_of

A, B, C = (TaskId(name) for name in "abc")


def costs(turn: Turn, dollars: float) -> Turn:
    """Return a turn with a price."""
    return turn | {"usage": {"costUsd": dollars}}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


async def run(project: Project, *tasks: dict[str, Any], **script: list[Turn]) -> dict[str, Any]:
    return await project.run(tasks, script, config={"limits": {"costUsd": 1.0}})


LOOK = says("read", path="a.txt")


@pytest.mark.slow
async def test_an_agent_that_spends_more_than_is_left_fails_and_ends_the_run(
    project: Project,
) -> None:
    answer = await run(
        project, scout("a"), scout("b", after=["a"]), a=[costs(LOOK, 0.4)] * 4, b=[reports()]
    )
    assert statuses(answer) == {"a": "failed", "b": "cancelled"}
    assert answer["status"] == "cancelled"
    assert task_of(answer, "a")["reason"].startswith("cost limit: ")
    assert answer["costUsd"] == pytest.approx(1.2)


@pytest.mark.slow
async def test_agents_that_only_together_spend_too_much_are_all_cancelled(
    project: Project, clock: MockClock
) -> None:
    # The price of neither is known before both have asked, so that none is set aside for either.
    answer = await run(
        project,
        scout("a"),
        scout("b"),
        scout("c", after=["a"]),
        a=[costs(LOOK, 0.6) | {"delayMs": 60_000}, {"hang": True}],
        b=[costs(LOOK, 0.5) | {"delayMs": 60_000}, {"hang": True}],
        c=[reports()],
    )
    assert statuses(answer) == {"a": "cancelled", "b": "cancelled", "c": "cancelled"}
    assert answer["status"] == "cancelled"
    assert {task["reason"] for task in answer["tasks"]} == {
        "cost limit of 1 USD passed: 1.1 USD spent"
    }


@pytest.mark.slow
async def test_spending_all_of_it_and_no_more_is_fine(project: Project) -> None:
    answer = await run(
        project,
        scout("a"),
        scout("b", after=["a"]),
        a=[costs(LOOK, 0.5), costs(reports(), 0.25)],
        b=[costs(reports(), 0.25)],
    )
    assert statuses(answer) == {"a": "succeeded", "b": "succeeded"}
    assert answer["costUsd"] == pytest.approx(1.0)


def test_earlier_attempts_and_lost_ones_have_spent_of_the_runs_dollars() -> None:
    graph = TaskGraph.build([TaskSpec(name, "scout", Kind.READER, "look") for name in (A, B, C)])
    first, second = AttemptId(A, 1), AttemptId(A, 2)
    lost = AttemptId(B, 1)
    history: list[Event] = [
        RunStarted(3),
        *(TaskQueued(name) for name in (A, B, C)),
        AttemptStarted(first),
        AttemptSettled(first, AttemptOutcome(Status.FAILED, "no", cost_usd=0.25)),
        TaskQueued(A),
        AttemptStarted(second),
        AttemptSettled(second, AttemptOutcome(Status.SUCCEEDED, cost_usd=0.5)),
        AttemptStarted(lost),
        UsageReported(lost, 1, 1, 10, 10, 2.0),
    ]
    found = recover(graph, history, reason="taken over")
    opening = found.events([None] * len(found.lost))
    assert _spent_before(Continuation(found.state, opening)) == 2.75
    assert _spent_before(Continuation(RunState(graph), ())) == 0.0
    assert _spent_before(None) == 0.0
