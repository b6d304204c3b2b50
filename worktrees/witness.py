"""What a worktree is at one moment, so that it can be told whether it is still the same later.

Nothing is read of any file but what the system knows of it. No program changes a file without the
time of its last change moving, and none sets that time.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.changes import quote_path
from engine.core.quote import escape, name_list
from engine.system.occupants import Occupant

# Kind and permissions, inode, size, and the times of the last write and the last change.
_Facts = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Witness:
    """Everything in a worktree's folder and in Git's own folder of it, by path from there."""

    files: dict[bytes, _Facts]
    private: dict[bytes, _Facts]


def bear_witness(folder: Path, git_dir: Path) -> Witness:
    """Return what the system knows of everything in both folders; blocks.

    Of the folders themselves the time of the last change is left out, since renaming moves it.

    Raises:
        OSError: a folder cannot be read.
    """
    return Witness(dict(_look(os.fsencode(folder))), dict(_look(os.fsencode(git_dir))))


def why_it_stays(before: Witness, after: Witness, occupants: Sequence[Occupant]) -> str | None:
    """Return why a worktree that held nothing of anybody's must stay after all; None when it goes.

    Args:
        before: what it was when it was about to be looked at.
        after: what it is where nobody finds it any more.
        occupants: those who could write there all the same.
    """
    if occupants:
        at_work = [f"{escape(each.program)} (process {each.pid})" for each in occupants]
        return f"{name_list(at_work)} may write there: end it, or have it leave, and call again"
    if differing := _differing(before.files, after.files):
        named = name_list([quote_path(path or b".") for path in differing])
        return f"{named} came, went or changed while it was about to be removed"
    if differing := _differing(before.private, after.private):
        named = name_list([quote_path(path or b".") for path in differing])
        return f"{named} in Git's folder of it came, went or changed while it was to be removed"
    return None


def _differing(before: dict[bytes, _Facts], after: dict[bytes, _Facts]) -> list[bytes]:
    if before == after:
        return []
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


def _look(top: bytes) -> Iterator[tuple[bytes, _Facts]]:
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        place = top + b"/" + path if path else top
        try:
            known = os.lstat(place)
            names = os.listdir(place) if stat.S_ISDIR(known.st_mode) else []
        except FileNotFoundError:
            continue
        changed_ns = known.st_ctime_ns if path else 0
        yield path, (known.st_mode, known.st_ino, known.st_size, known.st_mtime_ns, changed_ns)
        waiting += [path + b"/" + name if path else name for name in names]
