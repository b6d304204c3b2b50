"""The run's own files, and the proof that nobody else wrote to them.

Whoever has a shell can write into the run's folder. Results are read again by later commands, so
what this process remembers of its files is the truth that they are compared with.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import trio

from engine.core.quote import name_list
from engine.eventlog import EventLog
from engine.store import RunFolder
from engine.system import files
from pinata.work.blocking import in_thread

Answer = TypeVar("Answer")
FileFacts = tuple[int, int, int, int]


class OwnRecords:
    """Remembers the files of one run as they were written; the log remembers its own bytes.

    A file counts as altered when its inode, size or change time is another: the change time cannot
    be set back.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Begin with nothing remembered."""
        self._folder = folder
        self._known: dict[Path, FileFacts | None] = {}
        self._lock = trio.Lock()

    async def adopt(self) -> None:
        """Take the run's record and results as they stand for the truth."""
        async with self._lock:
            await trio.to_thread.run_sync(self._adopt)

    def _adopt(self) -> None:
        self._remember([self._folder.run_file, *self._folder.results.glob("*.json")])

    async def write(self, work: Callable[[], Answer], paths: Iterable[Path], doing: str) -> Answer:
        """Do `work`, which writes `paths` and may block, and remember them as it left them.

        Raises:
            ExternalError: they cannot be written; the message begins with `doing`.
        """
        written = tuple(paths)
        async with self._lock:
            return await in_thread(lambda: self._written(work, written), doing)

    def _written(self, work: Callable[[], Answer], paths: tuple[Path, ...]) -> Answer:
        try:
            return work()
        finally:
            self._remember(paths)

    def _remember(self, paths: Iterable[Path]) -> None:
        self._known |= {path: file_facts(path) for path in paths}

    async def altered(self, log: EventLog | None) -> tuple[str, ...]:
        """Return the names of files that are not as this process left them, sorted.

        Args:
            log: of the run, None before it is open.
        """
        async with self._lock:
            found = await trio.to_thread.run_sync(self._differing)
        if log is not None and not await log.is_intact():
            found.append(self._folder.events_file.name)
        return tuple(sorted(found))

    async def condemn(self, log: EventLog | None) -> None:
        """Have nobody believe the run's records any more if somebody else wrote to them.

        Called when no agent is left that could take that back.

        Args:
            log: of the run, None if it was never opened.
        """
        altered = await self.altered(log)
        if altered:
            path = self._folder.distrust_file
            says = f"somebody wrote to {name_list(altered)} while it worked"
            await trio.to_thread.run_sync(
                lambda: files.replace_file(path, says.encode(), fault="run.distrusted")
            )

    def _differing(self) -> list[str]:
        root = self._folder.path
        return [
            str(path.relative_to(root))
            for path, facts in self._known.items()
            if file_facts(path) != facts
        ]


def file_facts(path: Path) -> FileFacts | None:
    """Return what tells a file from one that was written to, None when there is none; blocks."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
