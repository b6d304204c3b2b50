"""The read tool: a text file, or some lines of it."""

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import trio

from agents.filetools.answer import BYTE_LIMIT, LINE_LIMIT, keep_first, with_notes
from agents.filetools.arguments import ReadArguments
from agents.filetools.resolve import resolve, unquote
from agents.filetools.secrets import identify_secrets
from agents.filetools.source import looks_binary, open_regular, sniff
from agents.filetools.tool import ToolAnswer, ToolContext, ToolFaultError, build
from engine.core.quote import quote_value

# A model that asks for line 90,000,000 is lost; reading on for minutes would not help it.
SCAN_LIMIT_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
_LINES_PER_LOOK = 4_096


async def _read(context: ToolContext, arguments: ReadArguments) -> ToolAnswer:
    path = resolve(unquote(arguments.path), context.root, context.home)
    return await trio.to_thread.run_sync(_show, context, path, arguments)


def _show(context: ToolContext, path: Path, arguments: ReadArguments) -> ToolAnswer:
    shown = quote_value(arguments.path)
    with open_regular(path, shown, identify_secrets(context.secrets)) as file:
        if looks_binary(sniff(file)):
            raise ToolFaultError(f"{shown} is a binary file; read shows text only")
        lines = _Lines(file, shown)
        first = arguments.offset or 1
        for _ in islice(lines, first - 1):
            pass
        kept = keep_first(islice(lines, arguments.limit or LINE_LIMIT))
        total = lines.count_all()
    if first > max(total, 1):
        raise ToolFaultError(f"{shown} has {total} lines; offset={first} is beyond its end")
    last = first + len(kept.lines) - 1
    notes = []
    if kept.cut:
        notes.append(f"line {first} is too long; only its first {BYTE_LIMIT} bytes are shown")
    if any("\ufffd" in line for line in kept.lines):
        notes.append("what is not UTF-8 is shown as \ufffd")
    if last < total:
        notes.append(f"lines {first} to {last} of {total} are shown; go on with offset={last + 1}")
    if total == 0:
        notes.append("the file is empty")
    return ToolAnswer(with_notes(kept.text, notes))


class _Lines(Iterator[str]):
    """The lines of a file as text, without line ends.

    Of an overlong line no more is kept in memory than is enough to see that it is too long.
    """

    def __init__(self, file: BinaryIO, shown: str) -> None:
        self._file = file
        self._shown = shown
        self._scanned_bytes = 0
        self._count = 0

    def __next__(self) -> str:
        if self._count % _LINES_PER_LOOK == 0:
            trio.from_thread.check_cancelled()
        start = piece = self._take(self._file.readline(BYTE_LIMIT + 1))
        if not start:
            raise StopIteration
        while piece and not piece.endswith(b"\n"):
            trio.from_thread.check_cancelled()
            piece = self._take(self._file.readline(_CHUNK_BYTES))
        self._count += 1
        line = start.removesuffix(b"\n")
        if self._count == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        return line.removesuffix(b"\r").decode("utf-8", "replace")

    def count_all(self) -> int:
        """Return how many lines the whole file has, reading it to its end."""
        last = b"\n"
        while chunk := self._take(self._file.read(_CHUNK_BYTES)):
            trio.from_thread.check_cancelled()
            self._count += chunk.count(b"\n")
            last = chunk[-1:]
        return self._count + (last != b"\n")

    def _take(self, data: bytes) -> bytes:
        self._scanned_bytes += len(data)
        if self._scanned_bytes > SCAN_LIMIT_BYTES:
            raise ToolFaultError(
                f"{self._shown} is larger than {SCAN_LIMIT_BYTES} bytes; read a part with bash"
            )
        return data


READ = build(
    _read,
    "read",
    description=f"Read a text file. Shows at most {LINE_LIMIT} lines or {BYTE_LIMIT // 1024} KB, "
    "whichever is less; use offset and limit for more of a long file.",
    arguments=ReadArguments,
)
