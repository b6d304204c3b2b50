"""What an owner's side finds when it begins, and what it does about it: that, and nothing else."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.closing import close
from agents.herdsman.continuation import continue_
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import HerdError
from agents.herdsman.identity import Handle, Label
from agents.herdsman.listing import agent_records
from agents.herdsman.look import look
from agents.herdsman.record import Ask, Request, RequestKind, Result
from agents.herdsman.references import Canonical, Semantic, resolve
from agents.herdsman.result_text import Delivery, result_message
from agents.herdsman.runtime import ATTENTION, QUESTION, REQUEST, RESULT, RETIRED, Entry, Lifecycle
from agents.herdsman.session_file import begin_managed_session
from tests.support.herd_desks import open_desk
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import (
    NOW_MS,
    agent_of,
    ask_id,
    request,
    result_error,
    session,
)
from tests.support.herd_told import Book, keeping, telling

Files = dict[str, bytes]


@pytest.fixture
def stage(tmp_path: Path, herd_clock: MockClock) -> Stage:
    return Stage.at(tmp_path)


@pytest.fixture
def book() -> Book:
    return Book()


def files(stage: Stage) -> Files:
    """Return all that lasts; the files of locks say nothing."""
    root = stage.premises.root
    paths = (path for path in root.rglob("*") if path.is_file())
    lasting = (path for path in paths if not path.is_relative_to(stage.premises.locks))
    return {str(path.relative_to(root)): path.read_bytes() for path in lasting}


async def begin_anew(stage: Stage, book: Book) -> None:
    """Have an owner's side begin, and do what is to be done."""
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(1)


async def written(stage: Stage) -> None:
    await stage.finish("scout")


async def live(stage: Stage, book: Book) -> None:
    await stage.add("scout", last_activity_ms=NOW_MS)


async def lost(stage: Stage, book: Book) -> None:
    await stage.add("scout", lifecycle=None)


async def inventory_fails(stage: Stage, book: Book) -> None:
    await stage.add("scout", active=None, completed=TASK)
    await write_result(stage)
    stage.runtime.fault = "nobody knows"


async def lost_with_result(stage: Stage, book: Book) -> None:
    await stage.add("scout", lifecycle=None)
    await stage.finish("scout")


async def write_result(stage: Stage) -> Result:
    state = await stage.mailbox("scout").read_state()
    assert state is not None
    result = Result(state.of, TASK, "completed", NOW_MS, "done")
    await stage.mailbox("scout").write_result(result)
    return result


async def completed_with_result(stage: Stage, book: Book) -> None:
    await stage.add("scout", lifecycle=None, active=None, completed=TASK)
    await write_result(stage)


async def completed_and_told(stage: Stage, book: Book) -> None:
    state = await stage.add("scout", lifecycle=None, active=None, completed=TASK)
    result = Result(state.of, TASK, "completed", NOW_MS, "done")
    book.entries.append(Entry(RESULT, result_message(Delivery(state, result)).details))


async def completed_and_not_told(stage: Stage, book: Book) -> None:
    await stage.add("scout", lifecycle=None, active=None, completed=TASK)


async def result_lost(stage: Stage, book: Book) -> None:
    state = await stage.add("scout", lifecycle=Lifecycle.IDLE)
    await stage.change("scout", active=None, result_error=result_error(state).result_error)


async def asking(stage: Stage, book: Book) -> None:
    state = await stage.add("scout", lifecycle=Lifecycle.IDLE)
    ask = Ask(state.of, ask_id("scout"), TASK, state.session, "a or b?", NOW_MS)
    await stage.mailbox("scout").write_ask(ask)
    await stage.change("scout", pending_ask=ask.ask)


async def pending_request(stage: Stage, book: Book) -> None:
    state = await stage.add("scout", last_activity_ms=NOW_MS)
    await stage.mailbox("scout").write_request(
        Request(state.of, request("steer"), RequestKind.STEER, "go on", NOW_MS)
    )


async def unreadable(stage: Stage, book: Book) -> None:
    await stage.add("scout")
    (stage.mailbox("scout").folder / "state.json").write_text("{")


async def anothers(stage: Stage, book: Book) -> None:
    await stage.add("scout", owner=session("another"), active=None, completed=TASK)
    await write_result(stage)


async def leftovers(stage: Stage, book: Book) -> None:
    # Somebody died who started an agent, or who cleared one away.
    folder = stage.mailbox("scout").folder
    folder.mkdir(parents=True)
    (folder / "ask.json").write_text("{")


@dataclass(frozen=True)
class Row:
    """What is found, and what comes of it.

    Attributes:
        told: the kinds of messages that the owner gets.
        is_cleared: nothing is left of the mailbox; otherwise not one byte is different.
        keeps: new files that are kept then.
    """

    found: Callable[[Stage, Book], Awaitable[None]]
    told: tuple[str, ...] = ()
    is_cleared: bool = False
    keeps: frozenset[str] = frozenset()


KEPT = frozenset({f"results/{TASK}", "result-ref-reservations/scout/1"})
ROWS = (
    Row(live),
    Row(lost, (ATTENTION,)),
    Row(inventory_fails),
    Row(lost_with_result, (RESULT,), is_cleared=True, keeps=KEPT),
    Row(completed_with_result, (RESULT,), is_cleared=True, keeps=KEPT),
    Row(completed_and_told, is_cleared=True),
    Row(completed_and_not_told),
    Row(result_lost, (ATTENTION,)),
    Row(asking, (QUESTION,)),
    Row(pending_request),
    Row(unreadable),
    Row(anothers),
    Row(leftovers),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.found.__name__)
async def test_what_is_found_leads_to_one_thing_and_changes_no_other_file(
    herd_clock: MockClock, stage: Stage, book: Book, row: Row
) -> None:
    # Those of others, whatever they are like, are never touched.
    other = await stage.add("other", owner=session("another"), active=None, completed=TASK)
    await stage.mailbox("other").write_result(Result(other.of, TASK, "completed", 1, "theirs"))
    stage.premises.results.mkdir(exist_ok=True)
    (stage.premises.results / request("kept")).write_text("kept")
    await row.found(stage, book)
    before = files(stage)
    mailbox = str(stage.mailbox("scout").folder.relative_to(stage.premises.root))
    await begin_anew(stage, book)
    assert tuple(one.kind for one in book.told) == row.told
    after = files(stage)
    removed = {name for name in before if name.startswith(mailbox)} if row.is_cleared else set()
    assert before.keys() - after.keys() == removed
    assert after.keys() - before.keys() == row.keeps
    assert all(after[name] == before[name] for name in before.keys() & after.keys())
    assert stage.mailbox("scout").folder.exists() is not row.is_cleared


async def test_an_owner_that_begins_twice_while_a_result_waits_is_told_once(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    book.is_away = True
    await completed_with_result(stage, book)
    for _ in range(2):
        await begin_anew(stage, book)
        assert book.told == []
    book.is_away = False
    for _ in range(2):
        await begin_anew(stage, book)
    assert len(book.results) == 1


async def test_an_agent_whose_mailbox_can_be_read_again_is_looked_after_again(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await completed_with_result(stage, book)
    state = stage.mailbox("scout").folder / "state.json"
    whole = state.read_bytes()
    state.write_bytes(b"{")
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(3600)
        assert book.told == []
        # As somebody does who has a copy of it.
        state.write_bytes(whole)
        await trio.sleep(60)
    assert len(book.results) == 1
    assert not stage.mailbox("scout").folder.exists()


async def test_a_request_for_an_agent_that_is_gone_does_not_keep_its_mailbox(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await pending_request(stage, book)
    state = (await stage.mailbox("scout").read_state()) or pytest.fail("it is not there")
    await stage.change("scout", active=None, completed=TASK)
    await write_result(stage)
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(1)
        # It will answer, and is left alone until it has.
        assert len(book.results) == 1
        assert stage.mailbox("scout").folder.exists()
        assert stage.runtime.stopped == []
        stage.see(state, None)
        await trio.sleep(60)
    assert len(book.results) == 1
    assert not stage.mailbox("scout").folder.exists()


async def test_what_an_agent_died_amid_does_not_keep_its_mailbox(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await asking(stage, book)
    await written(stage)
    for agent in tuple(stage.runtime.agents):
        del stage.runtime.agents[agent]
    await begin_anew(stage, book)
    assert len(book.results) == 1
    assert not stage.mailbox("scout").folder.exists()


async def save_session(stage: Stage, *entries: dict[str, Any]) -> None:
    """Save the conversation of an agent that has a mailbox."""
    state = await stage.mailbox("scout").read_state()
    assert state is not None
    path = Path(state.session_file)

    def save() -> None:
        begin_managed_session(
            path,
            state.session,
            cwd=state.cwd,
            definition=state.definition,
            label=state.of.label,
            now_ms=NOW_MS,
        )
        with path.open("a") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)

    await trio.to_thread.run_sync(save)


async def test_a_setting_that_cannot_be_read_keeps_no_result_back(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await completed_with_result(stage, book)
    data = {"session": session("scout")}
    await save_session(stage, {"type": "custom", "customType": RETIRED, "data": data})
    stage.premises.config_file.write_text("{")
    await begin_anew(stage, book)
    assert [one.details["retired"] for one in book.results] == [True]


@pytest.mark.parametrize(
    ("timestamp", "elapsed_ms"),
    [("2023-11-14T22:11:50.000Z", 90_000), ("yesterday", None), (7, None), (None, None)],
)
async def test_a_result_tells_how_long_it_took_since_the_task_was_read(
    herd_clock: MockClock,
    stage: Stage,
    book: Book,
    timestamp: object,
    elapsed_ms: int | None,
) -> None:
    await completed_with_result(stage, book)
    for_it = {"details": {"request": TASK}, "timestamp": timestamp}
    entries: list[dict[str, Any]] = [
        {"details": 1, "timestamp": ""},
        {"details": {}, "timestamp": ""},
        for_it,
    ]
    kind = {"type": "custom_message", "customType": REQUEST}
    await save_session(stage, *[kind | entry for entry in entries])
    await begin_anew(stage, book)
    assert [one.details.get("elapsedMs") for one in book.results] == [elapsed_ms]


async def test_an_agent_that_runs_elsewhere_is_left_alone(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await stage.add("scout", active=None, completed=TASK)
    await write_result(stage)
    other = replace(
        agent_of(state),
        handle=Handle("elsewhere"),
        session=session("other"),
        session_file="/elsewhere.jsonl",
    )
    stage.runtime.agents = {other.handle: other}
    await begin_anew(stage, book)
    assert len(book.results) == 1
    assert stage.runtime.stopped == []
    assert stage.runtime.agents == {other.handle: other}
    assert not stage.mailbox("scout").folder.exists()


async def test_one_that_reuses_the_place_of_an_agent_is_not_ended_for_it(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await stage.add("scout", active=None, completed=TASK)
    await write_result(stage)
    other = replace(agent_of(state), session=session("other"), session_file="/other.jsonl")
    stage.runtime.agents[state.handle] = other
    controller = telling(stage.controller(), book)
    async with keeping(controller):
        await trio.sleep(60)
        assert len(book.results) == 1
        assert stage.mailbox("scout").folder.exists()
        assert state.of.generation in controller.endings.delivery_errors
        del stage.runtime.agents[state.handle]
        await trio.sleep(60)
    assert stage.runtime.stopped == []
    assert len(book.results) == 1
    assert not stage.mailbox("scout").folder.exists()


async def test_two_results_of_a_label_have_two_numbers_and_another_session_a_third(
    herd_clock: MockClock, stage: Stage
) -> None:
    books = {"first": Book(), "second": Book()}
    tasks = [request("one"), request("two"), request("three")]
    for owner, task in zip(("first", "first", "second"), tasks, strict=True):
        of = session(owner)
        await stage.add("scout", owner=of, active=task)
        await stage.finish("scout")
        await stage.change("scout", active=None, completed=task)
        async with keeping(telling(stage.controller(of), books[owner])):
            await trio.sleep(1)
    first, second = books["first"].entries, books["second"].entries
    assert [resolve(Semantic(Label("scout"), n), first) for n in (1, 2)] == [
        Canonical(task) for task in tasks[:2]
    ]
    assert resolve(Semantic(Label("scout"), 3), second) == Canonical(tasks[2])
    with pytest.raises(HerdError, match="stands for no result here"):
        resolve(Semantic(Label("scout"), 1), second)


async def test_agents_of_another_machine_are_lost_and_their_sessions_go_on_after_a_close(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as desk:
        controller = desk.controller()
        answer = await delegate(controller, definition="scout", task="Look.", label=None, files=())
        await desk.settle()
    book = Book()
    async with open_desk(tmp_path) as desk:
        desk.runtime.handle_prefix = "there-"
        controller = telling(desk.controller(), book)
        async with keeping(controller):
            await desk.settle()
            seen = await look(desk.premises, desk.runtime)
            [record] = agent_records(seen, controller.caller, controller.endings.left_over)
            assert record["state"] == "lost"
            session_id = answer["session_id"]
            with pytest.raises(HerdError):
                await continue_(controller, session=session_id, task="Go on.", files=())
            await close(controller, agent=answer["agent"])
            again = await continue_(controller, session=session_id, task="Go on.", files=())
            await desk.settle()
        assert again["agent"] == answer["agent"]
        assert [one.kind for one in book.told] == [ATTENTION]
