"""What an owner's calls come to with agents that have their own half of the herd."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.closing import close
from agents.herdsman.controls import interrupt, reply, steer
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import RequestId
from agents.herdsman.reads import inspect, list_agents, transcript
from agents.herdsman.record import Result
from agents.herdsman.runtime import REQUEST
from tests.support.deaths import failing_at
from tests.support.herd_desks import Desk, open_desk
from tests.support.herd_records import LEAD
from tests.support.herd_talk import Call, Turn

ASKS = Turn("a question", calls=(Call("ask_owner", {"question": "a or b?"}),))
WORKS = Turn("working", calls=(Call("bash"),), takes_s=30)


@pytest.fixture
async def desk(tmp_path: Path, herd_clock: MockClock) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        yield desk


async def put_to_work(desk: Desk, *turns: Turn) -> RequestId:
    """Delegate to an agent whose model answers so; return its assignment."""
    desk.runtime.script("scout").play(*turns)
    controller = desk.controller()
    told = await delegate(controller, definition="scout", task="Look.", label=None, files=())
    await desk.settle()
    return RequestId(told["request_id"])


async def listed(desk: Desk) -> dict[str, Any]:
    [record] = (await list_agents(desk.controller()))["agents"]
    return dict(record)


def heard(desk: Desk) -> list[str]:
    return desk.runtime.agent("scout").conversation.heard(REQUEST)


async def result(desk: Desk, task: RequestId) -> Result:
    """Wait until an assignment has its result."""
    mailbox, signals = desk.mailbox("scout"), desk.premises.signals
    listener = signals.listen(LEAD)
    with trio.fail_after(300):
        while (found := await mailbox.read_result(task)) is None:
            await listener.wait()
    signals.leave(LEAD, listener)
    return found


async def test_a_steer_is_read_after_the_present_answer_and_makes_no_second_result(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    task = await put_to_work(desk, WORKS, Turn("done"))
    told = await steer(desk.controller(), agent="scout", message="Look left.", files=())
    assert told["assignment_request_id"] == task
    assert heard(desk) == ["Look."]
    assert (await result(desk, task)).text == "done"
    assert heard(desk) == ["Look.", "Look left."]
    assert len(list(desk.mailbox("scout").folder.glob("result-*"))) == 1


async def test_an_interrupt_drops_the_steer_before_it_and_keeps_the_assignment(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    task = await put_to_work(desk, Turn("half", hangs=True), Turn("done"))
    controller = desk.controller()
    await steer(controller, agent="scout", message="Look left.", files=())
    told = await interrupt(controller, agent="scout", message="Look right.", files=())
    assert told["assignment_request_id"] == task
    assert (await result(desk, task)).text == "done"
    first, second = heard(desk)
    assert first == "Look."
    assert second.endswith("Look right.")


async def test_an_answer_goes_to_the_question_and_only_once(
    herd_clock: MockClock, desk: Desk
) -> None:
    task = await put_to_work(desk, ASKS, WORKS, Turn("b it is"))
    assert "agent_reply" in (await listed(desk))["available_tools"]
    controller = desk.controller()
    await reply(controller, agent="scout", message="Take b.", files=())
    with pytest.raises(HerdError) as caught:
        await reply(controller, agent="scout", message="Take a.", files=())
    assert caught.value.trouble.category is Category.AGENT_BUSY
    assert (await result(desk, task)).text == "b it is"
    assert "Take b." in heard(desk)[1]
    assert len(heard(desk)) == 2


async def test_one_call_after_the_other_is_taken(herd_clock: MockClock, desk: Desk) -> None:
    task = await put_to_work(desk, WORKS, Turn("done"))
    for number in range(5):
        await steer(desk.controller(), agent="scout", message=f"Look {number}.", files=())
    await result(desk, task)
    assert heard(desk) == ["Look.", *(f"Look {number}." for number in range(5))]


async def test_an_answer_that_cannot_be_written_at_first_comes_all_the_same(
    herd_clock: MockClock, desk: Desk
) -> None:
    task = await put_to_work(desk, WORKS, Turn("done"))
    with failing_at("herd.state.started", times=3):
        told = await steer(desk.controller(), agent="scout", message="Look left.", files=())
    assert told["assignment_request_id"] == task
    await result(desk, task)
    assert heard(desk) == ["Look.", "Look left."]


async def test_an_agent_that_works_is_shown_and_read(herd_clock: MockClock, desk: Desk) -> None:
    await put_to_work(desk, Turn("on it", calls=(Call("bash", {"command": "ls"}),)), WORKS)
    shown = await inspect(desk.controller(), agent="scout")
    assert shown["recent_output"].splitlines() == ["on it", "bash"]
    told = await transcript(desk.controller(), agent="scout")
    assert told["transcript"] == (
        'User:\nLook.\n\nAssistant:\non it\n\nCall of bash:\n{"command": "ls"}\n\n'
        "Result of bash:\nok"
    )


@pytest.mark.parametrize("turn", [WORKS, ASKS, Turn("half", hangs=True)])
async def test_an_agent_is_closed_whatever_it_does(
    herd_clock: MockClock, desk: Desk, turn: Turn
) -> None:
    await put_to_work(desk, turn)
    session_file = desk.runtime.agent("scout").conversation.session_file
    assert "agent_close" in (await listed(desk))["available_tools"]
    await close(desk.controller(), agent="scout")
    assert desk.runtime.agent("scout").is_gone.is_set()
    assert (await list_agents(desk.controller()))["agents"] == []
    assert await trio.Path(session_file).exists()
    assert not await desk.mailbox("scout").is_occupied()


async def test_an_agent_that_died_can_be_read_and_closed(herd_clock: MockClock, desk: Desk) -> None:
    await put_to_work(desk, WORKS)
    await desk.runtime.kill(desk.runtime.agent("scout"))
    record = await listed(desk)
    assert record["state"] == "lost"
    assert record["available_tools"] == ["agent_transcript", "agent_close"]
    assert "Look." in (await transcript(desk.controller(), agent="scout"))["transcript"]
    await close(desk.controller(), agent="scout")
    assert await desk.labels() == []
