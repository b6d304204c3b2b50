"""An idle owner is told of an agent that needs it: one at a time, and only of what still holds."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.attention import CAPTURE_S, Attention
from agents.herdsman.controller import Controller
from agents.herdsman.identity import Identity
from agents.herdsman.look import look
from agents.herdsman.record import State
from agents.herdsman.runtime import ATTENTION, Lifecycle, Message
from tests.support.herd_owners import Stage, nothing_happens
from tests.support.herd_records import NOW_MS
from tests.support.herd_told import Book, keeping, telling

MINUTE_MS = 60_000


@pytest.fixture
def stage(tmp_path: Path, herd_clock: MockClock) -> Stage:
    return Stage.at(tmp_path)


@pytest.fixture
def book() -> Book:
    return Book()


async def scan(attention: Attention, stage: Stage, book: Book) -> list[Message]:
    """Have the owner looked after once; return what it was told."""
    before = len(book.told)
    await attention.attend(await look(stage.premises, stage.runtime), book.entries)
    return book.told[before:]


def labels(messages: Sequence[Message]) -> list[str]:
    return [message.details["agent"] for message in messages]


async def add_stale(stage: Stage, label: str = "scout") -> State:
    return await stage.add(label, last_activity_ms=NOW_MS - 11 * MINUTE_MS)


@pytest.fixture
def controller(stage: Stage, book: Book) -> Controller:
    return telling(stage.controller(), book)


async def test_of_several_agents_one_is_told_of_at_a_time(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    for label in ("one", "two", "three"):
        await stage.add(label, lifecycle=None)
    attention = Attention(controller)
    told = [await scan(attention, stage, book) for _ in range(4)]
    assert [len(one) for one in told] == [1, 1, 1, 0]
    assert sorted(labels(book.told)) == ["one", "three", "two"]
    assert all(message.kind == ATTENTION for message in book.told)
    assert len({message.details["delivery"] for message in book.told}) == 3


async def test_an_owner_that_was_busy_for_an_hour_is_told_once(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    book.is_idle = False
    await stage.add("scout", lifecycle=None)
    async with keeping(controller):
        for _ in range(120):
            stage.clock.advance(30_000)
            await trio.sleep(30)
        assert book.told == []
        book.change(is_idle=True)
        await trio.sleep(1)
    assert labels(book.told) == ["scout"]


async def test_a_capture_is_told_once_in_an_episode(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    state = await add_stale(stage)
    stage.session_file("scout").write_text("{}\n")
    stage.runtime.output = ["compiling", "linking"]
    attention = Attention(controller)
    (first,) = await scan(attention, stage, book)
    assert "> compiling\n> linking" in first.text
    assert first.details["capture"]["recent_output"] == "compiling\nlinking"
    assert first.details["capture"]["session_id"] == state.session
    assert await scan(attention, stage, book) == []
    stage.clock.advance(5 * MINUTE_MS)
    (second,) = await scan(attention, stage, book)
    assert "linking" not in second.text
    assert "capture" not in second.details
    await stage.change("scout", last_activity_ms=NOW_MS)
    assert await scan(attention, stage, book) == []
    stage.clock.advance(10 * MINUTE_MS)
    (third,) = await scan(attention, stage, book)
    assert "> linking" in third.text


async def test_a_capture_that_takes_too_long_is_not_waited_for(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    await add_stale(stage)

    async def hang(identity: Identity) -> None:
        await trio.sleep_forever()

    stage.runtime.while_capturing = hang
    began = trio.current_time()
    (message,) = await scan(Attention(controller), stage, book)
    assert trio.current_time() - began == pytest.approx(CAPTURE_S, abs=0.5)
    assert "could not be read" in message.text
    assert "capture" not in message.details


async def test_an_agent_that_is_another_one_by_the_end_of_its_capture_is_not_told_of(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    state = await add_stale(stage)

    async def vanish(identity: Identity) -> None:
        await stage.mailbox("scout").remove()
        stage.see(state, None)

    stage.runtime.while_capturing = vanish
    assert await scan(Attention(controller), stage, book) == []


@pytest.mark.parametrize("what", ["got on", "is not at work", "owner is busy"])
async def test_what_holds_no_longer_when_it_is_to_be_told_is_not_and_not_remembered(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller, what: str
) -> None:
    state = await add_stale(stage)

    async def change(identity: Identity) -> None:
        match what:
            case "got on":
                await stage.change("scout", last_activity_ms=NOW_MS)
            case "is not at work":
                stage.see(state, Lifecycle.IDLE)
            case _:
                book.is_idle = False

    stage.runtime.while_capturing = change
    attention = Attention(controller)
    assert await scan(attention, stage, book) == []
    # Nobody was told, so the next look may.
    stage.runtime.while_capturing = nothing_happens
    book.is_idle = True
    stage.see(state)
    await stage.change("scout", last_activity_ms=state.last_activity_ms)
    assert len(await scan(attention, stage, book)) == 1


async def test_what_is_over_between_the_look_and_the_telling_is_not_told(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    state = await stage.add("scout", lifecycle=None)
    seen = await look(stage.premises, stage.runtime)
    stage.see(state)
    attention = Attention(controller)
    await attention.attend(seen, book.entries)
    assert book.told == []


async def test_another_process_may_tell_of_the_same_again(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    await stage.add("scout", lifecycle=None)
    for _ in range(2):
        assert len(await scan(Attention(controller), stage, book)) == 1


async def test_agents_of_agents_are_none_of_the_owners_business(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    parent = await stage.add("parent")
    await stage.add("child", owner=parent.session, lifecycle=None)
    assert await scan(Attention(controller), stage, book) == []


async def test_an_owner_that_did_not_take_the_message_is_told_again(
    herd_clock: MockClock, stage: Stage, book: Book, controller: Controller
) -> None:
    await stage.add("scout", lifecycle=None)
    attention = Attention(controller)
    seen = await look(stage.premises, stage.runtime)
    book.faults = 1
    with pytest.raises(Exception, match="disk is full"):
        await attention.attend(seen, book.entries)
    assert len(await scan(attention, stage, book)) == 1
