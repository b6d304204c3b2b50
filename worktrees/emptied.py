"""Folders that one integration made, and that another one's files kept from going with it."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import trio

from engine.core.errors import CorruptionError
from worktrees.folders import Folders, ancestors, split_path
from worktrees.journal import Journal, JournalState
from worktrees.journal_store import read_journal


async def remove_emptied_folders(
    journal: Journal, since_ns: int, integrations: Iterable[Path]
) -> None:
    """Remove what a rollback emptied and an integration had made that was taken back before it.

    Of two integrations of which the second put a file into a folder that the first had made, the
    first may be taken back first. The folder then stays, for the file in it, and the second does
    not know it for one of theirs.

    Args:
        journal: of the second.
        since_ns: when the second was applied; whoever was taken back before that left no folder.
        integrations: where the runs of the repository keep theirs.
    """
    await trio.to_thread.run_sync(_remove, journal, since_ns, integrations)


def _remove(journal: Journal, since_ns: int, integrations: Iterable[Path]) -> None:
    above = {folder for entry in journal.entries for folder in ancestors(entry.path)}
    made = {folder for place in integrations for folder in _left(place, journal.root, since_ns)}
    with Folders(journal.root) as folders:
        for path in sorted(above & made, reverse=True):
            folder, name = split_path(path)
            with suppress(OSError):  # not empty, not there, or no folder any more
                os.rmdir(name, dir_fd=folders.open(folder))


def _left(place: Path, root: Path, since_ns: int) -> tuple[bytes, ...]:
    """Return the folders that the integration in `place` may have left when it was taken back."""
    try:
        journal = read_journal(place)
    except (CorruptionError, OSError):
        return ()  # told to whoever asks for that run
    if journal is None or journal.state is not JournalState.ROLLED_BACK or journal.root != root:
        return ()
    return journal.made_folders if journal.file.stat().st_mtime_ns > since_ns else ()
