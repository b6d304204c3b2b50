"""How an agent asks its owner."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.config import HerdConfig
from agents.herdsman.identity import Label
from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import REQUEST, HerdTool, Lifecycle, ToolReply
from agents.herdsman.settlement import Undelivered
from tests.support.deaths import failing_at
from tests.support.herd_members import Pen, open_pen
from tests.support.herd_talk import Call, Turn, tool_of

QUESTION = {"question": "a or b?"}
ASKS = Turn("a question", calls=(Call("ask_owner", QUESTION),))
LONG = Turn("half", hangs=True)
CHILD, SECOND = Label("a-child"), Label("b-child")


def ask_tool(pen: Pen) -> HerdTool:
    tool = tool_of(pen.agent.attendant, "ask_owner")
    assert tool is not None
    return tool


async def at_work(pen: Pen) -> HerdTool:
    """Start the agent, give it a task that it does not end, and return its tool."""
    pen.script.play(LONG)
    await pen.start()
    await pen.give()
    await pen.wait_state(lambda state: state.injection is None)
    return ask_tool(pen)


async def refused(pen: Pen, arguments: dict[str, Any], *, is_only: bool = True) -> ToolReply:
    """Ask, and return the refusal; nothing has changed by it."""
    before = pen.files()
    reply = await ask_tool(pen).call(arguments, is_only)
    assert reply.is_error
    assert not reply.ends_turn
    assert reply.details["ok"] is False
    assert reply.details["error"]["operation"] == "ask_owner"
    assert pen.files() == before
    return reply


async def test_question_waits_and_its_answer_goes_on_with_the_assignment(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(ASKS, Turn("b it is"))
        await pen.start()
        task = await pen.give()
        ask = await pen.wait_asking()
        await pen.talk.wait_lifecycle(Lifecycle.IDLE)
        await pen.pass_time(3600)
        state = await pen.state()
        assert (state.active, state.pending_ask, state.completed) == (task.request, ask, None)
        assert pen.results() == []
        record = await pen.mailbox.read_ask()
        assert record is not None
        assert record.belongs_to(state)
        assert record.question == "a or b?"
        assert (await pen.tell(pen.request("r", RequestKind.REPLY, "b", ask=ask))).accepted
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST)[1].endswith("b")
        assert await pen.result() == "b it is"
        assert await pen.mailbox.read_ask() is None


async def test_question_beside_another_call_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("both", calls=(Call("ask_owner", QUESTION), Call("read"))), LONG)
        await pen.start()
        task = await pen.give()
        await pen.wait_heard(1)
        await pen.pass_time(10)
        state = await pen.state()
        assert (state.active, state.pending_ask) == (task.request, None)
        assert await pen.mailbox.read_ask() is None
        assert "alone" in (await refused(pen, QUESTION, is_only=False)).text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "question"),
        ({"question": " \n"}, "question"),
        ({"question": "a?", "files": "notes.md"}, "files"),
        ({"question": "a?", "agent": "scout"}, "agent"),
    ],
    ids=["missing", "blank", "no list", "unknown"],
)
async def test_arguments_that_do_not_fit_are_refused(
    herd_clock: MockClock, tmp_path: Path, arguments: dict[str, Any], named: str
) -> None:
    async with open_pen(tmp_path) as pen:
        await at_work(pen)
        reply = await refused(pen, arguments)
        assert named in reply.text
        assert reply.details["error"]["category"] == "invalid_request"


async def test_question_with_a_file_that_is_missing_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await at_work(pen)
        reply = await refused(pen, {**QUESTION, "files": ["nowhere.md"]})
        assert "nowhere.md" in reply.text
        assert (await pen.state()).active is not None


async def test_files_of_a_question_are_read_from_where_the_agent_works(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("b is better")
    async with open_pen(tmp_path) as pen:
        tool = await at_work(pen)
        reply = await tool.call({**QUESTION, "files": ["notes.md"]}, True)  # noqa: FBT003 - the port's
        assert not reply.is_error
        ask = await pen.mailbox.read_ask()
        assert ask is not None
        assert "b is better" in ask.question
        assert ask.question.endswith("Question:\na or b?")
        assert reply.details == {"askId": ask.ask, "assignmentRequestId": ask.request}
        assert reply.ends_turn


async def test_question_that_is_too_long_is_refused_with_both_lengths(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.config = HerdConfig(mailbox_payload_limit_bytes=1024)
        await at_work(pen)
        assert "1,024" in (await refused(pen, {"question": "a" * 1024})).text


async def test_agent_asks_only_when_all_of_its_agents_wait_with_questions(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path, is_delegating=True) as pen:
        tool = await at_work(pen)
        pen.undelivered = Undelivered(asking=(CHILD,), others=(SECOND,))
        assert "b-child" in (await refused(pen, QUESTION)).text
        pen.undelivered = Undelivered(asking=(CHILD, SECOND))
        assert not (await tool.call(QUESTION, True)).is_error  # noqa: FBT003 - the port's


async def test_second_question_before_an_answer_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        tool = await at_work(pen)
        await tool.call(QUESTION, True)  # noqa: FBT003 - the port's
        assert "not answered" in (await refused(pen, QUESTION)).text


async def test_question_without_an_assignment_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await pen.start()
        await pen.wait_ready()
        assert "no assignment" in (await refused(pen, QUESTION)).text
    async with open_pen(tmp_path / "other") as pen:
        tool = next(iter(pen.member().tools))
        assert (await tool.call(QUESTION, True)).is_error  # noqa: FBT003 - the port's


async def test_question_while_something_waits_to_be_answered_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        tool = await at_work(pen)
        with failing_at("herd.state.started", times=1_000):
            async with pen.mailbox.hold():
                await pen.mailbox.write_request(pen.request("s", RequestKind.STEER, "no"))
            reply = await tool.call(QUESTION, True)  # noqa: FBT003 - the port's
        assert "just sent" in reply.text


async def test_question_whose_state_cannot_be_written_leaves_nothing(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await at_work(pen)
        with failing_at("herd.state.started"):
            await refused(pen, QUESTION)
        assert await pen.mailbox.read_ask() is None


@pytest.mark.parametrize("step", ["renamed", "durable"])
async def test_question_that_its_state_waits_with_stays_though_the_disk_complained(
    herd_clock: MockClock, tmp_path: Path, step: str
) -> None:
    async with open_pen(tmp_path) as pen:
        tool = await at_work(pen)
        with failing_at(f"herd.state.{step}"):
            reply = await tool.call(QUESTION, True)  # noqa: FBT003 - the port's
        assert not reply.is_error
        assert reply.ends_turn
        ask = await pen.mailbox.read_ask()
        assert ask is not None
        assert (await pen.state()).pending_ask == ask.ask


async def test_question_after_the_agent_was_closed_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        tool = await at_work(pen)
        await pen.remove()
        assert (await tool.call(QUESTION, True)).is_error  # noqa: FBT003 - the port's
        assert not pen.mailbox.folder.exists()


async def test_question_outlives_its_agent_and_is_answered_under_the_same_id(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(ASKS)
        await pen.start()
        await pen.give()
        ask = await pen.wait_asking()
        await pen.runtime.kill(pen.agent)
        await pen.restart()
        await pen.pass_time(600)
        assert (await pen.state()).pending_ask == ask
        assert pen.results() == []
        pen.script.play(Turn("b it is"))
        assert (await pen.tell(pen.request("r", RequestKind.REPLY, "b", ask=ask))).accepted
        await pen.wait_completed()
        assert await pen.result() == "b it is"


async def test_question_of_an_agent_that_is_closed_meanwhile_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        tool = await at_work(pen)
        replies: list[ToolReply] = []

        async def ask() -> None:
            replies.append(await tool.call(QUESTION, True))  # noqa: FBT003 - the port's

        async with trio.open_nursery() as nursery, pen.mailbox.hold():
            nursery.start_soon(ask)
            await pen.pass_time(5)
            await pen.mailbox.remove()
        assert [reply.text for reply in replies] == ["the assignment was closed by its owner"]
        assert not pen.mailbox.folder.exists()


async def test_question_with_a_mailbox_that_is_damaged_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await at_work(pen)
        (pen.mailbox.folder / "state.json").write_text("{")
        reply = await refused(pen, QUESTION)
        assert reply.details["error"]["category"] == "internal_failure"


async def test_question_while_the_result_is_being_written_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well."))
        await pen.start()
        with failing_at("herd.result.started", times=5):
            await pen.give()
            await pen.wait_state(lambda state: state.injection is None)
            await pen.pass_time(0.5)
            assert "being written" in (await refused(pen, QUESTION)).text
        await pen.wait_completed()


async def test_question_of_an_agent_that_is_interrupted_is_not_left(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("slow", takes_s=5, calls=ASKS.calls), Turn("by hand it is"))
        await pen.start()
        await pen.give()
        pen.talk.abort_takes_s = 10
        interrupt = pen.request("i", RequestKind.INTERRUPT, "by hand")
        assert (await pen.tell(interrupt)).accepted
        await pen.wait_completed()
        assert await pen.mailbox.read_ask() is None
        assert await pen.result() == "by hand it is"
