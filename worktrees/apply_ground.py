"""Whether the checkout has room for a plan: places that are free, folders that can be written.

Everything here only looks, and blocks. A reason in an answer continues a sentence about the path.
"""

import os
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from engine.core.changes import ABSENT_MODE, Change, quote_path
from worktrees.apply_plan import PathConflict
from worktrees.apply_state import read_state
from worktrees.folders import Folders, ancestors, split_path
from worktrees.journal import FileState, RemovedFolder


@dataclass(frozen=True, slots=True)
class Leaving:
    """What will have made room by the time that a place is needed.

    Attributes:
        files: they will be gone.
        folders: they will be gone once they are empty.
    """

    files: frozenset[bytes]
    folders: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Ground:
    """What the checkout looks like to a plan.

    Attributes:
        states: what stands at each changed path, None where no file or link does.
        removed_folders: what the plan empties and removes, sorted by path.
        made_folders: what the plan has to make, sorted by path.
    """

    states: dict[bytes, FileState | None]
    conflicts: tuple[PathConflict, ...]
    removed_folders: tuple[RemovedFolder, ...]
    made_folders: tuple[bytes, ...]


def survey(
    folders: Folders,
    changes: Sequence[Change],
    device: int,
    now_ns: int,
    spare: Collection[bytes] = (),
) -> Ground:
    """Look at everything that `changes` will touch.

    Args:
        folders: of the checkout.
        changes: sorted by path.
        device: the file system that every touched folder must be on.
        now_ns: see `read_state`.
        spare: folders that need not be there: they go if nothing is left in them.

    Raises:
        OSError: a file or folder cannot be read for a reason that is no conflict.
    """
    states: dict[bytes, FileState | None] = {}
    conflicts: list[PathConflict] = []
    gone = frozenset(change.path for change in changes if change.new_mode == ABSENT_MODE)
    added = [change.path for change in changes if change.old_mode == ABSENT_MODE]
    there = {folder for folder in spare if _is_folder(folders, folder)}
    leaving = Leaving(gone, frozenset({*there, *(f for path in gone for f in ancestors(path))}))
    for change in changes:
        try:
            states[change.path] = state = _state(folders, change, now_ns)
            if change.old_mode != ABSENT_MODE:
                reason = "is not there any more" if state is None else None
            else:
                reason = obstacle(folders, change.path, leaving, None)
        except PermissionError:
            reason = "cannot be read"
        if reason is not None:
            conflicts.append(PathConflict(change.path, reason))
    if conflicts:
        return Ground(states, tuple(conflicts), (), ())
    needed = frozenset(folder for path in added for folder in ancestors(path))
    removed = _emptied(folders, leaving, needed)
    moving = [*(change.path for change in changes), *(gone.path for gone in removed)]
    conflicts.extend(unusable(folders, moving, device))
    made = sorted(folder for folder in needed if not _is_folder(folders, folder))
    return Ground(states, tuple(conflicts), removed, tuple(made))


def _state(folders: Folders, change: Change, now_ns: int) -> FileState | None:
    folder, name = split_path(change.path)
    try:
        return read_state(
            folders.open(folder), name, mode=change.old_mode, blob=change.old_blob, now_ns=now_ns
        )
    except (FileNotFoundError, NotADirectoryError):
        return None


def obstacle(
    folders: Folders, path: bytes, leaving: Leaving, made: frozenset[bytes] | None
) -> str | None:
    """Return what keeps `path` from being a free place in a real folder, or None.

    Args:
        folders: of the checkout.
        path: where something is to be put.
        leaving: what will be gone by then.
        made: folders that will be made if they are missing; None when any will.
    """
    for folder in ancestors(path):
        found = folders.lstat(folder)
        if found is None:
            gone = made is not None and folder not in made
            return f"has lost its folder {quote_path(folder)}" if gone else None
        if not stat.S_ISDIR(found.st_mode):
            if folder in leaving.files:
                return None
            return f"lies behind {quote_path(folder)}, which is no folder"
        if folders.lstat(folder + b"/.git") is not None:
            return f"lies in another repository, {quote_path(folder)}"
    found = folders.lstat(path)
    if found is None:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return "is there already"
    return None if _all_leave(folders, path, leaving) else "is a folder that holds something else"


def _all_leave(folders: Folders, folder: bytes, leaving: Leaving) -> bool:
    """Whether `folder` will be empty, and itself removed."""
    if folder not in leaving.folders:
        return False
    for name in _names(folders, folder):
        path = folder + b"/" + name
        if path not in leaving.files and not (
            _is_folder(folders, path) and _all_leave(folders, path, leaving)
        ):
            return False
    return True


def _names(folders: Folders, folder: bytes) -> list[bytes]:
    descriptor = folders.open(folder)
    return [os.fsencode(name) for name in os.listdir(descriptor)]


def _is_folder(folders: Folders, path: bytes) -> bool:
    found = folders.lstat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _emptied(
    folders: Folders, leaving: Leaving, needed: frozenset[bytes]
) -> tuple[RemovedFolder, ...]:
    """Return the folders that hold nothing but what leaves, and that nothing new needs."""
    removed: dict[bytes, RemovedFolder] = {}
    for folder in sorted(leaving.folders - needed, reverse=True):
        inside = {folder + b"/" + name for name in _names(folders, folder)}
        if all(path in leaving.files or path in removed for path in inside):
            found = folders.lstat(folder)
            assert found is not None
            removed[folder] = RemovedFolder(folder, stat.S_IMODE(found.st_mode))
    return tuple(removed[folder] for folder in sorted(removed))


def unusable(folders: Folders, paths: Iterable[bytes], device: int) -> Iterable[PathConflict]:
    """Yield the folders in which entries come and go and that do not allow it.

    Of each path that is the folder above it, or the nearest one that is there.
    """
    seen: set[bytes] = set()
    for path in paths:
        folder = _nearest(folders, path)
        if folder in seen:
            continue
        seen.add(folder)
        if reason := _folder_fault(folders, folder, device):
            yield PathConflict(folder or b".", reason)


def _nearest(folders: Folders, path: bytes) -> bytes:
    nearest = b""
    for folder in ancestors(path):
        if not _is_folder(folders, folder):
            break
        nearest = folder
    return nearest


def _folder_fault(folders: Folders, folder: bytes, device: int) -> str | None:
    descriptor = folders.open(folder)
    if os.fstat(descriptor).st_dev != device:
        return "is on another file system than the checkout"
    # Asked for "." in the open folder, so that nothing can be put in its place meanwhile.
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor, effective_ids=True):
        return "cannot be written"
    return None
