"""What an owner's side does by itself: when it looks, and what survives what goes wrong."""

import errno
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.closing import close
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.keeper import SCAN_EVERY_S
from agents.herdsman.record import State
from agents.herdsman.runtime import Inventory, Lifecycle
from tests.support.deaths import failing_at
from tests.support.herd_owners import TASK, Stage, StillRuntime
from tests.support.herd_records import LEAD
from tests.support.herd_told import Book, keeping, telling


class CountingRuntime(StillRuntime):
    """Counts the looks."""

    looks = 0

    async def inventory(self, states: Sequence[State]) -> Inventory:
        self.looks += 1
        return await super().inventory(states)


class BrokenRuntime(StillRuntime):
    """Fails as nothing should that is written with care."""

    is_broken = True

    async def inventory(self, states: Sequence[State]) -> Inventory:
        if self.is_broken:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await super().inventory(states)


@pytest.fixture
def stage(tmp_path: Path, herd_clock: MockClock) -> Stage:
    stage = Stage.at(tmp_path)
    stage.runtime = CountingRuntime()
    return stage


@pytest.fixture
def book() -> Book:
    return Book()


def looks(stage: Stage) -> int:
    assert isinstance(stage.runtime, CountingRuntime)
    return stage.runtime.looks


async def lost(stage: Stage, label: str = "scout") -> State:
    return await stage.add(label, lifecycle=None)


async def test_without_agents_nothing_is_looked_at_after_the_first_time(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(24 * 3600)
        assert looks(stage) == 1
        # Even with somebody else's.
        await stage.add("scout", owner=(await stage.add("other")).session, active=None)
        await stage.mailbox("other").remove()
        await trio.sleep(1)
        before = looks(stage)
        await trio.sleep(24 * 3600)
        assert looks(stage) == before


async def test_with_agents_it_looks_every_half_a_minute(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout")
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(1)
        before = looks(stage)
        await trio.sleep(10 * SCAN_EVERY_S)
        assert looks(stage) - before == 10


async def test_it_looks_at_once_when_something_changes(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(1)
        await lost(stage)
        stage.premises.signals.ring(LEAD)
        await trio.sleep(1)
        assert len(book.told) == 1


async def test_it_listens_no_more_once_it_has_ended(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(1)
    assert not stage.premises.signals._listeners


async def test_what_cannot_be_told_is_reported_once_and_tried_again(
    herd_clock: MockClock, stage: Stage, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    await lost(stage)
    stage.runtime.fault = "the list is torn"
    with caplog.at_level(logging.WARNING):
        async with keeping(telling(stage.controller(), book)):
            await trio.sleep(5 * SCAN_EVERY_S)
            assert book.told == []
            assert len(caplog.records) == 1
            assert "the list is torn" in caplog.text
            stage.runtime.fault = None
            await trio.sleep(SCAN_EVERY_S)
    assert len(book.told) == 1


async def test_a_session_that_takes_nothing_is_told_later(
    herd_clock: MockClock, stage: Stage, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    await lost(stage)
    book.faults = 3
    with caplog.at_level(logging.WARNING):
        async with keeping(telling(stage.controller(), book)):
            await trio.sleep(4 * SCAN_EVERY_S)
    assert len(book.told) == 1
    assert len(caplog.records) == 1


async def test_an_owner_that_leaves_while_it_is_asked_is_told_when_it_is_back(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await lost(stage)
    async with keeping(telling(stage.controller(), book)):
        book.change(is_away=True)
        await trio.sleep(2 * SCAN_EVERY_S)
        assert len(book.told) <= 1
        book.change(is_away=False)
        await trio.sleep(1)
    assert len(book.told) == 1


async def test_records_that_a_close_could_not_remove_are_removed_later(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout")
    controller = telling(stage.controller(), book)
    with failing_at("herd.mailbox.emptied"):
        answer = await close(controller, agent="scout")
    assert "cleanup_error" in answer
    async with keeping(controller):
        await trio.sleep(1)
    assert controller.endings.cleanup_errors == {}
    assert not stage.mailbox("scout").folder.exists()


async def test_a_result_that_appears_while_its_agent_is_closed_is_delivered(
    herd_clock: MockClock, stage: Stage, book: Book
) -> None:
    await stage.add("scout", lifecycle=Lifecycle.IDLE)
    controller = telling(stage.controller(), book)

    async def finish(identity: object) -> None:
        await stage.finish("scout")

    stage.runtime.while_stopping = finish
    with pytest.raises(HerdError, match="has produced a result while it was stopped") as caught:
        await close(controller, agent="scout")
    assert caught.value.trouble.category is Category.TARGET_AMBIGUOUS
    assert await stage.mailbox("scout").read_result(TASK) is not None
    async with keeping(controller):
        await trio.sleep(1)
    assert [one.details["request"] for one in book.results] == [TASK]
    assert not stage.mailbox("scout").folder.exists()


async def test_a_look_that_breaks_off_by_a_fault_is_said_once_and_made_again(
    herd_clock: MockClock, stage: Stage, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = BrokenRuntime()
    stage.runtime = runtime
    await lost(stage)
    async with keeping(telling(stage.controller(), book)):
        await trio.sleep(5 * SCAN_EVERY_S)
        assert book.told == []
        assert caplog.text.count("by a fault of pinata: OSError") == 1
        runtime.is_broken = False
        await trio.sleep(SCAN_EVERY_S)
    assert len(book.told) == 1
