"""The lines of a session file as they are added: each an entry that follows the one before it."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import trio

from agents.session_form import iso
from engine.core.errors import ExternalError, reason_of
from engine.system import faults
from engine.system.clock import Clock

_FLUSHED = "session.entries"


class SessionLog:
    """Adds entries to a session file. For one task at a time.

    Attributes:
        leaf: the entry that the next one follows; whoever changes it begins a branch.
    """

    def __init__(
        self, path: Path, flags: int, clock: Clock, next_id: Callable[[], str], *, leaf: str | None
    ) -> None:
        """Begin with nothing to write; the file is opened by the first `write`.

        Args:
            path: of the file.
            flags: how it is opened, for appending.
            clock: for the entries' times.
            next_id: gives ids that are unique in the file, eight hexadecimal digits by custom.
            leaf: the entry that the first one follows.
        """
        self.leaf = leaf
        self._path = path
        self._flags = flags
        self._clock = clock
        self._next_id = next_id
        self._descriptor: int | None = None
        self._waiting: list[Mapping[str, object]] = []

    def begin(self, line: Mapping[str, object]) -> None:
        """Have the file begin with `line`, which is no entry."""
        self._waiting.append(line)

    def add(self, kind: str, content: Mapping[str, object]) -> str:
        """Add an entry, to be written by the next `write`, and return its id."""
        entry = self._next_id()
        self._waiting.append(
            {
                "type": kind,
                "id": entry,
                "parentId": self.leaf,
                "timestamp": iso(self._clock.now_ms()),
                **content,
            }
        )
        self.leaf = entry
        return entry

    def add_message(self, message: Mapping[str, object]) -> str:
        """Add an entry that holds a message, dated now, and return its id."""
        return self.add("message", {"message": {**message, "timestamp": self._clock.now_ms()}})

    async def write(self, *, flush: bool = False) -> None:
        """Write all that waits, in one go: a hop to a thread costs more than a line.

        Args:
            flush: return when no loss of power can take it away.

        Raises:
            ExternalError: nothing of it was saved, as far as that can be helped; it is forgotten.
        """
        await trio.to_thread.run_sync(self._write_waiting, flush)

    async def close(self) -> None:
        """Write what still waits, if anything ever was, and close the file."""
        try:
            if self._descriptor is not None and self._waiting:
                await self.write()
        finally:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _write_waiting(self, flush: bool) -> None:  # noqa: FBT001 - positional only here
        lines, self._waiting = self._waiting, []
        text = "".join(
            json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=dict) + "\n"
            for line in lines
        )
        try:
            self._append(text.encode("utf-8", "replace"), flush=flush)
        except OSError as error:
            # What follows is to follow what the file holds.
            forgotten = next((line for line in lines if "parentId" in line), None)
            if forgotten is not None:
                parent = forgotten["parentId"]
                self.leaf = None if parent is None else str(parent)
            raise unsaved(self._path, error) from error

    def _append(self, data: bytes, *, flush: bool) -> None:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, self._flags, 0o600)
        end = os.fstat(self._descriptor).st_size
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
            if flush:
                faults.point(f"{_FLUSHED}.written")
                os.fsync(self._descriptor)
                faults.point(f"{_FLUSHED}.durable")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, end)
            raise


def unsaved(path: Path, error: OSError) -> ExternalError:
    """Return that a session file cannot be written."""
    return ExternalError(f"the conversation cannot be saved: {path}: {reason_of(error)}")
