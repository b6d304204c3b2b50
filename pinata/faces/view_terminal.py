"""The terminal that a view has for itself: its keys, its size, its screen, and giving it back."""

import math
import os
import signal
import termios
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from engine.core.errors import ExternalError, reason_of
from pinata.faces import output
from pinata.faces.view_keys import Key, KeyDecoder
from pinata.faces.view_paint import ENTER_SCREEN, LEAVE_SCREEN, change
from pinata.faces.view_screen import Size

# What follows the beginning of a key comes with it; over a slow line it takes a moment.
_ESCAPE_S = 0.05
_RESTORE_S = 1.0
_LOCAL_FLAGS, _CHARACTERS = 3, 6
LEAVING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_OTHERS = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_FEWEST_COLUMNS = 20


class Terminal:
    """A terminal while `open_terminal` has it.

    Attributes:
        signals: those that say that one leaves, stops, goes on, or has another size.
    """

    def __init__(
        self,
        fd: int,
        keys: trio.lowlevel.FdStream,
        write: Callable[[str], bool],
        signals: AsyncIterator[int],
    ) -> None:
        """Take over a terminal; nothing is changed before `enter`.

        Args:
            fd: the terminal, which somebody else closes.
            keys: the same terminal, opened for this alone.
            write: sends text to it, and says whether that was possible; may block.
            signals: see above.
        """
        self.signals = signals
        self._fd = fd
        self._keys = keys
        self._write = write
        self._decoder = KeyDecoder()
        self._saved = termios.tcgetattr(fd)
        self._shown: Sequence[str] | None = None
        # One thread writes at a time, or a screen would be mixed of two.
        self._turn = trio.Lock()

    @property
    def size(self) -> Size:
        """How large it is now; one that does not know, or is gone, is taken for one of 80 by 24."""
        columns = lines = 0
        with suppress(OSError):
            columns, lines = os.get_terminal_size(self._fd)
        return Size(max(_FEWEST_COLUMNS, columns or 80), lines or 24)

    async def next_keys(self) -> list[Key] | None:
        """Return the keys that are pressed next, perhaps none; None when the terminal is gone."""
        with trio.move_on_after(_ESCAPE_S if self._decoder.is_waiting else math.inf) as scope:
            try:
                data = await self._keys.receive_some(4096)
            except trio.BrokenResourceError:
                return None
        if scope.cancelled_caught:
            return self._decoder.flush()
        return self._decoder.feed(data) if data else None

    async def draw(self, lines: Sequence[str]) -> bool:
        """Show some lines, as many as fit; False when the terminal is gone."""
        async with self._turn:
            text = change(self._shown, lines)
            self._shown = lines
            return not text or await self._send(text)

    async def enter(self) -> None:
        """Have the terminal for the view alone, also after somebody else has had it.

        In the background the kernel stops the process here until it is in the foreground.
        """
        async with self._turn:
            await self._enter()

    async def stop(self) -> None:
        """Give the terminal back and stop this process, until somebody lets it go on."""
        async with self._turn:
            self.restore_mode()
            await self._send(LEAVE_SCREEN)
            os.kill(os.getpid(), signal.SIGSTOP)
            await self._enter()

    async def leave(self) -> None:
        """Give the terminal back, also when it takes nothing and whatever is being cancelled."""
        self.restore_mode()
        with trio.CancelScope(shield=True), trio.move_on_after(_RESTORE_S):
            await self._send(LEAVE_SCREEN)

    def restore_mode(self) -> None:
        """Let the terminal edit lines and echo keys again; does not wait for its output."""
        with suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSANOW, self._saved)

    async def _enter(self) -> None:
        # A terminal that is gone says so when it is read.
        with suppress(termios.error):
            mode = termios.tcgetattr(self._fd)
            # Keys as they come and unseen. Ctrl-C and Ctrl-Z stay signals.
            mode[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
            mode[_CHARACTERS][termios.VMIN], mode[_CHARACTERS][termios.VTIME] = 1, 0
            termios.tcsetattr(self._fd, termios.TCSANOW, mode)
        self._shown = None
        await self._send(ENTER_SCREEN)

    async def _send(self, text: str) -> bool:
        return await trio.to_thread.run_sync(self._write, text, abandon_on_cancel=True)


@asynccontextmanager
async def open_terminal(
    fd: int, write: Callable[[str], bool] = output.write
) -> AsyncIterator[Terminal]:
    """Have a terminal for a view inside the block, whatever ends it.

    Args:
        fd: the terminal.
        write: sends text to it, and says whether that was possible; may block.

    Raises:
        ExternalError: keys cannot be read from it.
    """
    # Opened anew, since not waiting for keys would be set for everybody who shares the old one:
    # for our own output, and for the shell.
    path = f"/proc/self/fd/{fd}"
    try:
        own = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise ExternalError(
            f"no keys can be read from the terminal: {reason_of(error)}; use --plain"
        ) from error
    heeded = [n for n in (*LEAVING, *_OTHERS) if signal.getsignal(n) is not signal.SIG_IGN]
    async with trio.lowlevel.FdStream(own) as keys:
        # Around all of it: a signal that ends the process would leave the terminal as it is.
        with trio.open_signal_receiver(*heeded) as signals:
            terminal = Terminal(fd, keys, write, signals)
            try:
                await terminal.enter()
                yield terminal
            finally:
                await terminal.leave()
