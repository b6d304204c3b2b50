import os
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from engine.system.output import MemorySink
from engine.system.pipes import InputPipe, OutputPipe

Ends = tuple[int, int]


@pytest.fixture
def ends() -> Iterator[Ends]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


async def test_what_was_written_before_the_end_of_reading_is_kept(ends: Ends) -> None:
    sink = MemorySink(1 << 20)
    pipe = OutputPipe(ends[0], sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pipe.pump)
        await trio.testing.wait_all_tasks_blocked()
        os.write(ends[1], b"x" * 65_536)
        assert await pipe.finish()
    assert sink.contents() == b"x" * 65_536


async def test_what_was_read_reaches_the_sink_also_when_reading_is_stopped(ends: Ends) -> None:
    class Hesitant(MemorySink):
        async def take(self, data: bytes) -> None:
            reached.set()
            await trio.testing.wait_all_tasks_blocked()
            await super().take(data)

    reached = trio.Event()
    sink = Hesitant(100)
    pipe = OutputPipe(ends[0], sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pipe.pump)
        os.write(ends[1], b"read")
        await reached.wait()
        await pipe.finish()
    assert sink.contents() == b"read"


async def test_a_writer_that_never_stops_does_not_hold_up_the_end(ends: Ends) -> None:
    class Refilling(MemorySink):
        async def take(self, data: bytes) -> None:
            await super().take(data)
            os.write(ends[1], data)

    sink = Refilling(1000)
    pipe = OutputPipe(ends[0], sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pipe.pump)
        await trio.testing.wait_all_tasks_blocked()
        os.write(ends[1], b"x" * 65_536)
        assert await pipe.finish()
    assert sink.overflowed


async def test_reading_goes_on_when_the_caller_is_cancelled(ends: Ends) -> None:
    sink = MemorySink(100)
    pipe = OutputPipe(ends[0], sink)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pipe.pump)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            os.write(ends[1], b"late")
            await trio.testing.wait_all_tasks_blocked()
            assert sink.contents() == b"late"
            await pipe.finish()


async def test_feeding_ends_when_nobody_reads_and_it_is_stopped(ends: Ends) -> None:
    closed: list[bool] = []
    pipe = InputPipe(ends[1], b"x" * 1_000_000, lambda: closed.append(True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pipe.pump)
        await trio.testing.wait_all_tasks_blocked()
        pipe.stop()
    assert closed == []
