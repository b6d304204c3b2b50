import json

import pytest

from engine.core.errors import CorruptionError
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    CheckEnded,
    CheckStarted,
    Event,
    RunSettled,
    RunStarted,
    Sender,
    SteerDelivered,
    TaskQueued,
    ToolStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, CheckId, TaskId
from engine.core.outcome import AttemptOutcome, FailureStage, Status, Stop, StopCause
from engine.core.view import RunView
from engine.records.view import decode_view, encode_view

A, B = TaskId("a"), TaskId("b")
A1, B1 = AttemptId(A, 1), AttemptId(B, 1)
STORY: tuple[Event, ...] = (
    RunStarted(2),
    TaskQueued(A),
    TaskQueued(B),
    AttemptStarted(A1),
    ToolStarted(A1, "c1", "bash", "make \ud800 all"),
    UsageReported(A1, 2, 3, 100, 50, 0.5),
    SteerDelivered(A1, "Look twice.", follow_up=True, sender=Sender.USER),
    CheckStarted(A1, CheckId("lint")),
    CheckEnded(A1, CheckId("lint"), passed=False, duration_ms=7, reason="exit 1"),
    AttemptStopping(A1, Stop(StopCause.CANCEL, "enough")),
    AttemptSettled(A1, AttemptOutcome(Status.FAILED, "no", FailureStage.SETUP, "d", 0.75)),
    AttemptStarted(B1),
    AttemptStopping(B1, Stop(StopCause.COST, "spent")),
    RunSettled(Status.FAILED, "one failed"),
)


def view_of(*events: Event) -> RunView:
    view = RunView()
    for seq, event in enumerate(events):
        view.apply(seq, seq * 100, event)
    return view


@pytest.mark.parametrize("length", range(len(STORY) + 1))
def test_a_view_survives_its_journey_at_every_moment(length: int) -> None:
    view = view_of(*STORY[:length])
    assert decode_view(json.loads(json.dumps(encode_view(view)))) == view


def test_the_view_after_a_journey_goes_on_like_the_one_before() -> None:
    view = decode_view(encode_view(view_of(*STORY[:4])))
    for seq, event in enumerate(STORY):
        view.apply(seq, seq * 100, event)
    assert view == view_of(*STORY)


def test_what_is_as_it_was_at_first_takes_no_room() -> None:
    assert encode_view(RunView()) == {}
    assert encode_view(view_of(*STORY[:2])) == {
        "seq": 1,
        "status": "running",
        "started_at_ms": 0,
        "tasks": {"a": {"task": "a"}},
    }


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="none"),
        pytest.param({"seq": "many"}, id="no-number"),
        pytest.param({"status": "glad"}, id="unknown-status"),
        pytest.param({"tasks": {"a": {"task": "a", "mood": 1}}}, id="of-another-version"),
        pytest.param({"tasks": {"a": {}}}, id="without-what-is-always-there"),
    ],
)
def test_what_is_no_view_is_refused(data: object) -> None:
    with pytest.raises(CorruptionError, match="the view of a run is damaged"):
        decode_view(data)
