"""Questions reach the session that their agent works for while it is idle, once on a branch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.look import look
from agents.herdsman.questions import deliver_questions, is_asked
from agents.herdsman.reads import list_agents
from agents.herdsman.record import Ask, Binding, State
from agents.herdsman.runtime import BINDING, QUESTION, Entry, Lifecycle, Message
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import LEAD, NOW_MS, ask_id, request, session
from tests.support.herd_told import Book, keeping, telling

CANONICAL = f"result:{request('scouted')}"


@pytest.fixture
def stage(tmp_path: Path, herd_clock: MockClock) -> Stage:
    return Stage.at(tmp_path)


@pytest.fixture
def book() -> Book:
    return Book()


async def asks(stage: Stage, label: str, *bindings: Binding, **more: Any) -> State:
    """Have an agent wait with a question, as it does: the question first, then the state."""
    state = await stage.add(label, lifecycle=Lifecycle.IDLE, **more)
    ask = Ask(state.of, ask_id(label), TASK, state.session, "a or b?", NOW_MS, bindings)
    await stage.mailbox(label).write_ask(ask)
    return await stage.change(label, pending_ask=ask.ask)


async def passing() -> None:
    await trio.sleep(1)


def questions(book: Book) -> list[Message]:
    return [one for one in book.told if one.kind == QUESTION]


async def test_a_question_says_who_asks_and_how_to_answer(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await asks(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await passing()
    (message,) = questions(book)
    header, question, answer = message.text.split("\n\n")
    assert header == (
        f"Agent question · agent=scout · definition={state.definition} · session={state.session}"
    )
    assert question == "a or b?"
    assert "agent_reply" in answer
    assert message.details == {
        "delivery": f"{state.of.generation}/{ask_id('scout')}",
        "ask": ask_id("scout"),
        "request": TASK,
        "generation": state.of.generation,
        "owner": LEAD,
        "workspace": state.of.workspace,
        "agentLabel": "scout",
        "handle": state.handle,
        "agentDefinition": state.definition,
        "piSessionId": state.session,
        "piSessionFile": state.session_file,
    }


async def test_a_question_waits_until_its_owner_is_idle_and_comes_once(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    book.is_idle = False
    await asks(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(3600)
        assert book.told == []
        book.change(is_idle=True)
        await passing()
        assert len(questions(book)) == 1
        book.change(is_idle=True)
        await trio.sleep(60)
    assert len(questions(book)) == 1


async def test_an_owner_that_begins_anew_is_asked_once_in_all(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await asks(stage, "scout")
    for _ in range(3):
        async with keeping(telling(stage.controller(), book)):
            await passing()
    assert len(questions(book)) == 1
    # On a branch that does not hold it, it is asked again.
    book.leave_branch()
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert len(questions(book)) == 2


async def test_an_owner_that_is_away_is_asked_when_somebody_speaks_for_it(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    book.is_away = True
    await asks(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await passing()
        assert book.told == []
        book.change(is_away=False)
        await passing()
    assert len(questions(book)) == 1


async def test_one_question_is_told_at_a_time(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await asks(stage, "one")
    await asks(stage, "two")
    controller = telling(stage.controller(), book)
    for count in (1, 2):
        seen = await look(stage.premises, stage.runtime)
        assert await deliver_questions(controller, seen, book.entries)
        assert len(questions(book)) == count
    seen = await look(stage.premises, stage.runtime)
    assert not await deliver_questions(controller, seen, book.entries)


@pytest.mark.parametrize(
    "changes",
    [
        {"request": request("another")},
        {"ask": ask_id("another")},
        {"session": session("another")},
    ],
)
async def test_a_question_that_is_not_the_one_waited_with_is_neither_told_nor_answerable(
    herd_clock: MockClock, stage: Stage, book: Book, changes: dict[str, Any]
) -> None:
    await asks(stage, "scout")
    ask = await stage.mailbox("scout").read_ask()
    assert ask is not None
    await stage.mailbox("scout").write_ask(replace(ask, **changes))
    controller = telling(stage.controller(), book)
    async with keeping(controller):
        await passing()
    assert questions(book) == []
    [record] = (await list_agents(controller))["agents"]
    assert "agent_reply" not in record["available_tools"]


async def test_a_question_of_an_agent_of_an_agent_goes_no_further_than_to_that(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    parent = await stage.add("parent")
    await asks(stage, "child", owner=parent.session)
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert book.told == []
    between = Book()
    async with keeping(telling(stage.controller(parent.session, is_lead=False), between)):
        await passing()
    assert len(questions(between)) == 1


@pytest.mark.parametrize("change", ["answered", "closed", "unreadable", "replaced", "busy"])
async def test_a_question_that_is_over_by_now_is_not_told(
    herd_clock: MockClock, stage: Stage, book: Book, change: str
) -> None:
    state = await asks(stage, "scout")
    controller = telling(stage.controller(), book)
    seen = await look(stage.premises, stage.runtime)
    mailbox = stage.mailbox("scout")
    match change:
        case "answered":
            await stage.change("scout", pending_ask=None)
        case "closed":
            await mailbox.remove()
        case "unreadable":
            (mailbox.folder / "state.json").write_text("{")
        case "replaced":
            other = replace(state, session=session("another"), active=None, pending_ask=None)
            await mailbox.write_state(other)
        case _:
            book.is_idle = False
    assert not await deliver_questions(controller, seen, book.entries)
    assert book.told == []


async def test_what_references_in_a_question_stand_for_is_told_before_it(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await asks(stage, "scout", Binding("result:other#1", CANONICAL))
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert [entry.kind for entry in book.entries] == [BINDING, QUESTION]
    assert book.entries[0].details == {"semantic": "result:other#1", "canonical": CANONICAL}
    # It is known by now.
    book.entries = [entry for entry in book.entries if entry.kind == BINDING]
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert [entry.kind for entry in book.entries] == [BINDING, QUESTION]


async def test_a_question_whose_reference_means_another_result_here_says_so(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    known = {"semantic": "result:other#1", "canonical": f"result:{request('another')}"}
    book.entries.append(Entry(BINDING, known))
    await asks(stage, "scout", Binding("result:other#1", CANONICAL))
    async with keeping(telling(stage.controller(), book)):
        await passing()
    (message,) = questions(book)
    assert "a or b?" in message.text
    assert "cannot be used here" in message.text
    assert [entry.kind for entry in book.entries] == [BINDING, QUESTION]


async def test_a_reminder_comes_later_and_is_no_second_question(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await asks(stage, "scout")
    assert not is_asked(state, book.entries)
    async with keeping(telling(stage.controller(), book)):
        await passing()
        assert is_asked(state, book.entries)
        await passing_minutes(stage, 4)
        assert len(book.told) == 1
        await passing_minutes(stage, 2)
    assert len(questions(book)) == 1
    assert [one.details.get("type") for one in book.told] == [None, "ask"]


async def passing_minutes(stage: Stage, minutes: int) -> None:
    """Let time pass for those who wait and for those who look at the clock."""
    for _ in range(2 * minutes):
        stage.clock.advance(30_000)
        await trio.sleep(30)
