"""A host as its clients see it: who is let in, attached, displaced, and when it goes."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.errors import ConflictError
from engine.core.ids import RunId
from engine.records.host import hello
from pinata.work.frames import encode_frame
from pinata.work.host_greeting import HELLO_LIMIT_BYTES, MOST_STRANGERS
from pinata.work.host_seat import PATIENCE_S
from pinata.work.host_server import FRAME_LIMIT_BYTES, HOMECOMING_WAIT_S
from tests.support.hosts import KEY, TOKEN, Client, Host, Settled, Stage, played_host

HELLO = hello(TOKEN, "session", KEY)


async def test_client_is_welcomed_with_the_tools_and_what_it_should_know() -> None:
    async def come_home() -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return ("run ab is owned by process 7",)

    async with played_host(come_home=come_home) as host:
        client = host.connect()
        await client.send(**HELLO, mode="tui", trust=True)
        assert await client.expect("welcome") == {
            "type": "welcome",
            "v": 1,
            "pinata": "1.2.3",
            "tools": [{"name": "pinata_fly"}],
            "notices": ["run ab is owned by process 7"],
        }


async def test_homecoming_that_takes_long_holds_up_no_welcome(autojump_clock: MockClock) -> None:
    async with played_host(come_home=trio.sleep_forever) as host:
        await host.attach()
        assert trio.current_time() == HOMECOMING_WAIT_S


async def test_homecoming_that_fails_is_told_and_ends_nothing() -> None:
    async def come_home() -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        raise ConflictError("the disk is gone")

    async with played_host(come_home=come_home) as host:
        client = host.connect()
        await client.send(**HELLO)
        (notice,) = (await client.expect("welcome"))["notices"]
        assert notice == "runs of this session could not be looked after: the disk is gone"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff\xfe\n",
        b'{"type": "hello"',
        b"[]\n",
        b"{}\n",
        encode_frame({"type": "ack", "delivery": "a/1"}),
        encode_frame({**HELLO, "token": "wrong"}),
        encode_frame({**HELLO, "token": "\udcff" * 43}),
        encode_frame({**HELLO, "token": 7}),
        encode_frame({**HELLO, "pad": "x" * HELLO_LIMIT_BYTES}),
        b"x" * (HELLO_LIMIT_BYTES + 1),
    ],
    ids=[
        "nothing",
        "garbage",
        "half a frame",
        "no object",
        "no hello",
        "ack first",
        "wrong token",
        "odd token",
        "no text as token",
        "long hello",
        "no end of line",
    ],
)
async def test_stranger_is_closed_without_a_word(data: bytes, autojump_clock: MockClock) -> None:
    async with played_host() as host:
        stranger = host.connect()
        await stranger.stream.send_all(data)
        assert await stranger.receive() is None
        await host.attach()


async def test_silent_strangers_are_closed_and_too_many_of_them_at_once(
    autojump_clock: MockClock,
) -> None:
    async with played_host() as host:
        strangers = [host.connect() for _ in range(MOST_STRANGERS)]
        await wait_all_tasks_blocked()
        assert await host.connect().receive() is None
        assert trio.current_time() == 0
        for stranger in strangers:
            assert await stranger.receive() is None
        assert trio.current_time() == 5
        await host.attach()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"v": 2}, "hello: v: 2 is not one of the known values"),
        ({"session": "other"}, "hello: this is the host of another session"),
        ({"cwd": "here"}, "hello: cwd:"),
    ],
    ids=["version", "session", "cwd"],
)
async def test_client_that_knows_the_token_hears_why_it_is_not_served(
    change: dict[str, Any], says: str
) -> None:
    async with played_host() as host:
        client = host.connect()
        await client.send(**(HELLO | change))
        assert (await client.expect("refused"))["error"].startswith(says)
        assert await client.receive() is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            encode_frame({"type": "fly"}),
            "a frame must be one of call, cancel, ",
        ),
        (
            encode_frame({"type": "cancel"}),
            "cancel: id is missing; it must be a number, or text of 1 to 200 characters",
        ),
        (b"garbage\n", "a frame is not a line of JSON in UTF-8"),
        (b"x" * (FRAME_LIMIT_BYTES + 1), f"a frame is longer than {FRAME_LIMIT_BYTES:,} bytes"),
    ],
    ids=["unknown", "incomplete", "garbage", "no end of line"],
)
async def test_client_that_sends_what_is_no_frame_hears_so_and_is_closed(
    data: bytes, says: str
) -> None:
    async with played_host() as host:
        client = await host.attach()
        await client.stream.send_all(data)
        assert (await client.expect("refused"))["error"].startswith(says)
        assert await client.receive() is None


async def test_frame_that_a_newer_client_sends_is_answered_and_ends_nothing() -> None:
    async with played_host() as host:
        client = await host.attach()
        await client.send(type="fly", id=7, far=True)
        told = await client.expect("error")
        assert (told["id"], told["error"].partition(";")[0]) == (7, 'unknown frame "fly"')
        await client.silence()


async def test_last_client_is_served_and_the_one_before_is_told() -> None:
    async with played_host() as host:
        first, second = await host.attach(), await host.attach()
        told = await first.expect("displaced")
        assert told["reason"] == "another client of this session has attached"
        assert await first.receive() is None
        await second.send(type="call", id=1, tool="look", arguments={})
        await wait_all_tasks_blocked()
        host.stage.end(0)
        await second.expect("result")
        await second.silence()


async def test_client_that_takes_nothing_is_let_go_and_holds_nobody_up(
    autojump_clock: MockClock,
) -> None:
    async with played_host() as host:
        deaf = trio.testing.lockstep_stream_pair()
        host.nursery.start_soon(host.server.converse, deaf[1])
        await deaf[0].send_all(encode_frame(HELLO))
        await wait_all_tasks_blocked()
        second = await host.attach()
        assert trio.current_time() == 0
        await second.send(type="call", id=1, tool="look", arguments={})
        await wait_all_tasks_blocked()
        host.stage.end(0)
        await second.expect("result")
        await trio.sleep(PATIENCE_S + 1)
        with pytest.raises(trio.BrokenResourceError):
            await deaf[0].send_all(b"x")


async def test_fault_in_what_a_client_sends_ends_its_connection_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with played_host(owed=[Settled(RunId("a" * 16))]) as host:
        first = await host.attach()
        told = await first.expect("delivery")
        host.debts.failure = ZeroDivisionError("bug")
        await first.send(type="ack", delivery=told["delivery"])
        assert (await first.expect("refused"))["error"] == (
            "a fault of pinata has ended this connection; the log of the host tells more"
        )
        assert await first.receive() is None
        assert "ZeroDivisionError" in caplog.text
        # Looking for what is owed fails in the same way, and holds up nobody.
        second = await host.attach()
        await second.silence()
        host.debts.failure = None
        host.server.look()
        await second.expect("delivery")


async def test_fault_before_a_client_is_known_ends_its_connection_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with played_host() as host:
        with monkeypatch.context() as patched:
            patched.setattr("pinata.work.host_greeting.decode_hello", fail)
            stranger = host.connect()
            await stranger.send(**HELLO)
            assert await stranger.receive() is None
        assert "ZeroDivisionError" in caplog.text
        await host.attach()


async def test_client_that_does_not_listen_keeps_nobody_from_the_last_words(
    autojump_clock: MockClock,
) -> None:
    async with played_host() as host:
        deaf = trio.testing.lockstep_stream_pair()
        host.nursery.start_soon(host.server.converse, deaf[1])
        await deaf[0].send_all(encode_frame(HELLO))
        await wait_all_tasks_blocked()
        client = await host.attach()
        await host.server.say_goodbye()
        assert (await client.expect("refused"))["error"] == "the host of this session was ended"


async def quit_with(client: Client, reason: str) -> None:
    await client.send(type="goodbye", reason=reason)
    assert await client.receive() is None


async def test_host_that_nobody_attaches_to_leaves(autojump_clock: MockClock) -> None:
    async with played_host() as host:
        await host.server.wait_left()
        assert trio.current_time() == 60


async def test_goodbye_for_good_ends_the_host_at_once(autojump_clock: MockClock) -> None:
    async with played_host() as host:
        await quit_with(await host.attach(), "quit")
        await host.server.wait_left()
        assert trio.current_time() == 0


@pytest.mark.parametrize("reason", ["reload", "new", "resume", "fork"])
async def test_session_that_comes_back_in_time_finds_its_work(
    reason: str, autojump_clock: MockClock
) -> None:
    async with played_host() as host:
        host.runs.mortal = 1
        await quit_with(await host.attach(), reason)
        await trio.sleep(59)
        client = await host.attach()
        await trio.sleep(1000)
        assert host.runs.reasons == []
        await client.stream.aclose()
        await trio.sleep(59)
        assert host.runs.reasons == []
        await host.server.wait_left()
        assert host.runs.reasons[0] == "the session has been away for 60 s"


async def test_surviving_run_keeps_the_host_and_others_are_cancelled_at_once(
    autojump_clock: MockClock,
) -> None:
    async with played_host() as host:
        host.runs.mortal, host.runs.surviving = 1, 1
        await quit_with(await host.attach(), "quit")
        await wait_all_tasks_blocked()
        assert set(host.runs.reasons) == {"the session has ended"}
        assert host.runs.mortal == 0
        await trio.sleep(10_000)
        assert not await host.has_left()
        await quit_with(await host.attach(), "quit")
        host.runs.end()
        await host.server.wait_left()


async def test_runs_that_a_homecoming_begins_after_the_goodbye_are_cancelled_too() -> None:
    go = trio.Event()

    async def come_home() -> Sequence[str]:
        await go.wait()
        host.runs.mortal = 1
        return ()

    async with played_host(come_home=come_home) as host:
        client = host.connect()
        await client.send(**HELLO)
        await client.send(type="goodbye", reason="quit")
        client.reader.limit_bytes = 1 << 20
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        assert not await host.has_left()
        go.set()
        await host.server.wait_left()
        assert host.runs.mortal == 0


async def test_goodbye_of_a_client_that_is_gone_already_counts(autojump_clock: MockClock) -> None:
    async with played_host() as host:
        client = await host.attach()
        host.runs.mortal = 1
        for _ in range(2):
            await client.send(type="call", id=1, tool="look", arguments={})
        await client.send(type="goodbye", reason="quit")
        # The answer to the second call, whose id is taken, goes nowhere.
        await client.stream.aclose()
        await host.server.wait_left()
        assert host.runs.reasons[0] == "the session has ended"
        assert trio.current_time() < 2


async def test_session_that_comes_back_before_a_homecoming_is_over_keeps_its_runs() -> None:
    go = trio.Event()

    async def come_home() -> Sequence[str]:
        await go.wait()
        host.runs.mortal = 1
        return ()

    async with played_host(come_home=come_home) as host:
        first, second = host.connect(), host.connect()
        await first.send(**HELLO)
        await wait_all_tasks_blocked()
        await second.send(**HELLO)
        # The first one was displaced before it was welcomed.
        assert (await first.expect("displaced"))["reason"].startswith("another client")
        go.set()
        await second.expect("welcome")
        await second.send(type="goodbye", reason="reload")
        assert await second.receive() is None
        await host.attach()
        assert host.runs.reasons == []
        assert not await host.has_left()


async def test_session_that_quits_and_is_back_during_a_homecoming_keeps_what_it_begins(
    autojump_clock: MockClock,
) -> None:
    go = trio.Event()

    async def come_home() -> Sequence[str]:
        await go.wait()
        host.runs.mortal = 1
        return ()

    async with played_host(come_home=come_home) as host:
        await quit_with(await host.attach(), "quit")
        await host.attach()
        go.set()
        await trio.sleep(1000)
        # What was under way was cancelled at once; nothing is after the session is back.
        assert host.runs.reasons == ["the session has ended"]
        assert host.runs.mortal == 1


async def test_stopping_tells_the_client_and_ends_its_calls() -> None:
    async with played_host() as host:
        client = await host.attach()
        await client.send(type="call", id=1, tool="look", arguments={})
        await wait_all_tasks_blocked()
        host.server.stop()
        await host.server.wait_left()
        host.nursery.start_soon(host.server.say_goodbye)
        assert (await client.expect("refused"))["error"] == "the host of this session was ended"
        # It is gone already for whoever comes now.
        late = host.connect()
        await late.send(**HELLO)
        assert await late.receive() is None
    assert host.stage.cancelled == ["given up"]


async def idle_s(host: Host) -> float:
    await wait_all_tasks_blocked(0.01)
    return trio.lowlevel.current_statistics().seconds_to_next_deadline


async def test_host_with_a_client_and_no_work_has_no_timer() -> None:
    async with played_host(Stage()) as host:
        assert 50 < await idle_s(host) <= 60
        client = await host.attach()
        assert await idle_s(host) == float("inf")
        await client.send(type="call", id=1, tool="look", arguments={})
        await wait_all_tasks_blocked()
        host.stage.end(0)
        await client.expect("result")
        assert await idle_s(host) == float("inf")
        await client.stream.aclose()
        assert 50 < await idle_s(host) <= 60
        await host.attach()
        assert await idle_s(host) == float("inf")


async def test_nudge_is_taken_and_closed_without_a_word() -> None:
    async with played_host() as host:
        client = await host.attach()
        nudge = host.connect()
        await nudge.send(**hello(TOKEN, "nudge", KEY))
        assert await nudge.receive() is None
        await client.silence()
