"""Has a process die at a crash point without a process: everybody who passes one from then on ends.

What is on the disk stays as it is there, except that locks are let go of and files that were being
staged are removed. Whoever runs the part that dies catches `Died`.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.system import faults, files


class Died(BaseException):
    """The played process has passed the crash point at which it dies."""


class Death:
    """Ends the played process at the n-th pass of a point; see `dying_at`."""

    def __init__(self, name: str, passes: int) -> None:
        self.happened = False
        self._name = name
        self._left = passes

    def passed(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            self.happened = self.happened or self._left == 0
        if self.happened:
            raise Died(name)


class _Passed(list[str]):
    def passed(self, name: str) -> None:
        self.append(name)


@contextmanager
def dying_at(name: str, passes: int = 1) -> Iterator[Death]:
    """End the played process at a crash point inside the block: `Died`, there and ever after."""
    with _armed(Death(name, passes)) as death:
        yield death


class _Trouble:
    def __init__(self, name: str, times: int, error: Exception) -> None:
        self._name = name
        self._left = times
        self._error = error

    def passed(self, name: str) -> None:
        if name == self._name and self._left > 0:
            self._left -= 1
            raise self._error


@contextmanager
def failing_at(name: str, times: int = 1, error: Exception | None = None) -> Iterator[None]:
    """Have a step fail, as by a broken disk, so many times, inside the block."""
    with _armed(_Trouble(name, times, error or OSError(errno.EIO, os.strerror(errno.EIO)))):
        yield


@contextmanager
def failing_reads(part: str) -> Iterator[None]:
    """Have the machine refuse to read files with such a part in their name, inside the block."""
    whole = files.read_regular

    def refuse(path: Path, limit_bytes: int, *, start: int = 0) -> bytes:
        if part in path.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(path, limit_bytes, start=start)

    files.read_regular = refuse
    try:
        yield
    finally:
        files.read_regular = whole


@contextmanager
def unharmed() -> Iterator[None]:
    """Let crash points do nothing inside the block, whatever is planned around it."""
    with _armed(None):
        yield


@contextmanager
def passed_points() -> Iterator[list[str]]:
    """Collect the names of the crash points that are passed inside the block."""
    with _armed(_Passed()) as names:
        yield names


@contextmanager
def _armed(plan: Any) -> Iterator[Any]:
    before, faults._armed = faults._armed, plan
    try:
        yield plan
    finally:
        faults._armed = before
