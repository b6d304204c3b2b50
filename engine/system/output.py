"""Where what a program writes goes: into memory, or into files that share one limit."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, assert_never

import trio

from engine.core.errors import ExternalError, reason_of


@dataclass(frozen=True, slots=True)
class ToMemory:
    """Keep output in memory.

    Attributes:
        limit_bytes: of each stream, so much is kept from its start; the rest is read and dropped.
        keeps_end: keep so much of its end instead.
        heard: told each piece as it comes; must neither block nor fail.
    """

    limit_bytes: int = 64 << 20
    keeps_end: bool = False
    heard: Callable[[bytes], None] | None = None


@dataclass(frozen=True, slots=True)
class ToFiles:
    """Write output to new files that only this user can read.

    Attributes:
        limit_bytes: for both together; a program that writes more is stopped.
        heard: told each piece once it is in its file; must neither block nor fail.
    """

    stdout: Path
    stderr: Path
    limit_bytes: int
    heard: Callable[[bytes], None] | None = None


Output = ToMemory | ToFiles


class Sink(Protocol):
    """Where the bytes of one stream go. `overflowed` is set once some of them went nowhere."""

    overflowed: bool

    async def take(self, data: bytes) -> None:
        """Keep `data`, or as much of it as there is room for; never fails."""
        ...


class MemorySink:
    """Keeps the first `limit_bytes` of a stream in memory."""

    def __init__(self, limit_bytes: int, heard: Callable[[bytes], None] | None = None) -> None:
        self._left = limit_bytes
        self._heard = heard
        self._kept: list[bytes] = []
        self.overflowed = False

    async def take(self, data: bytes) -> None:
        """Keep `data`, as far as there is room."""
        if self._heard is not None:
            self._heard(data)
        if len(data) > self._left:
            data = data[: self._left]
            self.overflowed = True
        if data:
            self._kept.append(data)
            self._left -= len(data)

    def contents(self) -> bytes:
        """Return what was kept."""
        return b"".join(self._kept)


class EndSink(MemorySink):
    """Keeps the last `limit_bytes` of a stream in memory."""

    def __init__(self, limit_bytes: int, heard: Callable[[bytes], None] | None = None) -> None:
        super().__init__(limit_bytes, heard)
        self._limit = limit_bytes
        self._end = b""

    async def take(self, data: bytes) -> None:
        """Keep `data`, and as much of what came before as there is room for."""
        if self._heard is not None:
            self._heard(data)
        whole = self._end + data
        self.overflowed = self.overflowed or len(whole) > self._limit
        self._end = whole[max(0, len(whole) - self._limit) :]

    def contents(self) -> bytes:
        """Return what was kept."""
        return self._end


def _nothing() -> None:
    """Stand in until somebody wants to know."""


@dataclass(slots=True)
class Budget:
    """Room that several file sinks share.

    Attributes:
        left_bytes: how much may still be written.
        stop: called, on the loop, when the room is used up or a file cannot be written.
        failure: why a file could not be written, with the file's path in it.
    """

    left_bytes: int
    stop: Callable[[], None] = _nothing
    failure: OSError | None = None

    def grant(self, wanted: int) -> int:
        """Return how many of `wanted` bytes may be written; they are used up then."""
        granted = min(wanted, self.left_bytes)
        self.left_bytes -= granted
        return granted


class FileSink:
    """Writes a stream to a file, as far as a shared budget goes."""

    def __init__(
        self, path: Path, fd: int, budget: Budget, heard: Callable[[bytes], None] | None
    ) -> None:
        self._path = path
        self._fd = fd
        self._budget = budget
        self._heard = heard
        self.overflowed = False

    async def take(self, data: bytes) -> None:
        """Write `data`, as far as there is room and the file takes it."""
        granted = 0 if self._budget.failure else self._budget.grant(len(data))
        if granted:
            await trio.to_thread.run_sync(self._write, data[:granted])
            if self._heard is not None:
                self._heard(data[:granted])
        self.overflowed = self.overflowed or granted < len(data)
        if self.overflowed or self._budget.failure:
            self._budget.stop()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            self._budget.failure = OSError(error.errno, error.strerror, str(self._path))


def open_sinks(output: Output, closing: ExitStack) -> tuple[Budget, Sink, Sink]:
    """Return the sinks of stdout and stderr, and what they share; `closing` closes them. Blocks.

    Raises:
        ExternalError: a file is there already, or cannot be made.
    """
    match output:
        case ToMemory(limit_bytes=limit, keeps_end=keeps_end, heard=heard):
            sink = EndSink if keeps_end else MemorySink
            return Budget(0), sink(limit, heard), sink(limit, heard)
        case ToFiles(limit_bytes=limit, heard=heard):
            budget = Budget(limit)
            sinks = [
                FileSink(path, _open_new(path, closing), budget, heard)
                for path in (output.stdout, output.stderr)
            ]
            return budget, sinks[0], sinks[1]
        case _:
            assert_never(output)


def _open_new(path: Path, closing: ExitStack) -> int:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ExternalError(f"cannot save output: {reason_of(error)}: {path}") from error
    closing.callback(os.close, fd)
    return fd


def remove_empty_files(output: Output) -> None:
    """Take the files back that were opened for a program which never ran. Blocks."""
    if isinstance(output, ToFiles):
        output.stdout.unlink()
        output.stderr.unlink()
