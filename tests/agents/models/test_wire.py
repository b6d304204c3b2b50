import pytest
import trio
import trio.testing

from agents.models.wire import Meter, WireError, finish_stream


def test_a_line_may_be_as_large_as_the_limit_and_not_larger() -> None:
    meter = Meter(max_event_bytes=1_000)
    for _ in range(10):
        meter.count(b"x" * 100)
    with pytest.raises(WireError, match="an event of the answer is larger than 1,000 bytes"):
        meter.count(b"x")


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"])
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4])
def test_the_end_of_an_event_is_seen_wherever_a_part_ends(end: bytes, cut: int) -> None:
    meter = Meter(max_event_bytes=100 + len(end))
    for _ in range(3):
        meter.count(b"x" * 100)
        meter.count(end[:cut])
        meter.count(end[cut:])


def test_many_short_lines_are_one_event_until_it_ends() -> None:
    meter, line = Meter(max_event_bytes=1_000), b"data: x\n"
    for _ in range(125):
        meter.count(line)
    with pytest.raises(WireError, match="an event of the answer is larger"):
        meter.count(line)


def test_an_answer_may_be_as_large_as_the_limit_and_not_larger() -> None:
    meter = Meter(max_answer_bytes=1_000, max_event_bytes=100)
    for _ in range(10):
        meter.count(b"x" * 98 + b"\n\n")
    with pytest.raises(WireError, match="the answer is larger than 1,000 bytes"):
        meter.count(b"x")


class Stream:
    def __init__(self, *, breaks: bool = False, hangs: bool = False) -> None:
        self.left, self.breaks, self.hangs, self.is_closed = 3, breaks, hangs, False

    async def __anext__(self) -> object:
        await trio.lowlevel.checkpoint()
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return self.left

    async def close(self) -> None:
        self.is_closed = True
        if self.hangs:
            await trio.sleep_forever()
        if self.breaks:
            raise OSError("gone")


@pytest.mark.parametrize("breaks", [False, True])
async def test_a_stream_is_closed_and_brought_to_its_end_also_when_cancelled(breaks: bool) -> None:  # noqa: FBT001 - a case of the table
    stream = Stream(breaks=breaks)
    with trio.CancelScope() as scope:
        scope.cancel()
        await finish_stream(stream)
    assert (stream.is_closed, stream.left) == (True, 0)


async def test_a_connection_that_does_not_close_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    await finish_stream(Stream(hangs=True))
    assert trio.current_time() == pytest.approx(1.0)
