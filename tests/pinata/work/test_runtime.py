"""Runs of one process beside each other: what befalls one, and leaving, as the others see it."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agents.traffic import Traffic
from engine.core.errors import ConflictError, ExternalError, UsageError
from engine.core.events import (
    AttemptStarted,
    Event,
    RunSettled,
    RunStarted,
    TaskQueued,
    TurnStarted,
)
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import Status
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.work.observer import Observer, OpenedRun
from pinata.work.owned_run import OwnedRun
from pinata.work.runtime import Runtime, open_runtime
from tests.support.projects import Recorder

LEAVING = "everybody goes"
LOOK = TaskId("look")
FIRST = AttemptId(LOOK, 1)


def traffic() -> Traffic:
    return Traffic(Limiter(), lambda: 0.5)


@dataclass(slots=True)
class Play:
    """A run without a repository: it goes on until it is told how to end, or to be cancelled."""

    name: str = "0123456789abcdef"
    ending: Exception | None = None
    opens: bool = True
    survives: bool = False
    view: RunView = field(default_factory=RunView)
    go: trio.Event = field(default_factory=trio.Event)
    reasons: list[str] = field(default_factory=list)
    steered: list[tuple[TaskId, str, bool]] = field(default_factory=list)
    # What is recorded when the end of the run, or of its task, is asked for.
    recording: tuple[Event, ...] = ()
    observer: Observer | None = None
    seq: int = -1

    @property
    def id(self) -> RunId:
        return RunId(self.name)

    async def __call__(self, observer: Observer) -> dict[str, Any]:
        self.observer = observer
        if self.opens:
            observer.run_opened(
                OpenedRun(
                    id=self.id,
                    folder=Path("/nowhere"),
                    started_at_ms=0,
                    agents={LOOK: "scout"},
                    after={LOOK: ()},
                    view=self.view,
                    cancel=self.cancel,
                    record_cancel=self.record_cancel,
                    steer=self.steer,
                    survives=self.survives,
                )
            )
        await self.go.wait()
        if self.ending is not None:
            raise self.ending
        return {"run": self.name, "status": "succeeded"}

    def tell(self, *events: Event) -> None:
        assert self.observer is not None
        for event in events:
            self.seq += 1
            self.observer.happened(Logged(self.seq, 0, event))

    def cancel(self, reason: str) -> None:
        self.reasons.append(reason)
        self.go.set()

    async def record_cancel(self, reason: str, task: TaskId | None = None) -> None:
        await trio.lowlevel.checkpoint()
        self.reasons.append(reason)
        self.tell(*self.recording)
        if not self.recording:
            await trio.sleep_forever()

    def steer(self, task: TaskId, text: str, *, follow_up: bool = False, **_: object) -> None:
        self.steered.append((task, text, follow_up))


class Ends:
    def __init__(self) -> None:
        self.heard: list[OwnedRun] = []

    async def __call__(self, ended: OwnedRun) -> None:
        await trio.lowlevel.checkpoint()
        self.heard.append(ended)


async def test_crash_of_one_run_is_kept_and_ends_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    broken, whole = Play("a" * 16, ZeroDivisionError("bug")), Play("b" * 16)
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        lost = runtime.start(Recorder(), broken)
        kept = runtime.start(Recorder(), whole)
        await wait_all_tasks_blocked()
        broken.go.set()
        sentence = f"run {broken.name} broke off by a fault of pinata: ZeroDivisionError"
        with pytest.raises(ExternalError, match=sentence):
            await lost.wait_answer()
        assert runtime.failure(broken.id) == sentence
        assert runtime.find(broken.id) is None
        assert runtime.find(whole.id) is kept
        whole.go.set()
        assert await kept.wait_answer() == {"run": whole.name, "status": "succeeded"}
        assert runtime.failure(whole.id) is None
    assert whole.reasons == []


async def test_run_that_broke_off_and_then_ended_well_has_no_failure_any_more() -> None:
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        for ending in (ConflictError("no"), None):
            play = Play(ending=ending)
            play.go.set()
            owned = runtime.start(Recorder(), play)
            await wait_all_tasks_blocked()
            assert runtime.failure(play.id) == (None if ending is None else "no")
            assert (owned.failure is None) == (ending is None)


async def test_run_that_broke_off_unsettled_is_known_and_logged_until_it_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def begin(runtime: Runtime, ending: Exception | None) -> Play:
        play = Play(ending=ending)
        runtime.start_in_background(play)
        return play

    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        for says in ("the disk is full", "the disk is still full"):
            play = begin(runtime, ExternalError(says))
            await wait_all_tasks_blocked()
            assert runtime.broken_off == {}
            play.go.set()
            await wait_all_tasks_blocked()
            assert runtime.broken_off == {play.id: says}
            assert f"run {play.id} broke off: {says}" in caplog.text
        play = begin(runtime, ExternalError("its answer is lost"))
        await wait_all_tasks_blocked()
        play.tell(RunSettled(Status.SUCCEEDED))
        play.go.set()
        await wait_all_tasks_blocked()
        assert runtime.broken_off == {}
        assert runtime.failure(play.id) == "its answer is lost"


async def test_leaving_cancels_all_runs_with_the_reason_and_takes_no_new_one() -> None:
    plays = [Play("a" * 16), Play("b" * 16)]
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        for play in plays:
            runtime.start(Recorder(), play)
        await wait_all_tasks_blocked()
    assert [play.reasons for play in plays] == [[LEAVING], [LEAVING]]
    with pytest.raises(ConflictError, match=f"no new run: {LEAVING}"):
        runtime.start(Recorder(), Play())


async def test_error_in_the_block_comes_out_as_it_is_once_all_runs_have_ended() -> None:
    play = Play()

    async def fail() -> None:
        async with open_runtime(traffic(), leaving=LEAVING) as runtime:
            runtime.start(Recorder(), play)
            await wait_all_tasks_blocked()
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert play.reasons == [LEAVING]


async def test_cancel_from_outside_ends_runs_at_once() -> None:
    play = Play()
    with trio.CancelScope() as scope:
        async with open_runtime(traffic(), leaving=LEAVING) as runtime:
            owned = runtime.start(Recorder(), play)
            await wait_all_tasks_blocked()
            scope.cancel()
            await owned.wait_answer()
    assert scope.cancelled_caught


async def test_run_that_is_still_being_prepared_is_dropped() -> None:
    play = Play(opens=False)
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        owned = runtime.start_in_background(play)
        await wait_all_tasks_blocked()
        owned.request_cancel("no more")
        with pytest.raises(ConflictError, match="cancelled before anything began: no more"):
            await owned.wait_opened()
    assert owned.id is None
    assert play.reasons == []


async def test_whoever_stops_waiting_for_a_run_to_open_drops_it() -> None:
    play = Play(opens=False)
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        owned = runtime.start_in_background(play)
        with trio.move_on_after(0) as scope:
            await owned.wait_opened()
        assert scope.cancelled_caught
        with pytest.raises(ConflictError, match="the call for it was cancelled"):
            await owned.wait_answer()


async def test_ends_in_the_background_are_announced_and_no_other() -> None:
    ends = Ends()
    watched, behind, dropped = Play("a" * 16), Play("b" * 16), Play(opens=False)
    for play in (watched, behind, dropped):
        play.go.set()
    async with open_runtime(traffic(), leaving=LEAVING, announce=ends) as runtime:
        runtime.start(Recorder(), watched)
        owned = runtime.start_in_background(behind)
        runtime.start_in_background(dropped)
    assert ends.heard == [owned]


async def test_end_of_a_call_that_was_given_up_is_announced() -> None:
    ends, play = Ends(), Play()
    async with open_runtime(traffic(), leaving=LEAVING, announce=ends) as runtime:
        owned = runtime.start(Recorder(), play)
        await wait_all_tasks_blocked()
        with trio.move_on_after(0):
            await owned.wait_answer()
        assert not owned.is_awaited
    assert ends.heard == [owned]
    assert play.reasons[0] == "the call for it was cancelled"


async def test_call_that_finds_nothing_to_do_opens_no_run() -> None:
    play = Play(opens=False)
    play.go.set()
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        owned = runtime.start_in_background(play)
        assert await owned.wait_begun() is None
        assert runtime.runs == frozenset()
        opened = runtime.start_in_background(Play())
        assert await opened.wait_begun() is not None
        assert runtime.runs == {Play().id}


async def test_announcement_that_fails_ends_no_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    async def fail(ended: OwnedRun) -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    short, long = Play("a" * 16), Play("b" * 16)
    async with open_runtime(traffic(), leaving=LEAVING, announce=fail) as runtime:
        runtime.start_in_background(short)
        runtime.start_in_background(long)
        short.go.set()
        await wait_all_tasks_blocked()
        assert runtime.find(long.id) is not None


async def owned_run(runtime: Runtime, play: Play) -> OwnedRun:
    owned = runtime.start(Recorder(), play)
    await wait_all_tasks_blocked()
    play.tell(RunStarted(1), TaskQueued(LOOK), AttemptStarted(FIRST))
    return owned


async def test_watchers_hear_all_and_messages_are_passed_on() -> None:
    play, recorder = Play(), Recorder()
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        owned = runtime.start(recorder, play)
        await wait_all_tasks_blocked()
        play.tell(RunStarted(1))
        owned.noted(TurnStarted(FIRST, 1))
        owned.steer(LOOK, "faster", follow_up=True)
    assert (recorder.runs, recorder.events) == ([play.id], [RunStarted(1)])
    assert recorder.traces == [TurnStarted(FIRST, 1)]
    assert play.steered == [(LOOK, "faster", True)]


async def test_cancelling_says_whether_the_end_has_come() -> None:
    settled = RunSettled(Status.CANCELLED, "enough")
    for recording, has_come in (((settled,), True), ((TaskQueued(LOOK),), False)):
        play = Play(recording=recording)
        async with open_runtime(traffic(), leaving=LEAVING) as runtime:
            owned = await owned_run(runtime, play)
            assert await owned.cancel("enough") is has_come
            assert play.reasons == ["enough"]


async def test_cancelling_what_settles_meanwhile_is_refused() -> None:
    play = Play(recording=(RunSettled(Status.SUCCEEDED),))
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        owned = await owned_run(runtime, play)
        sentence = f"run {play.name} is succeeded already: there is nothing to cancel"
        for _ in range(2):
            with pytest.raises(ConflictError, match=sentence):
                await owned.cancel("enough")
        with pytest.raises(UsageError, match='"nosuch" is not a task of this run; it has look'):
            await owned.cancel("enough", TaskId("nosuch"))
    assert play.reasons == ["enough", LEAVING]


async def test_cancelling_a_run_that_breaks_off_returns() -> None:
    play = Play(ending=ConflictError("disk full"))
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        owned = await owned_run(runtime, play)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owned.cancel, "enough")
            await wait_all_tasks_blocked()
            play.go.set()


async def test_settled_run_that_is_opened_again_can_be_cancelled() -> None:
    view = RunView()
    view.apply(0, 0, RunStarted(1))
    view.apply(1, 0, RunSettled(Status.FAILED, "no"))
    play = Play(view=view, seq=1, recording=(TaskQueued(LOOK),))
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        owned = runtime.start(Recorder(), play)
        await wait_all_tasks_blocked()
        assert await owned.cancel("enough") is False
    assert play.view.settled_at_ms == 0


async def test_session_that_ends_takes_along_what_does_not_survive_it() -> None:
    mortal, surviving, unopened = Play("a" * 16), Play("b" * 16, survives=True), Play(opens=False)
    async with open_runtime(traffic(), leaving=LEAVING) as runtime:
        await runtime.wait_idle()
        for play in (mortal, surviving, unopened):
            runtime.start(Recorder(), play)
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.wait_mortal)
            await wait_all_tasks_blocked()
            runtime.cancel_mortal("the session has ended")
        await wait_all_tasks_blocked()
        assert (mortal.reasons, surviving.reasons) == (["the session has ended"], [])
        assert runtime.find(surviving.id) is not None
        assert not runtime.is_idle
        await runtime.wait_mortal()
        surviving.go.set()
        await runtime.wait_idle()
        assert runtime.is_idle
