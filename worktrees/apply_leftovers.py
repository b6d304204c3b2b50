"""What dead integrations of a run left behind, and no journal needs any more. All of it blocks."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from worktrees.apply_slots import hidden_place
from worktrees.journal import Journal, JournalState

_SLOTS = re.compile(r"slots-[0-9]+")
# Private indexes of a call that was killed.
_INDEX = re.compile(r"index-[a-z0-9_]+")


def list_leftovers(folder: Path, root: Path, journal: Journal | None) -> tuple[Path, ...]:
    """Return the folders that may be removed, none inside of another, sorted.

    The slots of an integration in force hold what stood in the checkout before it, so they stay
    for a rollback, whatever else is given up.

    Args:
        folder: where the run keeps its integration; no integration is at work there.
        root: the checkout.
        journal: the one in force, if there is one.
    """
    needed: set[Path] = set()
    if journal is not None and journal.state is not JournalState.ROLLED_BACK:
        needed = {layer.slots for layer in journal.layers}
    found = {
        path
        for path in _own_folders(folder)
        if path not in needed and (_SLOTS.fullmatch(path.name) or _INDEX.fullmatch(path.name))
    }
    hidden = hidden_place(folder, root)
    if _is_own_folder(hidden):
        there = {path for path in _own_folders(hidden) if _SLOTS.fullmatch(path.name)}
        is_spent = there.isdisjoint(needed) and len(there) == len(os.listdir(hidden))
        found |= {hidden} if is_spent else there - needed
    return tuple(sorted(found))


def _own_folders(folder: Path) -> Iterator[Path]:
    if _is_own_folder(folder):
        yield from filter(_is_own_folder, folder.iterdir())


def _is_own_folder(path: Path) -> bool:
    """Whether a real folder of this user stands at `path`."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
