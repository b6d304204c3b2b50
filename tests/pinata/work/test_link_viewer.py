"""What one connection is shown and may ask, over streams in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.core.events import (
    CheckoutChanged,
    Event,
    RunResumed,
    RunSettled,
    TaskQueued,
    TextDelta,
    ToolStarted,
    UsageReported,
)
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.core.view import RunView
from engine.records.event import decode_logged
from engine.records.view import decode_view
from pinata.work import link_viewer
from pinata.work.link_admission import admit
from pinata.work.link_viewer import Bounds, serve_viewer
from pinata.work.linked_run import LinkedRun
from tests.support.linked import (
    ENDING,
    JUDGE,
    LOOK,
    LOOK1,
    OPENING,
    RUN,
    Frame,
    Linked,
    Peer,
    session_line,
)

TOOL = ToolStarted(LOOK1, "c", "bash", "make")
USAGE = UsageReported(LOOK1, 1, 1, 10, 5, 0.5)


@pytest.fixture
def linked(tmp_path: Path) -> Linked:
    return Linked.create(tmp_path)


async def serve(run: LinkedRun, stream: trio.abc.Stream) -> None:
    admitted = await admit(run, stream)
    if admitted is not None:
        await serve_viewer(run, stream, *admitted, bounds=Bounds())
    await trio.aclose_forcefully(stream)


@asynccontextmanager
async def stranger(run: LinkedRun) -> AsyncIterator[Peer]:
    """Have a connection inside the block about which nothing is known yet."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, run, theirs)
        yield Peer(ours)
        await ours.aclose()


@asynccontextmanager
async def viewer(run: LinkedRun, role: str = "viewer") -> AsyncIterator[Peer]:
    """Have a connection inside the block that was let in."""
    async with stranger(run) as peer:
        await peer.hello(run.token, role=role)
        assert await peer.hear() == {"type": "welcome", "v": 1, "run": RUN}
        yield peer


async def hear_events(peer: Peer, count: int) -> list[Event]:
    """Return the next events, which come without a snapshot between them."""
    found: list[Event] = []
    while len(found) < count:
        frame = await peer.hear()
        assert frame is not None
        assert frame["type"] == "events"
        found += [decode_logged(each, run=RUN).event for each in frame["events"]]
    return found


def view_in(frame: Frame | None) -> RunView:
    assert frame is not None
    assert frame["type"] == "snapshot"
    return decode_view(frame["view"])


async def test_a_viewer_is_shown_how_the_run_stands_and_what_happens_then(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run) as peer:
        snapshot = await peer.hear()
        assert snapshot is not None
        assert snapshot["seq"] == 3
        assert snapshot["run"] == {
            "run": RUN,
            "folder": str(linked.folder.path),
            "startedAtMs": 1_000,
            "agents": {"look": "scout", "judge": "reviewer"},
            "after": {"look": [], "judge": ["look"]},
            "notices": ["mind the step"],
        }
        view = view_in(snapshot)
        assert view == linked.view
        linked.tell(*ENDING)
        frame = await peer.hear()
        assert frame is not None
        for each in frame["events"]:
            view.apply(*decode_logged(each, run=RUN))
        assert view == linked.view
        run.finish()
        assert await peer.hear() == {"type": "ended"}


STORY: tuple[Event, ...] = (
    *OPENING,
    USAGE,
    CheckoutChanged(LOOK1),
    ENDING[0],
    RunSettled(Status.FAILED, "one failed"),
    RunResumed("again"),
    TaskQueued(LOOK),
    RunSettled(Status.SUCCEEDED),
)


@pytest.mark.parametrize("joined_at", range(len(STORY) + 1))
async def test_whoever_comes_at_any_moment_ends_with_the_owners_view(
    linked: Linked, joined_at: int
) -> None:
    run = linked.linked_run()
    linked.tell(*STORY[:joined_at])
    async with viewer(run) as peer:
        view = view_in(await peer.hear())
        for event in STORY[joined_at:]:
            linked.tell(event)
            await trio.testing.wait_all_tasks_blocked()
        run.finish()
        while (frame := await peer.hear()) != {"type": "ended"}:
            assert frame is not None
            for each in frame["events"]:
                view.apply(*decode_logged(each, run=RUN))
    assert view == linked.view


async def test_what_a_lean_log_leaves_out_is_noted_as_it_happens(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    linked.note(TextDelta(LOOK1, "hm"), USAGE, TOOL)
    async with viewer(run) as peer:
        await peer.hear_type("snapshot")
        begun = [await peer.hear_type("note") for _ in range(2)]
        linked.note(TextDelta(LOOK1, "so"))
        linked.tell(CheckoutChanged(LOOK1))
        linked.note(TextDelta(LOOK1, "!"))
        later = [await peer.hear() for _ in range(3)]
    noted = [decode_logged(frame["event"], run=RUN).event for frame in begun]
    assert noted == [TOOL, USAGE]
    assert [frame and frame["type"] for frame in later] == ["note", "events", "note"]


async def test_what_a_full_log_holds_is_not_sent_twice(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run(is_lean=False)
    linked.note(TOOL)
    async with viewer(run) as peer:
        await peer.hear_type("snapshot")
        linked.note(TOOL)
        linked.tell(TOOL)
        assert await hear_events(peer, 1) == [TOOL]


async def test_events_that_come_together_travel_together(linked: Linked) -> None:
    run = linked.linked_run()
    async with viewer(run) as peer:
        await peer.hear_type("snapshot")
        await trio.testing.wait_all_tasks_blocked()
        linked.tell(*OPENING)
        frame = await peer.hear()
        assert frame is not None
        assert len(frame["events"]) == len(OPENING)


async def test_whoever_acknowledges_nothing_begins_anew_and_then_lives_on(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run) as peer:
        await peer.hear_type("snapshot")
        changes = [TaskQueued(TaskId(f"t{number}")) for number in range(1_100)]
        linked.tell(*changes[:900])
        assert await hear_events(peer, 900) == changes[:900]
        linked.tell(*changes[900:])
        assert view_in(await peer.hear()) == linked.view
        linked.tell(*ENDING)
        assert await hear_events(peer, 2) == [*ENDING]


async def test_whoever_acknowledges_is_told_all(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run) as peer:
        await peer.hear_type("snapshot")
        for _ in range(5):
            changes = [TaskQueued(TaskId(f"t{number}")) for number in range(900)]
            linked.tell(*changes)
            assert await hear_events(peer, 900) == changes
            await peer.say({"type": "ack", "seq": linked.view.seq})
            await trio.testing.wait_all_tasks_blocked()


async def test_what_fell_out_of_the_ring_is_made_up_for(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run) as peer:
        await peer.hear_type("snapshot")
        await trio.testing.wait_all_tasks_blocked()
        linked.note(*(TextDelta(LOOK1, "x" * 4_000) for _ in range(2_000)))
        assert view_in(await peer.hear()) == linked.view


async def test_a_run_that_goes_on_is_shown_anew(linked: Linked) -> None:
    linked.tell(*OPENING, *ENDING)
    run = linked.linked_run()
    run.finish()
    assert run.is_leaving  # nothing of it happened here
    linked.tell(RunResumed("again"))
    run.reopen(linked.opened)
    async with viewer(run) as peer:
        assert view_in(await peer.hear()).settled_at_ms is None
        linked.tell(RunSettled(Status.FAILED))
        run.finish()
        assert (await peer.hear_type("ended")) == {"type": "ended"}
        run.reopen(linked.opened)
        assert view_in(await peer.hear()) == linked.view
        linked.tell(RunResumed("once more"), RunSettled(Status.SUCCEEDED))
        run.finish()
        assert await hear_events(peer, 2) == [
            RunResumed("once more"),
            RunSettled(Status.SUCCEEDED),
        ]
        assert await peer.hear() == {"type": "ended"}


async def test_a_viewer_of_a_run_that_broke_off_is_told_no_end(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run) as peer:
        await peer.hear_type("snapshot")
        linked.tell(CheckoutChanged(LOOK1))
        run.finish()
        frames = await peer.hear_all()
    assert [frame["type"] for frame in frames] == ["events"]
    assert run.unneeded.is_set()


async def test_the_last_viewer_of_a_settled_run_ends_its_link(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run) as first, viewer(run, "coordinator"):
        await first.hear_type("snapshot")
        linked.tell(*ENDING)
        run.finish()
        await first.hear_type("ended")
        assert not run.unneeded.is_set()
    assert run.unneeded.is_set()
    assert run.ring.start == run.ring.end


async def test_a_coordinator_is_shown_nothing_and_is_heard(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run, "coordinator") as peer:
        linked.tell(CheckoutChanged(LOOK1))
        await peer.say({"type": "steer", "id": 1, "task": "look", "text": "Hm."})
        assert await peer.hear() == {"type": "done", "id": 1}
        run.leave()
        assert await peer.hear() is None
    assert linked.told == [(LOOK, "Hm.", False, "parent")]


async def test_what_a_person_says_is_the_users(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run, "user") as peer, viewer(run) as other:
        for each in (peer, other):
            await each.say(
                {"type": "steer", "id": 7, "task": "look", "text": "So?", "followUp": True}
            )
            assert await each.hear_type("done") == {"type": "done", "id": 7}
    assert linked.told == 2 * [(LOOK, "So?", True, "user")]


async def test_errors_of_the_run_come_back_and_keep_the_connection(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run, "user") as peer:
        for frame, kind, says in (
            ({"type": "steer", "task": "look", "text": " "}, "usage", "the message is blank"),
            ({"type": "steer", "task": "judge", "text": "x"}, "conflict", "is queued"),
            ({"type": "cancel", "task": "nosuch"}, "usage", '"nosuch" is not a task'),
            ({"type": "messages", "task": "look"}, "usage", "there is no conversation"),
        ):
            await peer.say({**frame, "id": 3})
            answer = await peer.hear()
            assert answer is not None
            assert says in answer.pop("error")
            assert answer == {"type": "error", "id": 3, "kind": kind}
        await peer.say({"type": "cancel", "id": 4})
        assert await peer.hear() == {"type": "done", "id": 4, "ended": False}


async def test_cancelling_tells_whether_the_end_has_come(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    linked.cancelling = (RunSettled(Status.CANCELLED),)
    async with viewer(run, "coordinator") as peer, viewer(run, "user") as user:
        await user.say({"type": "cancel", "id": 1, "task": "judge"})
        assert await user.hear() == {"type": "done", "id": 1, "ended": False}
        await peer.say({"type": "cancel", "id": 1})
        assert await peer.hear() == {"type": "error", "id": 1, "kind": "conflict"} | {
            "error": f"run {RUN} is cancelled already: there is nothing to cancel"
        }
    assert linked.asked == [(JUDGE, "cancelled by the user, from another process")]


async def test_cancelling_at_the_last_moment_finds_that_it_has_come(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    linked.cancelling = (RunSettled(Status.CANCELLED),)
    async with viewer(run, "coordinator") as peer:
        await peer.say({"type": "cancel", "id": 1})
        assert await peer.hear() == {"type": "done", "id": 1, "ended": True}
    assert linked.asked == [(None, "cancelled by the coordinator")]


async def test_a_conversation_comes_in_parts_that_are_not_long(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    texts = ["brief", "a" * 200_000, "b" * 200_000, "c" * 300_000, "end"]
    lines = "".join(session_line("assistant", text) for text in texts)
    path = linked.folder.transcript_file(LOOK1)
    await trio.to_thread.run_sync(path.write_text, lines)
    async with viewer(run, "user") as peer:
        await peer.say({"type": "messages", "id": 9, "task": "look", "attempt": 1})
        parts = [await peer.hear_type("messages") for _ in range(4)]
        assert await peer.hear() == {"type": "done", "id": 9}
        await peer.say({"type": "messages", "id": 10, "task": "look", "attempt": 2})
        refused = await peer.hear_type("error")
    assert [[len(each["text"]) for each in part["messages"]] for part in parts] == [
        [5, 200_000],
        [200_000],
        [300_000],
        [3],
    ]
    assert refused["error"] == "there is no attempt 2 at the task: it has attempt 1 alone"


async def test_damage_of_a_conversation_is_told_as_damage(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    path = linked.folder.transcript_file(LOOK1)
    await trio.to_thread.run_sync(path.write_text, "nonsense\n")
    async with viewer(run, "user") as peer:
        await peer.say({"type": "messages", "id": 1, "task": "look"})
        assert (await peer.hear_type("error"))["kind"] == "corruption"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"nonsense\n", id="nonsense"),
        pytest.param(b'{"type":"hello"}\n', id="hello-again"),
        pytest.param(b'{"type":"steer","id":1}\n', id="a-field-is-missing"),
        pytest.param(b'{"type":"abort","id":1}\n', id="unknown"),
        pytest.param(b"x" * (600 << 10) + b"\n", id="too-long"),
    ],
)
async def test_nonsense_of_one_who_was_let_in_ends_the_connection(
    linked: Linked, line: bytes
) -> None:
    run = linked.linked_run()
    async with viewer(run, "user") as peer:
        await peer.stream.send_all(line)
        told = await peer.hear_all()
    assert [(frame["type"], frame["kind"]) for frame in told] == [("error", "external")]
    assert run.viewers == 0


async def test_the_longest_message_there_may_be_can_be_sent(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run, "user") as peer:
        await peer.say({"type": "steer", "id": 1, "task": "look", "text": "\x01" * (64 << 10)})
        assert await peer.hear() == {"type": "done", "id": 1}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"token": "0" * 64}, id="wrong-token"),
        pytest.param({"token": "\ud800" * 64}, id="token-that-is-no-text"),
        pytest.param({"run": "f" * 16}, id="wrong-run"),
        pytest.param({"v": 2}, id="wrong-version"),
        pytest.param({"role": "owner"}, id="wrong-role"),
        pytest.param({"type": "ack", "seq": 1}, id="ack-first"),
    ],
)
async def test_whoever_begins_wrongly_is_left_without_an_answer(
    linked: Linked, other: dict[str, object]
) -> None:
    run = linked.linked_run()
    async with stranger(run) as peer:
        await peer.hello(run.token, **other)
        assert await peer.hear() is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00\xff\n", id="garbage"),
        pytest.param(b'{"type":"hel', id="half-a-frame"),
        pytest.param(b"x" * (65 << 10), id="too-much"),
    ],
)
async def test_whoever_talks_nonsense_is_left_without_an_answer(
    linked: Linked, data: bytes
) -> None:
    run = linked.linked_run()
    async with stranger(run) as peer:
        await peer.stream.send_all(data)
        assert isinstance(peer.stream, trio.StapledStream)
        await peer.stream.send_eof()
        assert await peer.hear() is None


async def test_whoever_says_nothing_is_left_after_five_seconds(
    linked: Linked, autojump_clock: trio.testing.MockClock
) -> None:
    run, began_s = linked.linked_run(), trio.current_time()
    async with stranger(run) as peer:
        await peer.stream.send_all(b'{"type":')
        assert await peer.hear() is None
        assert trio.current_time() - began_s == pytest.approx(5)


async def test_there_is_room_for_orders_where_there_is_none_for_viewers(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_viewer, "MOST_VIEWERS", 1)
    linked.tell(*OPENING)
    run = linked.linked_run()
    async with viewer(run), stranger(run) as refused, viewer(run, "user") as user:
        await refused.hello(run.token)
        assert await refused.hear_all() == [
            {
                "type": "error",
                "error": f"run {RUN} has 1 viewers already: close one of them",
                "kind": "conflict",
            }
        ]
        await user.say({"type": "cancel", "id": 1})
        assert await user.hear() == {"type": "done", "id": 1, "ended": False}


async def test_whoever_reads_nothing_is_left_and_slows_nothing(
    linked: Linked, autojump_clock: trio.testing.MockClock
) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, run, theirs)
        deaf = Peer(ours)
        await deaf.hello(run.token)
        assert await deaf.hear_type("snapshot")
        began_s = trio.current_time()
        for number in range(5_000):
            linked.tell(TaskQueued(TaskId(f"t{number}")))
        assert trio.current_time() == began_s
    assert 0 < trio.current_time() - began_s < 15
    assert run.viewers == 0


async def test_an_answer_that_is_due_is_given_before_the_link_ends(linked: Linked) -> None:
    linked.tell(*OPENING)
    run = linked.linked_run()
    linked.may_cancel = go = trio.Event()
    async with viewer(run, "user") as peer:
        await peer.say({"type": "cancel", "id": 1})
        await trio.testing.wait_all_tasks_blocked()
        run.leave()
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        assert await peer.hear() == {"type": "done", "id": 1, "ended": False}
        assert await peer.hear() is None
