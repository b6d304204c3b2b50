from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agents.filetools.echo import PAUSE_S, TAIL_BYTES, Echo


@asynccontextmanager
async def passed_on() -> AsyncIterator[tuple[Echo, list[str]]]:
    """Yield an echo and what it passed on."""
    heard: list[str] = []
    echo = Echo(heard.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo.pass_on)
        yield echo, heard
        nursery.cancel_scope.cancel()


async def test_output_is_passed_on_at_once_and_then_four_times_a_second(
    autojump_clock: MockClock,
) -> None:
    async with passed_on() as (echo, heard):
        for number in range(100):
            echo.take(f"{number}\n".encode())
            await trio.sleep(0.01)
        assert heard[0] == "0\n"
        assert 4 <= len(heard) <= 5
        await trio.sleep(1)
        assert heard[-1].endswith("98\n99\n")


async def test_no_timer_runs_while_nothing_is_written(mock_clock: MockClock) -> None:
    async with passed_on() as (echo, heard):
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
        echo.take(b"so")
        await wait_all_tasks_blocked()
        mock_clock.jump(PAUSE_S)
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
        assert heard == ["so"]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([b"one\ntw", b"o\n"], "one\ntwo\n"),
        ([b"x" * TAIL_BYTES], "x" * TAIL_BYTES),
        ([b"x" * TAIL_BYTES, b"y"], "x" * (TAIL_BYTES - 1) + "y"),
        ([b"x" * TAIL_BYTES, b"\nlast\n"], "last\n"),
        ([b"first\n" + b"x" * TAIL_BYTES + b"\n"], "x" * (TAIL_BYTES - 1) + "\n"),
        ([b"\xff\n"], "\N{REPLACEMENT CHARACTER}\n"),
    ],
)
async def test_the_end_is_passed_on_in_whole_lines_where_it_has_some(
    autojump_clock: MockClock, pieces: list[bytes], text: str
) -> None:
    async with passed_on() as (echo, heard):
        for piece in pieces:
            echo.take(piece)
        await wait_all_tasks_blocked()
        assert heard == [text]
