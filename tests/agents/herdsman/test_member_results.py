"""How an agent's own half ends an assignment."""

from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.identity import GenerationId, Label
from agents.herdsman.record import (
    ContextUsage,
    Failure,
    FailureCode,
    RejectionCode,
    RequestKind,
    Result,
)
from agents.herdsman.runtime import RESULT, Ended, Lifecycle, Message
from agents.herdsman.settlement import Undelivered
from tests.support.deaths import failing_at
from tests.support.herd_members import Pen, open_pen
from tests.support.herd_records import uid
from tests.support.herd_talk import Call, Turn

CHILD = Undelivered(others=(Label("child"),))


async def ended(pen: Pen) -> Result:
    """Wait until the result is written, and return it."""
    state = await pen.wait_completed()
    assert state.completed is not None
    result = await pen.mailbox.read_result(state.completed)
    assert result is not None
    return result


async def test_visible_text_of_the_last_answer_is_the_result(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    usage = ContextUsage(1000, 200_000, 0.5)
    async with open_pen(tmp_path) as pen:
        pen.script.play(
            Turn("first I look", calls=(Call("bash"),)), Turn("All is well.", usage=usage)
        )
        await pen.start()
        task = await pen.give()
        result = await ended(pen)
        assert (result.of, result.request) == (pen.agent.identity.of, task.request)
        assert (result.status, result.text, result.usage) == ("completed", "All is well.", usage)
        state = await pen.state()
        assert (state.active, state.completed) == (None, task.request)
        assert state.last_activity_ms is None


async def test_assignment_that_settles_twice_has_one_result(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well."))
        await pen.start()
        await pen.give()
        await ended(pen)
        before = pen.files()
        pen.agent.attendant.answered("And more.", was_aborted=False)
        await pen.agent.attendant.came_to_rest(Ended())
        await pen.pass_time(60)
        assert pen.files() == before


async def test_result_waits_for_the_lock_of_the_mailbox_and_that_is_no_attempt(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=5))
        await pen.start()
        await pen.give()
        await pen.wait_state(lambda state: state.injection is None)
        with failing_at("herd.result.started", times=7):
            async with pen.mailbox.hold():
                await pen.pass_time(30)
                assert pen.results() == []
            assert (await ended(pen)).text == "All is well."


async def test_result_that_cannot_be_written_eight_times_is_reported_as_lost(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well."))
        await pen.start()
        with failing_at("herd.result.started", times=1_000):
            task = await pen.give()
            state = await pen.wait_state(lambda state: state.result_error is not None)
        assert (state.active, state.completed) == (None, None)
        error = state.result_error
        assert error is not None
        assert (error.attempts, error.request, error.status) == (8, task.request, "completed")
        await pen.pass_time(60)
        assert pen.results() == []
        assert len(await pen.faults()) == 1
        said = await pen.tell(pen.request("second", RequestKind.TASK, "again"))
        assert said.code is RejectionCode.BUSY
        assert error.next_action in (said.message or "")


async def test_result_whose_loss_cannot_be_written_either_is_lost_once_that_can_be(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=5))
        await pen.start()
        await pen.give()
        before = await pen.wait_state(lambda state: state.injection is None)
        (pen.mailbox.folder / f"result-{before.active}.json").mkdir()
        await pen.pass_time(3)
        with failing_at("herd.state.started", times=1_000):
            await pen.pass_time(30)
        state = await pen.state()
        assert (state.active, state.result_error) == (before.active, None)
        assert any("lost" in fault for fault in await pen.faults())
        after = await pen.wait_state(lambda state: state.result_error is not None)
        assert after.active is None


async def test_result_outlives_a_disk_that_is_full_for_long(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=5))
        await pen.start()
        await pen.give()
        await pen.wait_state(lambda state: state.injection is None)
        in_the_way = pen.mailbox.folder / f"result-{(await pen.state()).active}.json"
        in_the_way.mkdir()
        with failing_at("herd.state.started", times=1_000):
            await pen.pass_time(60)
            in_the_way.rmdir()
        result = await ended(pen)
        assert (result.status, result.text) == ("completed", "All is well.")


async def test_state_that_cannot_follow_its_result_is_written_when_it_can(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=4))
        await pen.start()
        await pen.give()
        await pen.wait_state(lambda state: state.injection is None)
        await pen.pass_time(2)
        with failing_at("herd.state.started", times=20):
            await pen.pass_time(3)
            assert len(pen.results()) == 1
            first = pen.files()[pen.results()[0]]
            assert (await pen.state()).completed is None
            refused = pen.request("s", RequestKind.STEER, "more")
            await pen.leave(refused)
            await pen.wait_completed()
        assert pen.files()[pen.results()[0]] == first
        assert (await pen.said()).code in (RejectionCode.BUSY, RejectionCode.IDLE)


async def test_answer_that_is_tried_again_is_no_end(herd_clock: MockClock, tmp_path: Path) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("oops", fault="529", is_retried=True), Turn("well", takes_s=10))
        await pen.start()
        await pen.give()
        await pen.pass_time(5)
        assert pen.results() == []
        assert (await ended(pen)).text == "well"


async def test_agent_with_agents_at_work_gives_the_text_that_follows_theirs(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path, is_delegating=True) as pen:
        pen.undelivered = CHILD
        pen.script.play(Turn("done"))
        await pen.start()
        await pen.give()
        await pen.pass_time(30)
        assert pen.results() == []
        pen.undelivered = Undelivered()
        pen.script.play(Turn("with what it found"))
        await pen.talk.say(Message(RESULT, "found", {}), waits=True)
        assert (await ended(pen)).text == "with what it found"


async def test_mailbox_that_was_removed_meanwhile_gets_no_result(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=10))
        await pen.start()
        await pen.give()
        await pen.remove()
        await pen.pass_time(60)
        assert not pen.mailbox.folder.exists()
        # It has nobody to work for any more.
        assert pen.agent.is_gone.is_set()


async def test_end_without_a_text_names_what_the_provider_said(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("let me see", calls=(Call("bash"),)), Turn(fault="529 overloaded"))
        await pen.start()
        await pen.give()
        result = await ended(pen)
        assert (result.status, result.text) == ("failed", None)
        assert result.error is not None
        assert result.error.code is FailureCode.EMPTY_RESULT
        assert "529 overloaded" in result.error.message


async def test_end_without_a_text_is_a_failed_result(herd_clock: MockClock, tmp_path: Path) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn(" \n"))
        await pen.start()
        await pen.give()
        assert (await ended(pen)).error == Failure(
            FailureCode.EMPTY_RESULT, "the agent ended without saying anything"
        )


async def test_text_that_no_record_can_hold_is_a_failed_result(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("x" * (5 << 20)))
        await pen.start()
        await pen.give()
        result = await ended(pen)
        assert result.error is not None
        assert result.error.code is FailureCode.RESULT_TOO_LARGE
        assert "4,194,304" in result.error.message


async def test_end_that_somebody_forced_does_not_make_earlier_text_the_result(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("I will", calls=(Call("bash"),)), Turn("half", hangs=True))
        await pen.start()
        await pen.give()
        await pen.wait_heard(1)
        await pen.pass_time(5)
        await pen.talk.interrupt()
        assert (await ended(pen)).status == "failed"


@pytest.mark.parametrize("takes_s", [0, 3])
async def test_news_of_a_rest_that_comes_late_does_not_end_what_came_after(
    herd_clock: MockClock, tmp_path: Path, takes_s: float
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("half", hangs=True), Turn("whole", takes_s=takes_s))
        await pen.start()
        await pen.give()
        interrupt = pen.request("i", RequestKind.INTERRUPT, "by hand")
        assert (await pen.tell(interrupt)).accepted
        await pen.agent.attendant.came_to_rest(Ended(was_aborted=True))
        assert (await ended(pen)).text == "whole"


async def test_news_of_what_was_aborted_ends_nothing_though_the_agent_seems_to_rest(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("half", hangs=True), Turn("whole", takes_s=30))
        await pen.start()
        await pen.give()
        assert (await pen.tell(pen.request("i", RequestKind.INTERRUPT, "by hand"))).accepted
        await pen.wait_heard(2)
        await pen.wait_state(lambda state: state.injection is None)
        pen.talk.lifecycle = Lifecycle.IDLE
        pen.agent.attendant.answered("half", was_aborted=True)
        await pen.agent.attendant.came_to_rest(Ended(was_aborted=True))
        await pen.pass_time(5)
        assert pen.results() == []
        assert (await ended(pen)).text == "whole"


async def test_result_that_stands_in_the_way_is_kept_and_the_assignment_has_none(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=5))
        await pen.start()
        await pen.give()
        state = await pen.wait_state(lambda state: state.injection is None)
        assert state.active is not None
        other = replace(state.of, generation=GenerationId(uid("another")))
        async with pen.mailbox.hold():
            await pen.mailbox.write_result(
                Result(other, state.active, "completed", 1, text="Not so well.")
            )
        before = pen.files()[f"result-{state.active}.json"]
        after = await pen.wait_state(lambda state: state.result_error is not None)
        assert (after.active, after.completed) == (None, None)
        assert pen.files()[f"result-{state.active}.json"] == before


async def test_what_wakes_an_agent_in_between_makes_no_attempt_come_earlier(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=5))
        await pen.start()
        await pen.give()
        with failing_at("herd.result.started", times=7):
            await pen.pass_time(5)
            for _ in range(20):
                pen.premises.signals.ring(str(pen.mailbox.folder))
                await pen.pass_time(0.01)
            state = await pen.state()
            assert (state.result_error, state.completed) == (None, None)
            assert (await ended(pen)).text == "All is well."


async def test_trouble_of_whoever_tells_of_the_agents_own_agents_delays_the_end(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path, is_delegating=True) as pen:
        pen.script.play(Turn("done", takes_s=5))
        await pen.start()
        await pen.give()
        pen.trouble = "no inventory"
        await pen.pass_time(30)
        assert pen.results() == []
        (fault,) = await pen.faults()
        assert "no inventory" in fault
        pen.trouble = None
        with trio.fail_after(5):
            assert (await ended(pen)).text == "done"
