"""What is still to come of a session's agents by itself, and what the session does not hold yet."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from agents.herdsman.findings import Scan
from agents.herdsman.look import Look
from agents.herdsman.record import Contents, Result, State
from agents.herdsman.result_text import Delivery, result_message
from agents.herdsman.runtime import QUESTION, RESULT, Entry, Inventory
from pinata.work.herd_quiet import is_at_work, untold
from tests.support.herd_records import (
    LEAD,
    NOW_MS,
    TASK,
    asking,
    caller_of,
    inventory_of,
    mailbox,
    result_error,
    session,
)

CALLER = caller_of(LEAD)
FRESH = mailbox("scout")
ACTIVE = mailbox("scout", active=TASK)
ASKING = asking(ACTIVE)
PUBLISHED = replace(ACTIVE, results=frozenset({TASK}))
COMPLETED = mailbox("scout", completed=TASK, results=frozenset({TASK}))
FAILED = Contents(result_error(FRESH.state))


def seen(contents: Iterable[Contents], inventory: Inventory | None = None) -> Look:
    found = tuple(contents)
    return Look(Scan(found, ()), inventory_of(found) if inventory is None else inventory, NOW_MS)


def told_result(state: State) -> Entry:
    delivery = Delivery(state, Result(state.of, TASK, "completed", NOW_MS, "done"))
    return Entry(RESULT, result_message(delivery).details)


def told_question(state: State, *, on_branch: bool = True) -> Entry:
    key = f"{state.of.generation}/{state.pending_ask}"
    return Entry(QUESTION, {"delivery": key}, on_branch)


@pytest.mark.parametrize(
    ("contents", "works"),
    [
        (ACTIVE, True),
        (replace(FRESH, is_starting=True), True),
        (FRESH, False),
        (ASKING, False),
        (replace(ASKING, is_starting=True), True),
        (PUBLISHED, False),
        (COMPLETED, False),
        (FAILED, False),
    ],
    ids=[
        "at its task",
        "being started",
        "without a task",
        "asking",
        "asking a host that starts another in its place",
        "with a result written",
        "completed",
        "with a result that was lost",
    ],
)
def test_agent_brings_something_by_itself_while_it_works_or_comes_up(
    contents: Contents, *, works: bool
) -> None:
    assert is_at_work(seen([contents]), CALLER) == works


def test_agent_that_nothing_runs_or_that_nobody_can_tell_of_brings_nothing_by_itself() -> None:
    assert not is_at_work(seen([ACTIVE], Inventory((), ())), CALLER)
    # Its place is there, and nobody knows who is in it.
    place = inventory_of([ACTIVE]).slots[0]
    assert not is_at_work(seen([ACTIVE], Inventory((), (replace(place, session=None),))), CALLER)


def test_one_agent_at_work_is_enough() -> None:
    other = mailbox("other", completed=TASK, results=frozenset({TASK}))
    assert is_at_work(seen([other, ACTIVE]), CALLER)


def test_agents_of_others_are_not_waited_for_and_their_results_are_not_missed() -> None:
    stranger = mailbox("stranger", owner=session("elsewhere"), active=TASK)
    child = mailbox("child", owner=session("scout"), active=TASK)
    done = replace(child, results=frozenset({TASK}))
    assert not is_at_work(seen([stranger, child, COMPLETED]), CALLER)
    assert untold(seen([stranger, done, FRESH]), CALLER, []) == 0


def test_result_is_missed_until_the_session_holds_its_message() -> None:
    look = seen([PUBLISHED, mailbox("other", completed=TASK, results=frozenset({TASK}))])
    assert untold(look, CALLER, []) == 2
    assert untold(look, CALLER, [told_result(PUBLISHED.state)]) == 1


def test_question_is_missed_until_the_present_branch_of_the_session_holds_it() -> None:
    look, state = seen([ASKING]), ASKING.state
    assert untold(look, CALLER, []) == 1
    assert untold(look, CALLER, [told_question(state, on_branch=False)]) == 1
    assert untold(look, CALLER, [told_question(state)]) == 0


@pytest.mark.parametrize(
    "contents",
    [ACTIVE, FRESH, FAILED, replace(ASKING, ask=None)],
    ids=["at work", "without a task", "result lost", "asking what nobody can read"],
)
def test_session_misses_nothing_of_an_agent_that_has_nothing_to_tell(contents: Contents) -> None:
    assert untold(seen([contents]), CALLER, []) == 0
