"""The session file of an agent that is a Pi: read by who writes no entry of it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agents.herdsman.herd_entry import herd_entry
from agents.herdsman.runtime import Entry
from engine.core.errors import ExternalError, reason_of

_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC
_MEND: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class PiHistory:
    """What a session file holds of the herd. For one thread at a time; all of it blocks.

    Lines that are no entries are passed over: a crash may have torn one, and an extension of
    somebody's may write what it likes.
    """

    def __init__(self, path: Path) -> None:
        """Begin without having read anything."""
        self._path = path
        self._read = 0
        self._rest = b""
        self._parents: dict[str, str | None] = {}
        self._leaf: str | None = None
        self._found: list[tuple[str, Entry]] = []

    def entries(self) -> tuple[Entry, ...]:
        """Return the herd's entries, on all branches, the oldest first.

        Raises:
            ExternalError: the file cannot be read.
        """
        self._grow(flush=False)
        branch, at = set(), self._leaf
        while at is not None and at not in branch:
            branch.add(at)
            at = self._parents.get(at)
        return tuple(
            Entry(entry.kind, entry.details, on_branch=id_ in branch) for id_, entry in self._found
        )

    def holds(self, kind: str, details: Mapping[str, Any], since: int) -> bool:
        """Return whether such an entry is among those after the first `since`, flushed to disk.

        Raises:
            ExternalError: the file cannot be read or flushed.
        """
        self._grow(flush=True)
        wanted = Entry(kind, details)
        return any(entry == wanted for _, entry in self._found[since:])

    def end_line(self) -> None:
        """Let what is written next begin a line of its own.

        On a disk that was full, Pi may have written an entry by half. The next one would be glued
        to it, and found by nobody, however often it were said.

        Raises:
            ExternalError: the file cannot be read, or there is still no room.
        """
        try:
            descriptor = os.open(self._path, _MEND)
            try:
                size = os.fstat(descriptor).st_size
                if os.pread(descriptor, 1, max(size - 1, 0)) not in (b"", b"\n"):
                    # Should Pi end the line by itself at this moment, an empty one follows it.
                    os.write(descriptor, b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ExternalError(
                f"the conversation cannot be gone on with: {self._path}: {reason_of(error)}"
            ) from error

    @property
    def known(self) -> int:
        """How many entries of the herd were read so far."""
        return len(self._found)

    def _grow(self, *, flush: bool) -> None:
        """Read what was added; flush the file first, so that nothing seen can be lost."""
        try:
            descriptor = os.open(self._path, _OPEN)
            try:
                if flush:
                    os.fsync(descriptor)
                added = _rest_of(descriptor, self._read)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ExternalError(
                f"the conversation cannot be read: {self._path}: {reason_of(error)}"
            ) from error
        self._read += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
            return
        if entry.get("type") == "session":
            return
        id_, parent = entry["id"], entry.get("parentId")
        self._parents[id_] = parent if isinstance(parent, str) else None
        self._leaf = id_
        ours = herd_entry(entry)
        if ours is not None:
            self._found.append((id_, ours))


def _rest_of(descriptor: int, start: int) -> bytes:
    size = os.fstat(descriptor).st_size
    pieces = []
    while start < size:
        piece = os.pread(descriptor, size - start, start)
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
