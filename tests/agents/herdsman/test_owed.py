"""What an agent owes its owner still, and from when on it does not."""

from dataclasses import replace

import pytest

from agents.herdsman.identity import RequestId
from agents.herdsman.owed import (
    others_of,
    owed_results,
    owes_work,
    task_to_deliver,
    untold_results,
)
from agents.herdsman.record import Contents, Result, State, UnclearPending
from agents.herdsman.result_text import Delivery, Others, result_message
from agents.herdsman.runtime import RESULT, Entry
from tests.support.herd_records import (
    NOW_MS,
    TASK,
    mailbox,
    request,
    result_error,
    session,
    waiting,
)

OLD, NEXT = request("old"), request("next")
FRESH = mailbox("scout")
ACTIVE = mailbox("scout", active=TASK)
PUBLISHED = replace(ACTIVE, results=frozenset({TASK}))
COMPLETED = mailbox("scout", completed=TASK, results=frozenset({TASK}))
CLEANED = mailbox("scout", completed=TASK)
FAILED = Contents(result_error(FRESH.state))
UNANSWERED = replace(ACTIVE, pending=waiting(ACTIVE.state))
UNCLEAR = replace(ACTIVE, pending=UnclearPending("two requests"))
CHILD = mailbox("child", owner=session("scout"), active=request("child"))


def told(state: State, task: RequestId = TASK) -> Entry:
    """Return what an owner's history holds of a result that was delivered."""
    delivery = Delivery(state, Result(state.of, task, "completed", NOW_MS, "done"))
    return Entry(RESULT, result_message(delivery).details)


@pytest.mark.parametrize(
    ("contents", "owed"),
    [
        (replace(ACTIVE, results=frozenset({TASK, OLD})), {TASK}),
        (COMPLETED, {TASK}),
        (CLEANED, set()),
        (replace(UNANSWERED, results=frozenset({request("steer")})), {request("steer")}),
        (replace(UNANSWERED, results=frozenset({OLD})), set()),
        (replace(UNCLEAR, results=frozenset({OLD})), {OLD}),
        (FRESH, set()),
    ],
    ids=[
        "active",
        "completed",
        "delivered",
        "of the waiting request",
        "of an earlier request",
        "of any request, where the waiting one is unclear",
        "nothing",
    ],
)
def test_result_is_owed_while_its_request_may_be_the_agents(
    contents: Contents, owed: set[RequestId]
) -> None:
    assert owed_results(contents) == owed


@pytest.mark.parametrize(
    ("child", "owes"),
    [
        (CHILD, True),
        (Contents(result_error(CHILD.state)), True),
        (mailbox("child", completed=TASK, results=frozenset({TASK})), True),
        (mailbox("child", completed=TASK), False),
        (mailbox("child"), False),
    ],
    ids=["active", "result lost", "result there", "result delivered", "nothing assigned"],
)
def test_child_owes_something_until_its_result_is_delivered(*, child: Contents, owes: bool) -> None:
    assert owes_work(child) is owes


def test_others_are_counted_by_who_they_are_and_not_by_their_request() -> None:
    this = mailbox("scout", completed=TASK, results=frozenset({TASK}))
    same_request = mailbox("two", active=TASK)
    written = mailbox("three", active=request("three"), results=frozenset({request("three")}))
    cleared = mailbox("four", completed=request("four"))
    idle = mailbox("five")
    own = [this, same_request, written, cleared, idle]
    assert others_of(own, this.state) == Others(active=1, pending=2)
    double = replace(this, state=replace(this.state, session=session("another")))
    assert others_of([this, double], this.state) == Others(active=0, pending=1)


@pytest.mark.parametrize(
    ("contents", "owes"),
    [(ACTIVE, True), (FAILED, True), (COMPLETED, False), (CLEANED, False), (FRESH, False)],
    ids=["active", "result lost", "result there", "result removed", "nothing assigned"],
)
def test_what_the_history_holds_is_not_owed_whether_or_not_it_is_removed(
    *, contents: Contents, owes: bool
) -> None:
    assert owes_work(contents, [told(contents.state)]) is owes


def test_what_the_history_does_not_hold_is_owed_though_its_result_is_gone() -> None:
    for entries in ([], [told(CLEANED.state, OLD)]):
        assert owes_work(CLEANED, entries)
    assert not owes_work(FRESH, [])


def test_results_are_untold_until_the_history_holds_them() -> None:
    assert untold_results(COMPLETED, []) == {TASK}
    assert untold_results(COMPLETED, [told(COMPLETED.state)]) == set()
    assert untold_results(replace(FRESH, results=frozenset({OLD})), []) == set()


@pytest.mark.parametrize(
    ("contents", "task"),
    [
        (COMPLETED, TASK),
        (CLEANED, TASK),
        (PUBLISHED, TASK),
        (replace(mailbox("scout", active=NEXT, completed=TASK), results=frozenset({NEXT})), NEXT),
        (ACTIVE, None),
        (replace(ACTIVE, results=frozenset({OLD})), None),
        (FAILED, None),
        (FRESH, None),
    ],
    ids=[
        "completed",
        "completed and removed",
        "written and not noted",
        "of the next task, the first delivered",
        "active",
        "of an earlier task",
        "result lost",
        "nothing assigned",
    ],
)
def test_task_is_delivered_from_its_result_on_until_its_agent_is_gone(
    contents: Contents, task: RequestId | None
) -> None:
    assert task_to_deliver(contents) == task
