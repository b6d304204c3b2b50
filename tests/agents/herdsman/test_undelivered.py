"""What an agent that delegates has not been brought yet, told from mailboxes and its history."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from trio.testing import MockClock

from agents.herdsman.identity import Label
from agents.herdsman.record import Ask, Result
from agents.herdsman.result_text import Delivery, result_message
from agents.herdsman.runtime import RESULT, Entry
from agents.herdsman.settlement import Undelivered
from agents.herdsman.undelivered import find_undelivered
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import NOW_MS, ask_id, result_error, session

PARENT = session("parent")


@pytest.fixture
def stage(tmp_path: Path, herd_clock: MockClock) -> Stage:
    return Stage.at(tmp_path)


async def found(stage: Stage, *entries: Entry) -> Undelivered:
    return await find_undelivered(stage.premises, PARENT, entries)


def missing(*others: str, asking: Sequence[str] = ()) -> Undelivered:
    return Undelivered(tuple(map(Label, asking)), tuple(map(Label, others)))


async def test_nothing_is_missing_without_agents_of_its_own(
    herd_clock: MockClock, stage: Stage
) -> None:
    await stage.add("stranger")
    await stage.add("new", owner=PARENT, active=None)
    assert not await found(stage)


async def test_work_result_and_lost_result_are_missing(herd_clock: MockClock, stage: Stage) -> None:
    await stage.add("works", owner=PARENT)
    await stage.add("done", owner=PARENT, active=None, completed=TASK)
    failed = await stage.add("failed", owner=PARENT)
    await stage.change("failed", active=None, result_error=result_error(failed).result_error)
    assert await found(stage) == missing("done", "failed", "works")


async def test_a_result_that_its_history_holds_is_not_missing(
    herd_clock: MockClock, stage: Stage
) -> None:
    state = await stage.add("done", owner=PARENT, active=None, completed=TASK)
    delivery = Delivery(state, Result(state.of, TASK, "completed", NOW_MS, "done"))
    entry = Entry(RESULT, result_message(delivery).details, on_branch=False)
    assert not await found(stage, entry)
    other = replace(entry, details={**entry.details, "generation": "another"})
    assert await found(stage, other) == missing("done")


async def test_those_that_wait_with_a_question_are_told_apart(
    herd_clock: MockClock, stage: Stage
) -> None:
    for label in ("asks", "asked"):
        state = await stage.add(label, owner=PARENT, pending_ask=ask_id(label))
        if label == "asks":
            ask = Ask(state.of, ask_id(label), TASK, state.session, "Which?", NOW_MS)
            await stage.mailbox(label).write_ask(ask)
    # The question of the other one is not there, so nobody can answer it.
    assert await found(stage) == missing("asked", asking=["asks"])
