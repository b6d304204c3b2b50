"""Where the slots of a journal lie, how they are filled and how they go. All of it blocks."""

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from engine.core.changes import ABSENT_MODE, EXECUTABLE_MODE, Change
from engine.core.errors import ConflictError
from engine.system import faults, files
from worktrees.apply_ground import Ground
from worktrees.apply_plan import ConflictsError, PathConflict
from worktrees.apply_state import is_untouched, read_state
from worktrees.folders import Folders, split_path
from worktrees.journal import HIDDEN_PREFIX, FileKind, FileState, Journal, JournalEntry

# Up to this many files or folders, flushing each is cheaper. Beyond, flushing the file system is,
# though it waits for what everybody has written: each flush of its own empties the disk's cache.
FLUSH_EACH = 4
_PERMISSIONS = 0o777
_EXECUTE = 0o111


class NoPlaceError(ConflictError):
    """Nothing on the checkout's own file system can hold what an integration moves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(
            f"neither the repository's own folder nor the folder beside {root} is on the file "
            "system of the checkout, so nothing could be moved safely; nothing was written"
        )


def choose_place(folder: Path, root: Path) -> Path:
    """Return the folder for slots: on `root`'s file system, so that a move is one step.

    Args:
        folder: the integration's own folder, which is the first choice.
        root: the checkout; a hidden folder beside it is the second choice, so that it never shows
            in the checkout's status.

    Raises:
        NoPlaceError: neither is on the checkout's file system.
    """
    device = root.stat().st_dev
    if folder.stat().st_dev == device:
        return folder
    if root.parent.stat().st_dev != device:
        raise NoPlaceError(root)
    return hidden_place(folder, root)


def hidden_place(folder: Path, root: Path) -> Path:
    """Return the hidden folder beside the checkout `root` that is for the integration `folder`."""
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return root.parent / f"{HIDDEN_PREFIX}{digest}"


def make_slots(folder: Path, root: Path, number: int) -> Path:
    """Make and return the empty folder for the slots of the journal `number`.

    Raises:
        NoPlaceError: see `choose_place`.
        OSError: it cannot be made.
    """
    place = choose_place(folder, root)
    slots = place / f"slots-{number}"
    remove_slots(folder, slots)
    if place != folder:
        files.make_private_dir(place)
    slots.mkdir(mode=0o700)  # made durable with the first journal that names it
    return slots


def staging(slots: Path) -> Path:
    """Return where new files lie under their paths before they go into their slots."""
    return slots / "new"


def remove_slots(folder: Path, slots: Path) -> None:
    """Remove `slots`, if it is there, and its hidden folder beside the checkout if now empty."""
    with suppress(FileNotFoundError):
        shutil.rmtree(slots)
    if slots.parent != folder:
        with suppress(OSError):  # another journal's slots are in it
            slots.parent.rmdir()


def fill_slots(
    slots: Path,
    changes: Sequence[Change],
    states: dict[bytes, FileState | None],
    exact: Collection[bytes] = (),
) -> tuple[JournalEntry, ...]:
    """Move the staged files into their slots and return the entries of the plan, flushed.

    A path that is on disk already what it shall become, down to its bytes, needs no entry. The
    staged files of the paths in `exact` have the permission bits that they shall have.
    """
    entries: list[JournalEntry] = []
    with Folders(staging(slots)) as staged:
        for change in changes:
            before = states[change.path]
            after = None
            if change.new_mode != ABSENT_MODE:
                after = _finish(staged, change, None if change.path in exact else before)
            if before is not None and after is not None and before.same_content(after):
                continue
            if after is not None:
                source = staging(slots) / os.fsdecode(change.path)
                source.rename(slots / str(len(entries)))
            entries.append(JournalEntry(change.path, before, after))
    shutil.rmtree(staging(slots))
    faults.point("apply.slots.filled")
    _flush(slots, entries)
    faults.point("apply.slots.durable")
    return tuple(entries)


def _finish(staged: Folders, change: Change, before: FileState | None) -> FileState:
    """Give a staged file its permission bits and return its state."""
    folder, name = split_path(change.path)
    descriptor = staged.open(folder)
    found = os.lstat(name, dir_fd=descriptor)
    if stat.S_ISREG(found.st_mode) and before is not None and before.kind is FileKind.FILE:
        os.chmod(name, _kept_permissions(change, before.permissions), dir_fd=descriptor)
    state = read_state(descriptor, name, mode=change.new_mode, blob=change.new_blob)
    assert state is not None
    return state


def _kept_permissions(change: Change, permissions: int) -> int:
    """Return the user's own bits, with the executable ones following the mode if that changes."""
    kept = permissions & _PERMISSIONS
    if change.old_mode == change.new_mode:
        return kept
    if change.new_mode == EXECUTABLE_MODE:
        return kept | (kept >> 2 & _EXECUTE)
    return kept & ~_EXECUTE


def _flush(slots: Path, entries: Sequence[JournalEntry]) -> None:
    new = [
        slots / str(slot)
        for slot, entry in enumerate(entries)
        if entry.after is not None and entry.after.kind is FileKind.FILE
    ]
    if len(new) > FLUSH_EACH:
        files.flush_file_system(slots)
        return
    for path in new:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    files.sync_dir(slots)
    files.sync_dir(slots.parent)


def check_unchanged(journal: Journal, ground: Ground) -> None:
    """Look once more at every file that the plan starts from.

    Raises:
        ConflictsError: somebody wrote to one since it was looked at.
    """
    conflicts = []
    with Folders(journal.root) as folders:
        for path, before in ground.states.items():
            folder, name = split_path(path)
            try:
                fine = before is None or is_untouched(folders.open(folder), name, before)
            except (FileNotFoundError, NotADirectoryError):
                fine = False
            if not fine:
                conflicts.append(PathConflict(path, "was edited just now"))
    if conflicts:
        raise ConflictsError("the checkout is being edited; nothing was written", conflicts)
