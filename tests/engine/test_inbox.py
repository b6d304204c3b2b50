import trio
from trio.testing import wait_all_tasks_blocked

from engine.core.events import (
    CancelRequested,
    CheckoutChanged,
    RunResumed,
    TextDelta,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.inbox import Inbox, Letter, LoopReporter
from tests.support.sinks import MemorySink

A1 = AttemptId(TaskId("a"), 1)


async def test_letters_are_taken_once_and_in_order_of_arrival() -> None:
    inbox = Inbox()
    inbox.request_cancel("enough")
    inbox.request_cancel("not this one", A1.task)
    assert [letter.event for letter in await inbox.wait_letters()] == [
        CancelRequested("enough"),
        CancelRequested("not this one", A1.task),
    ]
    assert inbox.take_nowait() == []


async def test_whoever_waits_is_woken_without_a_letter() -> None:
    inbox, taken = Inbox(), list[list[Letter]]()

    async def wait() -> None:
        taken.append(await inbox.wait_letters())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert taken == []
        inbox.wake()
    assert taken == [[]]


async def test_cancel_that_is_to_be_recorded_returns_once_it_was_dealt_with() -> None:
    inbox, returned = Inbox(), list[bool]()

    async def cancel() -> None:
        await inbox.record_cancel("enough", A1.task)
        returned.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel)
        (letter,) = await inbox.wait_letters()
        await wait_all_tasks_blocked()
        assert (letter.event, returned) == (CancelRequested("enough", A1.task), [])
        assert letter.recorded is not None
        letter.recorded.set()
    assert returned == [True]


async def test_an_inbox_that_is_closed_keeps_nobody_waiting() -> None:
    inbox = Inbox()
    before, after = trio.Event(), trio.Event()
    inbox.post(Letter(RunResumed("x"), before))
    inbox.request_cancel("nobody waits for this one")
    inbox.close()
    inbox.post(Letter(RunResumed("y"), after))
    assert before.is_set()
    assert after.is_set()
    assert inbox.take_nowait() == []


async def test_a_reporter_returns_once_its_letter_was_dealt_with() -> None:
    inbox, returned = Inbox(), list[bool]()

    async def record() -> None:
        await LoopReporter(inbox, MemorySink()).record(CheckoutChanged(A1))
        returned.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(record)
        (letter,) = await inbox.wait_letters()
        await wait_all_tasks_blocked()
        assert letter.event == CheckoutChanged(A1)
        assert letter.recorded is not None
        assert returned == []
        letter.recorded.set()


async def test_of_what_is_only_shown_the_loop_hears_what_was_spent() -> None:
    inbox, sink = Inbox(), MemorySink()
    reporter, spent = LoopReporter(inbox, sink), UsageReported(A1, 1, 0, 0, 0, 0.5)
    reporter.note(TextDelta(A1, "hm"))
    reporter.note(spent)
    assert [letter.event for letter in inbox.take_nowait()] == [spent]
    await sink.append([])
    assert sink.events == [TextDelta(A1, "hm"), spent]
