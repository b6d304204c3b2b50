"""Watching a run, and reaching into it, from another process."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
import trio.testing

from agents.transcript import SaidMessage
from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    PinataError,
    UsageError,
)
from engine.core.events import (
    CheckoutChanged,
    RunResumed,
    RunSettled,
    TaskQueued,
    ToolStarted,
    Trace,
    UsageReported,
)
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.core.view import RunView
from engine.records.event import Logged
from engine.records.link import LinkV1, encode_facts, encode_link
from engine.records.view import encode_view
from engine.system.sockets import open_listener
from pinata.work.frames import FrameReader, encode_frame, send_frame
from pinata.work.link import Links, open_links
from pinata.work.link_client import LinkClient, open_link
from pinata.work.link_entry import LinkLostError, NoLinkError
from pinata.work.observer import OpenedRun
from tests.support.linked import (
    ENDING,
    JUDGE,
    LOOK,
    LOOK1,
    OPENING,
    RUN,
    Frame,
    Linked,
    session_line,
)

TOOL = ToolStarted(LOOK1, "c", "bash", "make")
USAGE = UsageReported(LOOK1, 1, 1, 10, 5, 0.5)


@dataclass(slots=True)
class Watcher:
    """An observer that folds what it hears as a display does."""

    opened: list[OpenedRun] = field(default_factory=list)
    view: RunView = field(default_factory=RunView)
    traces: list[Trace] = field(default_factory=list)
    heard: trio.Event = field(default_factory=trio.Event)

    def run_opened(self, run: OpenedRun) -> None:
        self.opened.append(run)
        self.view = run.view.copy()
        self._tell()

    def happened(self, logged: Logged) -> None:
        self.view.apply(*logged)
        self._tell()

    def noted(self, event: Trace) -> None:
        self.traces.append(event)
        self._tell()

    def _tell(self) -> None:
        self.heard.set()
        self.heard = trio.Event()

    async def wait(self, is_so: Callable[[], bool]) -> None:
        """Return once something is so."""
        with trio.fail_after(10):
            while not is_so():
                await self.heard.wait()


@pytest.fixture
def linked(tmp_path_factory: pytest.TempPathFactory) -> Linked:
    linked = Linked.create(tmp_path_factory.mktemp("r"))
    linked.tell(*OPENING)
    return linked


async def test_a_watcher_sees_the_run_to_its_end_as_its_owner_does(linked: Linked) -> None:
    watcher = Watcher()
    async with open_links() as links, linked.served(links):
        linked.note(TOOL, USAGE)
        async with open_link(linked.folder) as link, trio.open_nursery() as nursery:
            nursery.start_soon(link.watch, watcher)
            await watcher.wait(lambda: len(watcher.traces) == 2)
            linked.tell(CheckoutChanged(LOOK1))
            await watcher.wait(lambda: watcher.view == linked.view)
            linked.tell(*ENDING)
            assert linked.hears is not None
            linked.hears.finish()
    assert watcher.view == linked.view
    assert watcher.view.status is Status.SUCCEEDED
    (opened,) = watcher.opened
    assert opened.id == RUN
    assert opened.folder == linked.folder.path
    assert opened.started_at_ms == 1_000
    assert opened.agents == {LOOK: "scout", JUDGE: "reviewer"}
    assert list(opened.after.items()) == [(LOOK, ()), (JUDGE, (LOOK,))]
    assert opened.notices == ("mind the step",)
    assert watcher.traces == [TOOL, USAGE]


async def test_whoever_watches_later_begins_from_how_the_run_stands(linked: Linked) -> None:
    watcher = Watcher()
    async with linked.served(), open_link(linked.folder) as link:
        linked.tell(CheckoutChanged(LOOK1))
        linked.note(TOOL)
        await link.steer(LOOK, "Hm.", follow_up=False)
        await trio.testing.wait_all_tasks_blocked(0.1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.watch, watcher)
            await watcher.wait(lambda: bool(watcher.traces))
            assert watcher.view == linked.view
            assert watcher.traces == [TOOL]
            linked.tell(*ENDING)
            await watcher.wait(lambda: watcher.view == linked.view)
            nursery.cancel_scope.cancel()
        # Nobody is left who could be shown twice.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.watch, Watcher())
            await trio.testing.wait_all_tasks_blocked(0.02)
            nursery.cancel_scope.cancel()


async def test_a_burst_is_made_up_for_by_how_the_run_stands_then(linked: Linked) -> None:
    watcher = Watcher()
    async with linked.served(), open_link(linked.folder) as link, trio.open_nursery() as nursery:
        nursery.start_soon(link.watch, watcher)
        await watcher.wait(lambda: bool(watcher.opened))
        linked.tell(*(TaskQueued(TaskId(f"t{number}")) for number in range(3_000)))
        await watcher.wait(lambda: len(watcher.opened) == 2)
        assert watcher.view == linked.view
        linked.tell(*ENDING)
        await watcher.wait(lambda: watcher.view == linked.view)
        assert len(watcher.opened) == 2
        nursery.cancel_scope.cancel()


async def own(
    linked: Linked,
    links: Links,
    over: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Own a run until it is over."""
    async with linked.served(links):
        task_status.started()
        await over.wait()


async def test_a_run_that_goes_on_in_its_process_can_be_watched_again(linked: Linked) -> None:
    watcher, first, second = Watcher(), trio.Event(), trio.Event()
    async with open_links() as links, trio.open_nursery() as nursery:
        await nursery.start(own, linked, links, first)
        async with open_link(linked.folder) as link:
            linked.tell(*ENDING)
            first.set()
            await link.watch(watcher)
            await link.watch(watcher)
            assert len(watcher.opened) == 2
            await nursery.start(own, linked, links, second)
            await link.wait_reopened()
            async with trio.open_nursery() as watching:
                watching.start_soon(link.watch, watcher)
                linked.tell(RunResumed("repair"), RunSettled(Status.FAILED))
                second.set()
            assert watcher.view == linked.view
            assert watcher.view.settlements == 2
            links.leave()
            with pytest.raises(LinkLostError, match="is gone or does not answer: `pinata status"):
                await link.wait_reopened()


async def test_what_is_asked_reaches_the_owner_and_its_answer_comes_back(linked: Linked) -> None:
    path = linked.folder.transcript_file(LOOK1)
    await trio.to_thread.run_sync(path.write_text, session_line("assistant", "so \\ud800"))
    async with linked.served(), open_link(linked.folder) as link:
        await link.steer(LOOK, "Look twice.", follow_up=True)
        assert not await link.cancel(JUDGE)
        assert await link.messages(LOOK, None) == [SaidMessage("assistant", "so \\ud800")]
        assert await link.messages(LOOK, 1) == [SaidMessage("assistant", "so \\ud800")]
        linked.cancelling = (RunSettled(Status.CANCELLED),)
        assert await link.cancel()
    assert linked.told == [(LOOK, "Look twice.", True, "user")]
    assert [task for task, _ in linked.asked] == [JUDGE, None]


async def test_refusals_are_of_the_kind_that_they_have_at_home(linked: Linked) -> None:
    async with linked.served(), open_link(linked.folder, role="coordinator") as link:
        with pytest.raises(UsageError, match="the message is blank"):
            await link.steer(LOOK, " ", follow_up=False)
        with pytest.raises(ConflictError, match="task 'judge' is queued"):
            await link.steer(JUDGE, "x", follow_up=False)
        with pytest.raises(UsageError, match='"nosuch" is not a task'):
            await link.cancel(TaskId("nosuch"))
        with pytest.raises(UsageError, match="no agent has started"):
            await link.messages(JUDGE, None)
        await trio.to_thread.run_sync(linked.folder.transcript_file(LOOK1).write_text, "nonsense\n")
        with pytest.raises(CorruptionError, match="line 1 is not a session entry"):
            await link.messages(LOOK, 1)


async def test_questions_are_answered_beside_each_other_and_may_be_given_up(
    linked: Linked,
) -> None:
    linked.may_cancel = trio.Event()
    async with linked.served(), open_link(linked.folder) as link:
        with trio.move_on_after(0.05) as given_up:
            await link.cancel()
        assert given_up.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(link.steer, LOOK, "x", follow_up=False))
            await trio.testing.wait_all_tasks_blocked()
            assert linked.told == []  # one after the other
            linked.may_cancel.set()
    assert linked.told == [(LOOK, "x", False, "user")]


async def test_a_run_that_is_watched_refuses_what_only_its_owner_does(linked: Linked) -> None:
    watcher = Watcher()
    async with linked.served(), open_link(linked.folder) as link, trio.open_nursery() as nursery:
        nursery.start_soon(link.watch, watcher)
        await watcher.wait(lambda: bool(watcher.opened))
        (opened,) = watcher.opened
        with pytest.raises(ConflictError, match="only looked at"):
            opened.steer(LOOK, "x")
        with pytest.raises(ConflictError, match="only looked at"):
            opened.cancel("enough")
        nursery.cancel_scope.cancel()
    assert (linked.told, linked.asked) == ([], [])


async def test_a_run_that_nobody_serves_is_told_in_a_sentence(linked: Linked) -> None:
    sentence = (
        f"no live process owns run {RUN}, so nothing of it is running: "
        f"`pinata rerun {RUN}` starts again what was lost, "
        f"`pinata resume {RUN}` goes on without it"
    )
    left = LinkV1(run=RUN, socket=str(linked.folder.path / "x.sock"), token="0" * 64, pid=1)
    for data in (None, b"damaged", encode_link(left)):
        if data is not None:
            linked.folder.link_file.write_bytes(data)
        with pytest.raises(NoLinkError) as refused:
            async with open_link(linked.folder):
                raise AssertionError
        assert str(refused.value) == sentence


async def test_a_link_that_was_replaced_meanwhile_leads_nowhere(linked: Linked) -> None:
    async with linked.served():
        old = (await linked.link()).model_copy(update={"token": "0" * 64})
        await trio.to_thread.run_sync(linked.folder.link_file.write_bytes, encode_link(old))
        with pytest.raises(NoLinkError):
            async with open_link(linked.folder):
                raise AssertionError


async def test_an_owner_that_dies_is_told_to_all_who_wait(linked: Linked) -> None:
    linked.may_cancel = trio.Event()
    watcher = Watcher()
    lost: list[PinataError] = []

    async def lose(ask: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(LinkLostError) as caught:
            await ask()
        lost.append(caught.value)

    async def die(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with linked.served():
                task_status.started(scope)
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        owner: trio.CancelScope = await nursery.start(die)
        async with open_link(linked.folder) as link:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(lose, partial(link.watch, watcher))
                waiting.start_soon(lose, link.cancel)
                await trio.testing.wait_all_tasks_blocked(0.05)
                owner.cancel()
            await lose(link.cancel)
            await lose(partial(link.watch, watcher))
    assert len(lost) == 4


@asynccontextmanager
async def pretender(
    linked: Linked, *frames: Frame, stays: bool = False
) -> AsyncIterator[LinkClient]:
    """Be connected to somebody who says anything once it has heard a hello."""
    async with (
        open_listener(linked.folder.path, "link.sock", linked.folder.path) as listening,
        trio.open_nursery() as nursery,
    ):
        link = LinkV1(run=RUN, socket=str(listening.path), token="0" * 64, pid=os.getpid())
        await trio.to_thread.run_sync(linked.folder.link_file.write_bytes, encode_link(link))

        async def pretend() -> None:
            async with await listening.listener.accept() as stream:
                await FrameReader(stream, 1_000).receive()
                for frame in frames:
                    await send_frame(stream, frame, patience_s=1)
                if stays:
                    await trio.sleep_forever()

        nursery.start_soon(pretend)
        async with open_link(linked.folder) as client:
            yield client
        nursery.cancel_scope.cancel()


WELCOME: Frame = {"type": "welcome", "v": 1, "run": RUN}


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "song"},
        {"no": "type"},
        {"type": "snapshot", "run": {}, "view": {}},
        {"type": "snapshot"},
        {"type": "events", "events": 5},
        {"type": "events", "events": [5]},
        {"type": "note", "event": {"v": 1}},
        {
            "type": "note",
            "event": {"v": 1, "seq": 0, "run": RUN, "at": 0, "type": "run_started", "taskCount": 1},
        },
        {"type": "error", "error": "unknown frame", "kind": "external"},
        {"type": "done", "id": 0, "ended": False},
        {"type": "done", "id": "x"},
    ],
)
async def test_an_owner_that_talks_nonsense_is_given_up(linked: Linked, frame: Frame) -> None:
    async with pretender(linked, WELCOME, frame) as link:
        with pytest.raises(LinkLostError):
            await link.watch(Watcher())


@pytest.mark.parametrize(
    "answer",
    [
        {"type": "error", "id": 0},
        {"type": "error", "id": 0, "kind": "sad", "error": "x"},
        {"type": "messages", "id": 0, "messages": [{"role": "x"}]},
        {"type": "messages", "id": 0, "messages": 5},
    ],
)
async def test_an_answer_without_sense_is_none(linked: Linked, answer: Frame) -> None:
    go = trio.Event()

    async with (
        open_listener(linked.folder.path, "link.sock", linked.folder.path) as listening,
        trio.open_nursery() as nursery,
    ):
        link = LinkV1(run=RUN, socket=str(listening.path), token="0" * 64, pid=1)
        await trio.to_thread.run_sync(linked.folder.link_file.write_bytes, encode_link(link))

        async def pretend() -> None:
            async with await listening.listener.accept() as stream:
                reader = FrameReader(stream, 1_000)
                assert await reader.receive()
                await send_frame(stream, WELCOME, patience_s=1)
                assert await reader.receive()
                await send_frame(stream, answer, patience_s=1)
                await go.wait()

        nursery.start_soon(pretend)
        async with open_link(linked.folder) as client:
            with pytest.raises(LinkLostError):
                await client.cancel()
        go.set()


class Broken(trio.abc.SendStream):
    """Takes nothing any more."""

    async def send_all(self, data: object) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_the_last_words_of_an_owner_that_hears_nothing_any_more_are_heard(
    linked: Linked,
) -> None:
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    run = linked.linked_run()
    shown = {"run": encode_facts(run.facts), "view": encode_view(run.view)}
    for frame in ({"type": "snapshot", "seq": run.view.seq, **shown}, {"type": "ended"}):
        await ours.send_all(encode_frame(frame))
    await ours.aclose()
    stream, watcher = trio.StapledStream(Broken(), theirs), Watcher()
    async with trio.open_nursery() as nursery:
        client = LinkClient(RUN, stream, FrameReader(theirs, 1 << 20))
        nursery.start_soon(client.receive_all)
        await client.watch(watcher)
        assert watcher.view == linked.view
        with pytest.raises(LinkLostError):
            await client.cancel()


async def test_a_question_to_an_owner_that_hears_nothing_is_lost(linked: Linked) -> None:
    _, theirs = trio.testing.memory_stream_one_way_pair()
    stream = trio.StapledStream(Broken(), theirs)
    client = LinkClient(RUN, stream, FrameReader(theirs, 1 << 20))
    with pytest.raises(LinkLostError):
        await client.cancel()


async def test_a_refusal_at_the_door_is_passed_on(linked: Linked) -> None:
    refusal = {"type": "error", "error": "run x has 32 viewers already", "kind": "conflict"}
    with pytest.raises(ExceptionGroup) as refused:
        async with pretender(linked, refusal):
            raise AssertionError
    (error,) = refused.value.exceptions
    assert isinstance(error, ConflictError)
    assert str(error) == "run x has 32 viewers already"


async def test_an_owner_that_is_silent_is_waited_for_no_longer_than_a_moment(
    linked: Linked, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(ExceptionGroup) as refused:
        async with pretender(linked, stays=True):
            raise AssertionError
    (error,) = refused.value.exceptions
    assert isinstance(error, LinkLostError)


async def test_an_unreachable_folder_is_an_error_of_the_machine(linked: Linked) -> None:
    loop = linked.folder.path / "loop"
    loop.symlink_to(loop)
    left = LinkV1(run=RUN, socket=str(loop), token="0" * 64, pid=1)
    linked.folder.link_file.write_bytes(encode_link(left))
    with pytest.raises(ExternalError, match="cannot connect"):
        async with open_link(linked.folder):
            raise AssertionError
