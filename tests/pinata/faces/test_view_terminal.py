"""A view has its terminal for itself, and gives it back whatever happens."""

import os
import signal
import threading
from collections.abc import Callable

import pytest
import trio
import trio.testing

from engine.core.errors import ExternalError
from pinata.faces.view_keys import Named, Typed
from pinata.faces.view_paint import ENTER_SCREEN, LEAVE_SCREEN
from pinata.faces.view_screen import Size
from pinata.faces.view_terminal import open_terminal
from tests.support.terminals import open_pty


async def in_thread(wait: Callable[[str], None], text: str) -> None:
    with trio.fail_after(30):
        await trio.to_thread.run_sync(wait, text)


async def test_terminal_is_the_views_inside_the_block_and_as_before_after_it() -> None:
    with open_pty(60, 10) as pty:
        async with open_terminal(pty.fd, pty.write) as terminal:
            await in_thread(pty.wait_written, ENTER_SCREEN)
            modes = [pty.is_cooked]
            assert terminal.size == Size(60, 10)
            pty.resize(100, 30)
            assert terminal.size == Size(100, 30)
            assert await terminal.draw(["one", "two"])
            await in_thread(pty.wait_shown, "two")
        await in_thread(pty.wait_written, LEAVE_SCREEN)
        assert [*modes, pty.is_cooked] == [False, True]
        assert os.get_blocking(pty.fd)


@pytest.mark.parametrize(
    ("columns", "lines", "taken_for"), [(0, 0, Size(80, 24)), (5, 1, Size(20, 1))]
)
async def test_terminal_of_hardly_any_size_has_some(
    columns: int, lines: int, taken_for: Size
) -> None:
    with open_pty() as pty:
        async with open_terminal(pty.fd, pty.write) as terminal:
            pty.resize(columns, lines)
            assert terminal.size == taken_for


async def test_terminal_is_given_back_after_an_error() -> None:
    with open_pty() as pty:
        with pytest.raises(ZeroDivisionError):
            async with open_terminal(pty.fd, pty.write):
                raise ZeroDivisionError
        assert pty.is_cooked
        await in_thread(pty.wait_written, LEAVE_SCREEN)


async def test_terminal_that_takes_nothing_is_given_back_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    gate = threading.Event()
    with open_pty() as pty:

        def stall(text: str) -> bool:
            gate.wait(30)
            return pty.write(text)

        with trio.move_on_after(5) as scope:
            async with open_terminal(pty.fd, stall):
                raise AssertionError
        assert scope.cancelled_caught
        assert pty.is_cooked
        gate.set()


async def test_only_what_changed_is_sent_until_somebody_else_had_the_terminal() -> None:
    sent: list[str] = []

    def send(text: str) -> bool:
        sent.append(text)
        return True

    with open_pty() as pty:
        async with open_terminal(pty.fd, send) as terminal:
            await terminal.draw(["one", "two"])
            await terminal.draw(["one", "three"])
            await terminal.draw(["one", "three"])
            await terminal.enter()
            await terminal.draw(["one", "three"])
    whole = "\x1b[2J\x1b[1;1H\x1b[2Kone\x1b[2;1H\x1b[2K"
    assert sent == [
        ENTER_SCREEN,
        f"{whole}two",
        "\x1b[2;1H\x1b[2Kthree",
        ENTER_SCREEN,
        f"{whole}three",
        LEAVE_SCREEN,
    ]


async def test_keys_come_as_they_are_pressed_and_escape_when_nothing_follows() -> None:
    with open_pty() as pty:
        async with open_terminal(pty.fd, pty.write) as terminal:
            with trio.fail_after(30):
                pty.press(b"j\x1b[A")
                assert await terminal.next_keys() == [Typed("j"), Named.UP]
                pty.press(b"\x1b")
                assert await terminal.next_keys() == []
                assert await terminal.next_keys() == [Named.ESCAPE]


async def test_terminal_that_is_gone_has_no_more_keys() -> None:
    master, slave = os.openpty()
    async with open_terminal(slave, lambda _: False) as terminal:
        os.close(master)
        with trio.fail_after(30):
            assert await terminal.next_keys() is None
        await terminal.enter()
        assert await terminal.draw(["one"]) is False
        assert terminal.size == Size(80, 24)
    os.close(slave)


async def test_terminal_that_cannot_be_opened_anew_is_refused_with_the_remedy() -> None:
    with open_pty() as pty:
        other = os.dup(pty.fd)
        os.close(other)
        with pytest.raises(ExternalError, match="use --plain"):
            async with open_terminal(other, pty.write):
                raise AssertionError


async def test_signal_is_heard_from_the_moment_that_the_terminal_is_taken() -> None:
    with open_pty() as pty:
        async with open_terminal(pty.fd, pty.write) as terminal:
            os.kill(os.getpid(), signal.SIGTERM)
            with trio.fail_after(30):
                assert await anext(aiter(terminal.signals)) == signal.SIGTERM
