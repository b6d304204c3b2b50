"""The socket of a run: what lies on disk, for how long, and who cannot do what to it."""

import json
import math
import os
import socket
import stat
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.core.events import RunResumed, TaskQueued, TextDelta
from engine.core.ids import TaskId
from engine.records.link import LinkV1, encode_link
from engine.system.sockets import NobodyListensError, connect
from pinata.work import link, link_admission
from pinata.work.link import MOST_STRANGERS, open_links
from tests.support.linked import ENDING, LOOK, LOOK1, OPENING, RUN, Linked, Peer

NAME = "link.sock"


@pytest.fixture
def linked(tmp_path_factory: pytest.TempPathFactory) -> Linked:
    linked = Linked.create(tmp_path_factory.mktemp("r"))
    linked.tell(*OPENING)
    return linked


async def join(linked: Linked, role: str = "viewer") -> Peer:
    """Return a connection that was let in."""
    found = await linked.link()
    peer = Peer(await connect(Path(found.socket)))
    await peer.hello(found.token, role=role)
    await peer.hear_type("welcome")
    return peer


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def left(linked: Linked) -> list[str]:
    """Return what a link would leave in the run's folder."""
    return sorted(name for name in os.listdir(linked.folder.path) if "link" in name)


async def test_a_link_is_there_while_its_run_works_and_only_this_user_can_read_it(
    linked: Linked,
) -> None:
    async with linked.served():
        found = await linked.link()
        path = linked.folder.path
        assert (found.run, found.socket, found.pid) == (RUN, str(path / NAME), os.getpid())
        assert len(bytes.fromhex(found.token)) == 32
        assert mode(path) == 0o700
        assert [mode(path / name) for name in left(linked)] == [0o600, 0o600]
        async with (await join(linked)).stream:
            pass
        linked.tell(*ENDING)
    assert left(linked) == []


async def test_two_runs_have_links_of_their_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # Named shortly, or their sockets would have to lie elsewhere.
    one, other = (Linked.create(tmp_path_factory.mktemp(name)) for name in ("o", "p"))
    async with open_links() as links, one.served(links):
        async with open_links() as others, other.served(others):
            tokens = {(await each.link()).token for each in (one, other)}
            assert len(tokens) == 2
        assert left(other) == []
        assert left(one) == ["link.json", NAME]


async def test_a_run_that_lies_deep_is_reached_elsewhere(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    short = tmp_path_factory.mktemp("t")
    linked = Linked.create(short / ("d" * 60) / ("e" * 60))
    async with linked.served(environment={"XDG_RUNTIME_DIR": str(short)}):
        private = Path((await linked.link()).socket).parent
        assert private.parent == short
        assert mode(private) == 0o700
        assert left(linked) == ["link.json"]
        async with (await join(linked)).stream as stream:
            assert isinstance(stream, trio.SocketStream)
    assert left(linked) == []
    assert not private.exists()


async def test_what_a_dead_owner_left_is_replaced(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    short = tmp_path_factory.mktemp("t")
    linked = Linked.create(short / ("d" * 60) / ("e" * 60))
    private = short / "pinata-old"
    private.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(private / NAME))
    gone = LinkV1(run=RUN, socket=str(private / NAME), token="0" * 64, pid=1)
    linked.folder.link_file.write_bytes(encode_link(gone))
    async with linked.served(environment={"XDG_RUNTIME_DIR": str(short)}):
        assert not private.exists()
        assert (await linked.link()).token != gone.token
    linked.folder.link_file.write_text("damaged")
    async with linked.served(environment={"XDG_RUNTIME_DIR": str(short)}):
        assert (await linked.link()).pid == os.getpid()


@pytest.mark.parametrize("name", ["host.sock", NAME])
async def test_a_link_that_names_the_socket_of_somebody_alive_takes_it_from_nobody(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    short = tmp_path_factory.mktemp("t")
    linked = Linked.create(short / ("d" * 60) / ("e" * 60))
    forged = short / "pinata-host" / name
    forged.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(forged))
        living.listen()
        link = LinkV1(run=RUN, socket=str(forged), token="0" * 64, pid=1)
        linked.folder.link_file.write_bytes(encode_link(link))
        async with linked.served(environment={"XDG_RUNTIME_DIR": str(short)}):
            assert forged.is_socket()


async def test_a_settled_run_stays_until_the_last_viewer_has_left(linked: Linked) -> None:
    async with open_links() as links:
        async with linked.served(links):
            first, second = await join(linked), await join(linked)
            linked.tell(*ENDING)
        await first.hear_type("ended")
        await first.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert left(linked) == ["link.json", NAME]
        async with (await join(linked)).stream:
            pass
        await second.hear_type("ended")
        await second.stream.aclose()
        await gone(linked)


async def gone(linked: Linked) -> None:
    with trio.fail_after(10):
        while left(linked):  # noqa: ASYNC110 - the other side is another task, which tells nobody
            await trio.sleep(0.01)


async def test_a_run_that_goes_on_here_takes_its_viewers_along(linked: Linked) -> None:
    async with open_links() as links:
        async with linked.served(links):
            viewer = await join(linked)
            linked.tell(*ENDING)
        await viewer.hear_type("ended")
        async with linked.served(links):
            linked.tell(RunResumed("repair of look"))
            async with (await join(linked)).stream:
                pass
            await viewer.hear_type("snapshot")
            linked.tell(*ENDING)
        await viewer.hear_type("ended")
        await viewer.stream.aclose()
        await gone(linked)
        # And once more, when nobody was there any more.
        async with linked.served(links), (await join(linked)).stream:
            pass


async def test_a_process_that_ends_says_goodbye(linked: Linked) -> None:
    async with open_links() as links:
        async with linked.served(links):
            viewer, stranger = await join(linked), await connect(linked.folder.path / NAME)
            linked.tell(*ENDING)
        await trio.testing.wait_all_tasks_blocked(0.01)
    async with viewer.stream, stranger:
        frames = await viewer.hear_all()
        assert frames[-1] == {"type": "ended"}
        assert await stranger.receive_some() == b""
    assert left(linked) == []


@pytest.mark.slow
async def test_a_viewer_that_does_not_read_holds_no_process_up(linked: Linked) -> None:
    async with open_links() as links:
        async with linked.served(links):
            deaf = await join(linked)
            await deaf.hear_type("snapshot")
            for number in range(900):
                linked.tell(TaskQueued(TaskId("t" * 2_000 + str(number))))
            linked.tell(*ENDING)
        began_s = trio.current_time()
    assert trio.current_time() - began_s < 9  # it might be let go after ten seconds, else
    assert left(linked) == []
    await deaf.stream.aclose()


async def test_what_another_owner_put_there_is_left_alone(linked: Linked) -> None:
    other = Linked(linked.folder)
    async with open_links() as links:
        async with linked.served(links):
            viewer = await join(linked)
            linked.tell(*ENDING)
        await viewer.hear_type("ended")
        # The run settled and was let go; another process has it now.
        async with other.served():
            theirs = await other.link()
            await viewer.stream.aclose()
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert await other.link() == theirs
            async with (await join(other)).stream:
                pass


async def test_a_run_that_cannot_be_reached_works_all_the_same(
    linked: Linked, caplog: pytest.LogCaptureFixture
) -> None:
    (linked.folder.path / NAME).mkdir()
    async with linked.served():
        linked.tell(*ENDING)
    assert not linked.folder.link_file.exists()
    assert "cannot be reached from other processes" in caplog.text
    assert "is not a socket" in caplog.text


async def test_a_fault_of_ours_leaves_the_run_alone(
    linked: Linked, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def admit(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    monkeypatch.setattr(link, "admit", admit)
    async with linked.served():
        async with await connect(linked.folder.path / NAME) as stream:
            assert await stream.receive_some() == b""
        linked.tell(*ENDING)
    assert "a connection to it broke off" in caplog.text
    caplog.clear()

    def encode(_: LinkV1) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(link, "encode_link", encode)
    async with linked.served():
        linked.tell(*ENDING)
    assert "cannot be reached from other processes any more" in caplog.text
    assert left(linked) == []


async def test_a_run_that_is_cancelled_from_outside_leaves_no_link(linked: Linked) -> None:
    with trio.CancelScope() as scope:
        async with linked.served():
            viewer = await join(linked)
            scope.cancel()
            await trio.sleep_forever()
    assert left(linked) == []
    await viewer.stream.aclose()


async def test_strangers_make_room_for_those_who_come_later(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_admission, "HELLO_DEADLINE_S", 3_600)
    with trio.fail_after(30):
        await crowd(linked)
    assert linked.told == [(LOOK, "Hm.", False, "user")]


async def crowd(linked: Linked) -> None:
    """Have many come who say nothing, and one who does."""
    async with linked.served():
        strangers = [await connect(linked.folder.path / NAME) for _ in range(MOST_STRANGERS * 3)]
        await trio.testing.wait_all_tasks_blocked(0.02)
        async with (await join(linked, "user")).stream as stream:
            peer = Peer(stream)
            await peer.say({"type": "steer", "id": 1, "task": "look", "text": "Hm."})
            assert await peer.hear() == {"type": "done", "id": 1}
        for stranger in strangers[:MOST_STRANGERS]:
            assert await stranger.receive_some() == b""
        for stranger in strangers:
            await stranger.aclose()


async def flood(stream: trio.abc.SendStream, data: bytes, times: int) -> int:
    """Send `data` again and again until nobody takes it; return how many bytes were taken."""
    sent = 0
    with suppress(trio.BrokenResourceError):
        for _ in range(times):
            await stream.send_all(data)
            sent += len(data)
    return sent


async def test_a_gigabyte_without_an_end_costs_nothing(linked: Linked) -> None:
    async with linked.served():
        for peer in (await join(linked, "user"), Peer(await connect(linked.folder.path / NAME))):
            tracemalloc.start()
            sent = await flood(peer.stream, b"x" * (1 << 20), 1_024)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            await peer.stream.aclose()
            assert sent < 64 << 20
            assert peak < 32 << 20


@pytest.mark.slow
async def test_viewers_that_never_read_cost_no_more_than_what_they_share(linked: Linked) -> None:
    async with linked.served() as run:
        deaf = [await join(linked) for _ in range(30)]
        await trio.testing.wait_all_tasks_blocked(0.05)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(3_000):
            linked.note(TextDelta(LOOK1, str(number) * 1_000))
            if number % 100 == 0:
                await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked(0.05)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert run.viewers == 30
        # All that was said, thirty times, would be some hundreds of megabytes.
        assert after - before < 64 << 20
        for peer in deaf:
            await peer.stream.aclose()


async def test_all_that_viewers_do_wrong_is_survived_by_those_who_do_not(linked: Linked) -> None:
    async with linked.served():
        good = await join(linked)
        token = (await linked.link()).token
        hello = json.dumps({"type": "hello", "v": 1, "token": token, "role": "viewer", "run": RUN})
        wrong = [b"", b"\n", b"\xff\n", b"{}\n", hello[:20].encode(), hello.encode() + b"\n{\n"]
        for data in wrong:
            stream = await connect(linked.folder.path / NAME)
            await stream.send_all(data)
            await stream.aclose()
        linked.tell(*ENDING)
        await good.hear_type("events")
        await good.stream.aclose()
    with pytest.raises(NobodyListensError):
        await connect(linked.folder.path / NAME)


async def test_nothing_has_a_timer_while_nothing_happens(linked: Linked) -> None:
    async with linked.served():
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf
        async with (await join(linked)).stream as stream:
            await Peer(stream).hear_type("snapshot")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf
