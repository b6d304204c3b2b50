"""Results enter their owner's conversation once, and what is left of their agents goes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.identity import RequestId
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.record import Failure, FailureCode, Result
from agents.herdsman.runtime import Entry, Lifecycle
from agents.herdsman.signals import ANYTHING
from tests.support.deaths import Died, dying_at, failing_at, passed_points
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import NOW_MS, session
from tests.support.herd_told import Book, ToldOwner, keeping, telling


@pytest.fixture
def stage(tmp_path: Path, herd_clock: MockClock) -> Stage:
    return Stage.at(tmp_path)


@pytest.fixture
def book() -> Book:
    return Book()


async def done(stage: Stage, label: str, task: RequestId = TASK) -> None:
    """Have an agent finish its assignment: the result first, then the state."""
    await stage.finish(label)
    await stage.change(label, active=None, completed=task)


async def passing() -> None:
    """Let everybody do what they have to do; the clock jumps."""
    await trio.sleep(1)


async def test_result_is_told_once_and_nothing_is_left_of_its_agent(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await stage.add("scout")
    async with keeping(telling(stage.controller(), book)):
        await done(stage, "scout")
        await passing()
    (message,) = book.told
    first, reference, text = message.text.split("\n\n")
    assert first == (
        f"Agent result · agent=scout · definition={state.definition} · session={state.session}"
        " · status=completed"
    )
    assert (reference, text) == ("Result ref: result:scout#1", "done")
    assert message.details["resultIndex"] == 1
    assert message.details["canonicalRef"] == f"result:{TASK}"
    assert stage.runtime.stopped == ["scout"]
    assert not stage.mailbox("scout").folder.exists()
    assert (stage.premises.results / TASK).read_text().endswith("\n\ndone")


async def test_result_reaches_an_owner_at_work_and_is_cleared_up_once_it_is_saved(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    book.is_idle = False
    book.faults = 2
    await stage.add("scout")
    await done(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(0.3)
        assert book.told == []
        assert await stage.mailbox("scout").read_result(TASK) is not None
        await passing()
    assert len(book.told) == 1
    assert not stage.mailbox("scout").folder.exists()


async def test_result_waits_for_an_owner_that_is_away(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    book.is_away = True
    await stage.add("scout")
    await done(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await passing()
        assert book.told == []
        book.change(is_away=False)
        await passing()
    assert len(book.told) == 1
    assert not stage.mailbox("scout").folder.exists()


async def test_whoever_waits_until_nothing_is_on_its_way_hears_of_it_though_nothing_changes(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    book.is_away = True
    await stage.add("scout")
    await done(stage, "scout")
    controller = telling(stage.controller(), book)
    listener = stage.premises.signals.listen(ANYTHING)

    async def waiting(*, until: bool) -> None:
        while controller.endings.is_delivering is not until:
            if until:
                await trio.lowlevel.checkpoint()
            else:
                await listener.wait()

    with trio.fail_after(10):
        async with keeping(controller):
            await waiting(until=True)
            await waiting(until=False)
    assert book.told == []


async def test_result_for_another_session_stays_where_it_is(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout", owner=session("another"))
    await done(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert book.told == []
    assert await stage.mailbox("scout").read_result(TASK) is not None


async def test_result_of_another_agent_in_the_mailbox_is_not_told(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await stage.add("scout", active=None, completed=TASK)
    other = replace(state.of, owner=session("another"))
    result = Result(other, TASK, "completed", NOW_MS, "not yours")
    await stage.mailbox("scout").write_result(result)
    controller = telling(stage.controller(), book)
    async with keeping(controller):
        await passing()
    assert book.told == []
    assert "another agent's" in controller.endings.delivery_errors[state.of.generation]


async def test_text_that_cannot_be_kept_is_told_without_a_reference(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout")
    await done(stage, "scout")
    with failing_at("herd.artifact.written"):
        async with keeping(telling(stage.controller(), book)):
            await passing()
    (message,) = book.told
    assert "Result ref" not in message.text
    assert "resultIndex" not in message.details
    assert message.details["persistenceError"]
    assert not stage.mailbox("scout").folder.exists()


async def test_failure_is_told_without_a_reference_and_cleared_up(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await stage.add("scout", active=None, completed=TASK)
    failure = Failure(FailureCode.EMPTY_RESULT, "it said nothing")
    await stage.mailbox("scout").write_result(
        Result(state.of, TASK, "failed", NOW_MS, error=failure)
    )
    async with keeping(telling(stage.controller(), book)):
        await passing()
    (message,) = book.told
    assert "status=failed" in message.text
    assert "empty_result: it said nothing" in message.text
    assert "resultIndex" not in message.details
    assert not stage.mailbox("scout").folder.exists()


async def test_agent_that_cannot_be_accounted_for_is_not_ended_and_its_result_not_told_twice(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await stage.add("scout")
    await done(stage, "scout")
    stranger = replace(stage.runtime.agents[state.handle], session=session("stranger"))
    stage.runtime.agents[state.handle] = stranger
    controller = telling(stage.controller(), book)
    async with keeping(controller):
        await passing()
        assert len(book.results) == 1
        assert stage.runtime.stopped == []
        assert state.of.generation in controller.endings.delivery_errors
        assert stage.mailbox("scout").folder.exists()
        stage.see(state, Lifecycle.IDLE)
        await trio.sleep(60)
    assert len(book.results) == 1
    assert not stage.mailbox("scout").folder.exists()
    assert controller.endings.delivery_errors == {}


async def test_two_results_at_once_are_told_once_each_and_count_each_other(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("one")
    await stage.add("two")
    await stage.add("three")
    for label in ("one", "two"):
        await done(stage, label)
    book.faults = 1
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert sorted(message.details["agentLabel"] for message in book.told) == ["one", "two"]
    assert "1 agent active, 1 result on the way" in book.told[0].text
    assert "1 agent active, 0 results on the way" in book.told[1].text


async def test_owner_finishes_for_an_agent_that_died_before_it_noted_its_result(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout")
    await stage.finish("scout")
    async with keeping(telling(stage.controller(), book)):
        await passing()
        assert len(book.told) == 1
        # It lives, and notes it itself.
        assert stage.mailbox("scout").folder.exists()
        state = await stage.mailbox("scout").read_state()
        assert state is not None
        assert state.active == TASK
        stage.see(state, None)
        stage.premises.signals.ring(state.of.owner)
        await passing()
    assert len(book.told) == 1
    assert not stage.mailbox("scout").folder.exists()


async def test_result_that_was_told_and_removed_leads_to_a_clearing_up_alone(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout")
    await done(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await passing()
    # As a death after the result was removed leaves it.
    await stage.add("scout", active=None, completed=TASK)
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert len(book.told) == 1
    assert not stage.mailbox("scout").folder.exists()


async def test_result_that_is_gone_and_was_not_told_is_said_and_its_record_kept(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    state = await stage.add("scout", active=None, completed=TASK)
    controller = telling(stage.controller(), book)
    async with keeping(controller):
        await passing()
    assert book.told == []
    assert (
        "is gone and was not delivered" in controller.endings.delivery_errors[state.of.generation]
    )
    assert stage.mailbox("scout").folder.exists()


async def test_number_of_a_reference_is_never_used_twice(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    # Reserved by a process that died before it told anybody.
    folder = stage.premises.reservations / "scout"
    folder.mkdir(parents=True)
    (folder / "4").touch()
    await stage.add("scout")
    await done(stage, "scout")
    async with keeping(telling(stage.controller(), book)):
        await passing()
    assert book.told[0].details["resultIndex"] == 5


async def carry_on(stage: Stage, book: Book) -> None:
    """Have a process that is new look after the agents."""
    async with keeping(telling(stage.controller(), book)):
        await passing()


def stage_in(folder: Path) -> Stage:
    """Return a stage in a folder that is made for it."""
    folder.mkdir()
    return Stage.at(folder)


async def points_of_a_delivery(folder: Path) -> list[str]:
    """Return every crash point that a delivery passes, in order."""
    stage, book = stage_in(folder), Book()
    await stage.add("scout")
    await done(stage, "scout")
    with passed_points() as passed:
        await carry_on(stage, book)
    return passed


async def test_owner_that_dies_anywhere_is_told_once_and_leaves_nothing(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    points = await points_of_a_delivery(tmp_path / "recorded")
    assert len(points) > 5
    for number, name in enumerate(points):
        stage, book = stage_in(tmp_path / str(number)), Book()
        await stage.add("scout")
        await done(stage, "scout")
        with dying_at(name, points[: number + 1].count(name)) as death:
            try:
                await carry_on(stage, book)
            except* Died:
                pass
        assert death.happened, name
        await carry_on(stage, book)
        assert len(book.results) == 1, name
        # A folder without anything in it may be left.
        assert not await stage.mailbox("scout").is_occupied(), name


async def test_owner_whose_process_dies_right_after_it_was_told_is_not_told_again(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout")
    await done(stage, "scout")
    book.dies_after_telling = True
    try:
        await carry_on(stage, book)
    except* Died:
        pass
    assert len(book.results) == 1
    assert await stage.mailbox("scout").read_result(TASK) is not None
    book.dies_after_telling = False
    await carry_on(stage, book)
    await carry_on(stage, book)
    assert len(book.results) == 1
    assert not stage.mailbox("scout").folder.exists()


@dataclass(frozen=True)
class LeavingOwner(ToldOwner):
    """An owner that leaves while it is asked for the first time, and is back by then."""

    leaves: trio.Event = field(default_factory=trio.Event)
    asked: list[bool] = field(default_factory=list)

    async def entries(self) -> Sequence[Entry]:
        self.asked.append(True)
        if len(self.asked) == 1:
            await self.leaves.wait()
            raise OwnerAwayError
        return await super().entries()


async def test_what_is_seen_while_a_delivery_ends_is_heeded_at_once(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    book.is_idle = False
    await stage.add("scout")
    await done(stage, "scout")
    controller = stage.controller()
    owner = LeavingOwner(controller.caller.session, book)
    async with keeping(replace(controller, owner=owner)):
        await trio.sleep(1)
        assert owner.asked == [True]
        book.change(is_away=False)
        await trio.sleep(1)
        owner.leaves.set()
        await trio.sleep(1)
        assert len(book.results) == 1


async def test_delivery_that_breaks_off_by_a_fault_is_said_once_and_tried_again(
    herd_clock: MockClock,
    stage: Stage,
    book: Book,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await stage.add("scout")
    controller = telling(stage.controller(), book)
    with monkeypatch.context() as patch:
        patch.setattr("agents.herdsman.delivery.result_message", _break_off)
        async with keeping(controller):
            await done(stage, "scout")
            await trio.sleep(20)
            assert book.told == []
            assert caplog.text.count("by a fault of pinata: ZeroDivisionError") == 1
            (fault,) = controller.endings.delivery_errors.values()
            assert "it is not delivered by a fault of pinata" in fault
            patch.undo()
            await trio.sleep(10)
    assert len(book.told) == 1
    assert not controller.endings.delivery_errors


def _break_off(_: object) -> NoReturn:
    raise ZeroDivisionError
