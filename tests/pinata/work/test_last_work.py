from collections.abc import Sequence

import pytest

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    RunResumed,
    RunSettled,
    RunStarted,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from pinata.work.last_work import work_end_ms

FIX, OTHER, THIRD = TaskId("fix"), TaskId("other"), TaskId("third")
LATER = 1_000


def started(number: int = 1, task: TaskId = FIX) -> Event:
    return AttemptStarted(AttemptId(task, number))


def settled(number: int = 1, task: TaskId = FIX) -> Event:
    return AttemptSettled(AttemptId(task, number), AttemptOutcome(Status.SUCCEEDED))


def end(*timed: tuple[int, Event], tasks: Sequence[TaskId] = (FIX,), now_ms: int = LATER) -> object:
    return work_end_ms(timed, frozenset(tasks), now_ms)


RUN = ((1, RunStarted(2)), (2, started()), (3, started(1, OTHER)), (4, settled()))


def test_work_ends_with_the_last_attempt_there_whatever_goes_on_elsewhere() -> None:
    whole = (*RUN, (90, settled(1, OTHER)), (91, RunSettled(Status.SUCCEEDED)))
    assert end(*whole) == 4
    assert end(*whole, tasks=(OTHER,)) == 90
    assert end(*whole, tasks=(FIX, OTHER)) == 90


def test_another_attempt_there_ends_later() -> None:
    again = ((100, RunResumed("repair of fix")), (101, started(2)), (105, settled(2)))
    assert end(*RUN, *again) == 105
    assert end(*RUN, (100, RunResumed("repair")), (101, started(2, OTHER))) == 4


def test_attempt_that_was_lost_ended_when_its_process_was_last_heard_of() -> None:
    lost = (*RUN[:3], (500, RunResumed("its owner died")), (501, settled()))
    assert end(*lost) == 3


@pytest.mark.parametrize("timed", [(), RUN[:1], RUN[:2], ((1, settled(0)),)])
def test_work_that_never_began_or_never_ended_has_no_end(
    timed: Sequence[tuple[int, Event]],
) -> None:
    assert end(*timed) is None


def test_clock_that_was_set_back_since_then_is_not_trusted() -> None:
    assert end(*RUN, now_ms=4) == 4
    assert end(*RUN, now_ms=3) is None
    back = (*RUN, (2, started(1, THIRD)), (900, settled(1, THIRD)))
    assert end(*back) is None
    assert end(*back, tasks=(THIRD,)) == 900


def test_clock_that_was_set_back_while_an_attempt_was_lost_is_not_trusted() -> None:
    assert end((80, RunStarted(1)), (90, started()), (50, RunResumed("its owner died"))) is None
