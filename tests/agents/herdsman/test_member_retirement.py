"""How an agent's own half retires a session whose context is full."""

from pathlib import Path

import trio
from trio.testing import MockClock

from agents.herdsman.config import HerdConfig
from agents.herdsman.identity import Label, SessionId
from agents.herdsman.record import RequestKind
from agents.herdsman.retirement import mark
from agents.herdsman.runtime import GUIDANCE, RESULT, RETIRED, CompactionReason, Message
from agents.herdsman.settlement import Undelivered
from tests.support.herd_members import Pen, open_pen
from tests.support.herd_talk import Call, Turn

THRESHOLD, OVERFLOW, MANUAL = CompactionReason
LONG = Turn("half", hangs=True)
ON = Turn("on", calls=(Call("bash"),), takes_s=20)


async def marks(pen: Pen) -> int:
    """Return how often the session is marked as retired."""
    return [entry.kind for entry in await pen.talk.entries()].count(RETIRED)


async def begin(pen: Pen, *turns: Turn) -> None:
    """Start the agent with a task."""
    pen.script.play(*turns)
    await pen.start()
    await pen.give()
    await pen.wait_state(lambda state: state.injection is None)


async def test_full_context_retires_the_session_once_and_the_agent_is_told_once(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, ON, ON, Turn("handed over"))
        assert not await pen.agent.attendant.may_compact(THRESHOLD)
        assert not await pen.agent.attendant.may_compact(THRESHOLD)
        await pen.wait_completed()
        assert await marks(pen) == 1
        (told,) = pen.talk.heard(GUIDANCE)
        assert "hand over" in told


async def test_two_requests_at_once_leave_one_mark(herd_clock: MockClock, tmp_path: Path) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, LONG)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(pen.agent.attendant.may_compact, THRESHOLD)
        assert await marks(pen) == 1


async def test_session_is_shortened_by_hand_as_always(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, LONG)
        assert await pen.agent.attendant.may_compact(MANUAL)
        assert await marks(pen) == 0


async def test_overflow_is_shortened_and_retires_the_session(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, LONG)
        assert await pen.agent.attendant.may_compact(OVERFLOW)
        assert await marks(pen) == 1


async def test_setting_that_is_off_leaves_sessions_alone(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.config = HerdConfig(context_retirement=False)
        await begin(pen, LONG)
        assert await pen.agent.attendant.may_compact(THRESHOLD)
        assert await marks(pen) == 0


async def test_mark_that_came_with_a_copied_history_retires_nothing(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, LONG)
        await pen.talk.append(RETIRED, mark(SessionId("another")))
        assert not await pen.agent.attendant.may_compact(THRESHOLD)
        assert await marks(pen) == 2


async def test_agent_without_an_assignment_is_shortened_as_usual(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await pen.start()
        assert await pen.agent.attendant.may_compact(THRESHOLD)
        await pen.wait_ready()
        assert await pen.agent.attendant.may_compact(THRESHOLD)
        assert await marks(pen) == 0


async def test_what_an_interrupt_drops_of_it_is_told_again(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, LONG, ON, ON, Turn("handed over"))
        assert not await pen.agent.attendant.may_compact(THRESHOLD)
        await pen.pass_time(1)
        assert pen.talk.heard(GUIDANCE) == []
        assert (await pen.tell(pen.request("i", RequestKind.INTERRUPT, "by hand"))).accepted
        await pen.wait_completed()
        assert len(pen.talk.heard(GUIDANCE)) == 1


async def test_agent_that_died_before_it_was_told_is_told_when_it_is_back(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, Turn("asking", calls=(Call("ask_owner", {"question": "a?"}),)))
        ask = await pen.wait_asking()
        await pen.talk.append(RETIRED, mark(pen.talk.session))
        await pen.runtime.kill(pen.agent)
        await pen.restart()
        pen.script.play(ON, ON, Turn("handed over"))
        await pen.tell(pen.request("r", RequestKind.REPLY, "a", ask=ask))
        await pen.wait_completed()
        assert await marks(pen) == 1
        assert len(pen.talk.heard(GUIDANCE)) == 1


async def test_session_that_cannot_be_marked_is_shortened_and_that_is_reported(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await begin(pen, LONG)
        pen.trouble = "the configuration cannot be read"
        assert await pen.agent.attendant.may_compact(THRESHOLD)
        assert len(await pen.faults()) == 1


async def test_agent_at_rest_is_told_when_it_is_at_work_again(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path, is_delegating=True) as pen:
        pen.undelivered = Undelivered(others=(Label("child"),))
        await begin(pen, Turn("waiting", takes_s=1))
        await pen.pass_time(5)
        assert not await pen.agent.attendant.may_compact(THRESHOLD)
        await pen.pass_time(60)
        assert pen.talk.heard(GUIDANCE) == []
        pen.undelivered = Undelivered()
        pen.script.play(ON, Turn("handed over"))
        await pen.talk.say(Message(RESULT, "found", {}), waits=True)
        await pen.wait_completed()
        assert len(pen.talk.heard(GUIDANCE)) == 1
        assert await pen.result() == "handed over"
