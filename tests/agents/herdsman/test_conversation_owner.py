"""An agent as the owner of its own: it is told each thing once, or the truth about that."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.conversation_owner import ConversationOwner
from agents.herdsman.runtime import QUESTION, REQUEST, RESULT, Lifecycle, Message
from tests.support.herd_agents import open_runtime
from tests.support.herd_members import Pen
from tests.support.herd_talk import PlayedConversation, Turn


@pytest.fixture
async def pen(tmp_path: Path, herd_clock: MockClock) -> AsyncIterator[Pen]:
    async with open_runtime(tmp_path / "sessions") as runtime:
        pen = Pen(tmp_path, runtime, is_delegating=True)
        await pen.start()
        await pen.wait_ready()
        yield pen


def message(key: str, kind: str = RESULT) -> Message:
    return Message(kind, f"told {key}", {"delivery": key})


def heard(talk: PlayedConversation) -> Sequence[str]:
    return talk.heard(RESULT) + talk.heard(QUESTION)


async def test_a_message_wakes_the_agent_and_is_saved(herd_clock: MockClock, pen: Pen) -> None:
    pen.script.play(Turn("I see"))
    owner = ConversationOwner(pen.talk)
    assert owner.session == pen.talk.session
    assert owner.is_idle
    assert await owner.tell("a/1", message("a/1"), only_if_idle=True)
    assert heard(pen.talk) == ["told a/1"]
    assert [entry.details for entry in await owner.entries() if entry.kind == RESULT] == [
        {"delivery": "a/1"}
    ]


async def test_the_same_is_not_said_again(herd_clock: MockClock, pen: Pen) -> None:
    pen.script.play(Turn("I see"), Turn("and so on"))
    owner = ConversationOwner(pen.talk)
    for _ in range(2):
        assert await owner.tell("a/1", message("a/1"), only_if_idle=False)
    # Also by an owner that begins anew.
    assert await ConversationOwner(pen.talk).tell("a/1", message("a/1"), only_if_idle=False)
    assert heard(pen.talk) == ["told a/1"]


async def test_a_result_counts_on_every_branch_and_a_question_on_its_own(
    herd_clock: MockClock, pen: Pen
) -> None:
    pen.script.play(*[Turn("I see")] * 3)
    owner = ConversationOwner(pen.talk)
    for key, kind in (("a/1", RESULT), ("a/2", QUESTION)):
        assert await owner.tell(key, message(key, kind), only_if_idle=False)
    await pen.talk.wait_lifecycle(Lifecycle.IDLE)
    pen.talk.log.leave_branch()
    for key, kind in (("a/1", RESULT), ("a/2", QUESTION)):
        assert await owner.tell(key, message(key, kind), only_if_idle=False)
    assert pen.talk.heard(RESULT) == ["told a/1"]
    assert pen.talk.heard(QUESTION) == ["told a/2"] * 2


async def test_what_is_for_rest_waits_for_it(herd_clock: MockClock, pen: Pen) -> None:
    pen.script.play(Turn("thinking", takes_s=10))
    owner = ConversationOwner(pen.talk)
    await pen.talk.say(Message(REQUEST, "go", {}), waits=True)
    assert not owner.is_idle
    assert not await owner.tell("a/1", message("a/1", QUESTION), only_if_idle=True)
    assert heard(pen.talk) == []
    await pen.talk.wait_lifecycle(Lifecycle.IDLE)
    assert await owner.tell("a/1", message("a/1", QUESTION), only_if_idle=True)


async def test_what_an_interrupt_drops_was_not_told(herd_clock: MockClock, pen: Pen) -> None:
    pen.script.play(Turn("for ever", hangs=True), Turn("now I see"))
    owner = ConversationOwner(pen.talk)
    await pen.talk.say(Message(REQUEST, "go", {}), waits=True)
    told: list[bool] = []

    async def tell() -> None:
        told.append(await owner.tell("a/1", message("a/1"), only_if_idle=False))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell)
        await trio.sleep(1)
        await pen.talk.interrupt()
    assert told == [False]
    await tell()
    assert told == [False, True]
    assert heard(pen.talk) == ["told a/1"]


async def test_it_tells_of_changes_and_saves_what_no_model_reads(
    herd_clock: MockClock, pen: Pen
) -> None:
    owner = ConversationOwner(pen.talk)
    woken: list[int] = []

    async def wait() -> None:
        await owner.wait_changed()
        woken.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(100)
        assert woken == []
        owner.change()
    assert woken == [1]
    await owner.append("some-kind", {"a": 1})
    assert {"a": 1} in [entry.details for entry in await owner.entries()]
