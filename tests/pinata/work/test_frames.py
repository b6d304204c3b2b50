import json
import tracemalloc
from typing import Any

import pytest
import trio
import trio.testing

from pinata.work.frames import FrameError, FrameReader, encode_frame, send_bytes, send_frame

LIMIT = 1000


class Pair:
    """A stream that can be written to, and a reader at its other end."""

    def __init__(self, limit_bytes: int = LIMIT) -> None:
        self.ours, self.theirs = trio.testing.memory_stream_pair()
        self.reader = FrameReader(self.theirs, limit_bytes)

    async def holding(self, data: bytes) -> "Pair":
        await self.ours.send_all(data)
        await self.ours.send_eof()
        return self


async def test_what_is_sent_arrives_in_order() -> None:
    pair = Pair()
    frames: list[dict[str, Any]] = [
        {"type": "hello", "text": "zwölf\ud800\n"},
        {},
        {"n": 1.5, "deep": [{"a": None}]},
    ]
    for frame in frames:
        await send_frame(pair.ours, frame, patience_s=1)
    await pair.ours.send_eof()
    assert [await pair.reader.receive() for _ in frames] == frames
    assert await pair.reader.receive() is None
    assert await pair.reader.receive() is None


async def test_frames_that_arrive_in_pieces_are_put_together() -> None:
    pair = Pair()
    data = encode_frame({"a": "first"}) + encode_frame({"b": "second"})
    got = []

    async def receive() -> None:
        while (frame := await pair.reader.receive()) is not None:
            got.append(frame)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        for place in range(len(data)):
            await pair.ours.send_all(data[place : place + 1])
            await trio.testing.wait_all_tasks_blocked()
        await pair.ours.send_eof()
    assert got == [{"a": "first"}, {"b": "second"}]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"nonsense", id="no-json"),
        pytest.param(b"", id="empty-line"),
        pytest.param(b"[1]", id="no-object"),
        pytest.param(b'"text"', id="text"),
        pytest.param(b'{"a": "\xff"}', id="no-utf-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), id="utf-16"),
        pytest.param(b'{"a": ' + b"9" * 900 * 10 + b"}", id="a-number-that-takes-too-long"),
        pytest.param(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="too-deep"),
    ],
)
async def test_what_is_no_object_in_json_is_refused(line: bytes) -> None:
    pair = await Pair(1_000_000).holding(line + b"\n")
    with pytest.raises(FrameError, match=r"^a frame is not"):
        await pair.reader.receive()


async def test_a_frame_may_be_as_long_as_the_limit_and_no_longer() -> None:
    longest = json.dumps({"a": "x" * (LIMIT - 9)}).encode()
    assert len(longest) == LIMIT
    pair = await Pair().holding(longest + b"\n" + longest + b" \n")
    assert await pair.reader.receive() == json.loads(longest)
    with pytest.raises(FrameError, match=r"longer than 1,000 bytes"):
        await pair.reader.receive()


async def test_a_limit_that_was_raised_counts_for_the_next_frame() -> None:
    frame = {"a": "x" * 2 * LIMIT}
    pair = await Pair().holding(encode_frame({}) + encode_frame(frame))
    assert await pair.reader.receive() == {}
    pair.reader.limit_bytes = 3 * LIMIT
    assert await pair.reader.receive() == frame


async def test_a_frame_that_never_ends_costs_no_more_than_the_limit() -> None:
    class Endless(trio.abc.ReceiveStream):
        taken = 0

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.lowlevel.checkpoint()
            assert max_bytes is not None
            self.taken += max_bytes
            return b"x" * max_bytes

        async def aclose(self) -> None:
            raise AssertionError

    endless = Endless()
    tracemalloc.start()
    with pytest.raises(FrameError, match="longer than"):
        await FrameReader(endless, 1 << 20).receive()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert endless.taken == (1 << 20) + 1
    assert peak < 8 << 20


async def test_an_end_within_a_frame_is_an_end() -> None:
    pair = await Pair().holding(b'{"a": 1}\n{"b":')
    assert await pair.reader.receive() == {"a": 1}
    assert await pair.reader.receive() is None


async def test_a_connection_that_breaks_is_an_end() -> None:
    class Broken(trio.abc.ReceiveStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError

        async def aclose(self) -> None:
            raise AssertionError

    assert await FrameReader(Broken(), LIMIT).receive() is None


async def test_a_receive_that_was_cancelled_lost_nothing() -> None:
    pair = Pair()
    await pair.ours.send_all(b'{"a":')
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.reader.receive)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    await pair.holding(b" 1}\n")
    assert await pair.reader.receive() == {"a": 1}


async def test_whoever_takes_nothing_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    ours, _ = trio.testing.lockstep_stream_pair()
    began_s = trio.current_time()
    with pytest.raises(FrameError, match="took nothing for 10 s"):
        await send_frame(ours, {}, patience_s=10)
    assert trio.current_time() - began_s == pytest.approx(10)


async def test_whoever_reads_slowly_is_served(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    data, got = b"x" * (1 << 20), bytearray()

    async def read_slowly() -> None:
        while len(got) < len(data):
            await trio.sleep(5)
            got.extend(await theirs.receive_some(1 << 16))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_slowly)
        await send_bytes(ours, data, patience_s=10)
    assert got == data


async def test_whoever_has_gone_is_told_from_whoever_is_slow() -> None:
    pair = Pair()
    await pair.theirs.aclose()
    with pytest.raises(FrameError, match="the other side is gone"):
        await send_frame(pair.ours, {}, patience_s=1)
    await pair.ours.aclose()
    with pytest.raises(FrameError, match="the other side is gone"):
        await send_frame(pair.ours, {}, patience_s=1)
