"""Real terminals: a pseudo terminal and the screen that a person would see on it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyte

from tests.support.projects import Project

_PATIENCE_S = 30
# Has the terminal for its own, as the programs of a shell do, and becomes the program.
_LOGIN = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"


class Pty:
    """A terminal, seen from its keyboard and its screen.

    Attributes:
        fd: what a program has as its terminal.
        written: all that was sent to the screen.
    """

    def __init__(self, master: int, slave: int, columns: int, lines: int) -> None:
        self.fd = slave
        self.screen = pyte.Screen(columns, lines)
        self.written = ""
        self._master = master
        self._news = threading.Condition()
        self.resize(columns, lines)

    def write(self, text: str) -> bool:
        """Send text as a program does."""
        data = text.encode()
        while data:
            data = data[os.write(self.fd, data) :]
        return True

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def wait_shown(self, text: str) -> None:
        """Wait until the screen shows `text` on one line; blocks."""
        self.wait(lambda: any(text in line for line in self.lines))

    def wait_written(self, text: str) -> None:
        """Wait until `text` was sent; blocks."""
        self.wait(lambda: text in self.written)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, which is asked whenever something was sent; blocks."""
        with self._news:
            if not self._news.wait_for(is_so, timeout=_PATIENCE_S):
                raise AssertionError("\n".join(["this is shown:", *self.lines]))

    def resize(self, columns: int, lines: int) -> None:
        """Make the terminal another size, as a person who pulls at its window."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    @property
    def lines(self) -> list[str]:
        """What the screen shows, without the ends of lines."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def is_cooked(self) -> bool:
        """Whether the terminal edits lines and shows keys, as a shell wants it."""
        flags = termios.tcgetattr(self.fd)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON)

    def show(self) -> None:
        """Draw what is sent until nobody has the terminal any more; blocks."""
        stream = pyte.ByteStream(self.screen)
        # A terminal that everybody has closed is an error and no end.
        with suppress(OSError):
            while data := os.read(self._master, 65536):
                with self._news:
                    self.written += data.decode("utf-8", "replace")
                    stream.feed(data)
                    self._news.notify_all()


@contextmanager
def open_pty(columns: int = 80, lines: int = 16) -> Iterator[Pty]:
    """Have a terminal inside the block."""
    master, slave = pty.openpty()
    made = Pty(master, slave, columns, lines)
    reader = threading.Thread(target=made.show)
    reader.start()
    try:
        yield made
    finally:
        os.close(slave)
        reader.join()
        os.close(master)


@contextmanager
def on_terminal(
    project: Project, terminal: Pty, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `pinata` on a terminal; it is killed at the end of the block if it still runs."""
    program = [sys.executable, "-m", "pinata", *arguments]
    env = project.program_env | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    with on_pty(terminal, program, cwd=project.repo.root, env=env) as process:
        yield process


@contextmanager
def on_pty(
    terminal: Pty, program: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program on a terminal; it is killed at the end of the block if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", _LOGIN, *program],
        cwd=cwd,
        env=env,
        stdin=terminal.fd,
        stdout=terminal.fd,
        stderr=terminal.fd,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
