"""The moves of single files between the checkout and the slots of one journal. All of it blocks.

A move that a mover makes in steps can be cut short, by a crash or an error; whoever comes next
finds out how far it got from what lies in the slots.
"""

import os
from contextlib import suppress
from typing import assert_never

from worktrees.apply_plan import ConflictsError, PathConflict, Put, Replace, Take, Where, locate
from worktrees.apply_state import is_untouched, read_state
from worktrees.exchange import Mover, aside_of
from worktrees.folders import Folders, split_path
from worktrees.journal import FileState, JournalEntry

Move = Take | Put | Replace

# How a place says that it is not what it was.
_CHANGED = (FileNotFoundError, NotADirectoryError, FileExistsError, IsADirectoryError)


class Moves:
    """Moves files there and back; nothing is ever overwritten.

    Args:
        folders: of the checkout.
        slots: of the journal.
        mover: how a single file moves.
    """

    def __init__(self, folders: Folders, slots: Folders, mover: Mover) -> None:
        self._folders = folders
        self._slots = slots
        self._mover = mover

    @property
    def slot_folder(self) -> int:
        """The open folder of the slots."""
        return self._slots.open(b"")

    def locate(self, slot: int, entry: JournalEntry, live: FileState | None) -> Where:
        """Return where `entry` stands, given what is at its path; reads every file."""
        name = _slot_name(slot)
        kept = (read_state(self.slot_folder, each) for each in (name, aside_of(name)))
        return locate(entry, live, *kept)

    def live(self, path: bytes) -> FileState | None:
        """Return what stands at `path` now; reads it."""
        folder, name = split_path(path)
        try:
            return read_state(self._folders.open(folder), name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def make(self, move: Move) -> None:
        """Move to the state after the plan.

        Raises:
            ConflictsError: the place is not what it was when the plan was made.
            OSError: the move failed; `is_begun` says whether it has to be undone all the same.
        """
        slot = _slot_name(move.slot)
        try:
            folder, name = self._place(move.entry)
            match move:
                case Take():
                    self._mover.take(folder, name, self.slot_folder, slot)
                case Put():
                    self._mover.put(self.slot_folder, slot, folder, name)
                case Replace(entry=entry):
                    if self._is_cut_short(slot):
                        self._finish(folder, name, slot, entry.after)
                    else:
                        self._mover.swap(folder, name, self.slot_folder, slot)
                case _:
                    assert_never(move)
        except _CHANGED as error:
            raise edited(move.entry.path) from error

    def _place(self, entry: JournalEntry) -> tuple[int, bytes]:
        folder, name = split_path(entry.path)
        return self._folders.open(folder), name

    def _is_cut_short(self, slot: bytes) -> bool:
        return _lstat(self.slot_folder, aside_of(slot)) is not None

    def _finish(self, folder: int, name: bytes, slot: bytes, wanted: FileState | None) -> None:
        """End an exchange that was cut short so that `wanted` stands at the free `name`.

        If it lies in neither slot, what was taken away comes back.
        """
        aside = aside_of(slot)
        if wanted is not None and is_untouched(self.slot_folder, slot, wanted):
            self._mover.put(self.slot_folder, slot, folder, name)
            os.rename(aside, slot, src_dir_fd=self.slot_folder, dst_dir_fd=self.slot_folder)
        else:
            self._mover.put(self.slot_folder, aside, folder, name)

    def is_begun(self, move: Move) -> bool:
        """Whether a move that failed has changed the checkout."""
        live = self._folders.lstat(move.entry.path)
        slot = _slot_name(move.slot)
        match move:
            case Take():
                return False
            case Put():
                return _is_same(live, _lstat(self.slot_folder, slot))
            case Replace():
                aside = _lstat(self.slot_folder, aside_of(slot))
                return aside is not None and not _is_same(live, aside)
            case _:
                assert_never(move)

    def tidy(self, slot: int, entry: JournalEntry) -> None:
        """Remove what a move that was cut short left in the slots and that means nothing.

        A second name of the very file at the path goes; then what was taken away gets the slot,
        if that is free.
        """
        name = _slot_name(slot)
        aside = aside_of(name)
        live = self._folders.lstat(entry.path)
        for each in (name, aside):
            if _is_same(live, _lstat(self.slot_folder, each)):
                os.unlink(each, dir_fd=self.slot_folder)
        if _lstat(self.slot_folder, name) is None:
            with suppress(FileNotFoundError):
                os.rename(aside, name, src_dir_fd=self.slot_folder, dst_dir_fd=self.slot_folder)

    def check(self, move: Move) -> None:
        """Look at what a move took away.

        Raises:
            ConflictsError: it is not what the plan says.
        """
        before = move.entry.before
        if before is not None and not is_untouched(self.slot_folder, _slot_name(move.slot), before):
            raise edited(move.entry.path)

    def undo(self, move: Move) -> bool:
        """Move back to the state before the plan.

        Returns:
            False when somebody wrote to the path: theirs stays.

        Raises:
            OSError: it failed; calling it again goes on.
        """
        self.tidy(move.slot, move.entry)
        slot = _slot_name(move.slot)
        try:
            folder, name = self._place(move.entry)
            match move:
                case Take():
                    self._mover.put(self.slot_folder, slot, folder, name)
                    return True
                case Put():
                    self._mover.take(folder, name, self.slot_folder, slot)
                case Replace(entry=entry):
                    if self._is_cut_short(slot):
                        return self._undo_cut_short(folder, name, slot, entry)
                    self._mover.swap(folder, name, self.slot_folder, slot)
                case _:
                    assert_never(move)
        except _CHANGED:
            return False
        assert move.entry.after is not None
        if is_untouched(self.slot_folder, slot, move.entry.after):
            return True
        # Somebody wrote to the path at this moment: theirs stays.
        if isinstance(move, Put):
            self._mover.put(self.slot_folder, slot, folder, name)
        else:
            self._mover.swap(folder, name, self.slot_folder, slot)
        return False

    def _undo_cut_short(self, folder: int, name: bytes, slot: bytes, entry: JournalEntry) -> bool:
        before, after = entry.before, entry.after
        assert before is not None
        assert after is not None
        was_undone = is_untouched(self.slot_folder, slot, before)
        if was_undone and not is_untouched(self.slot_folder, aside_of(slot), after):
            # Undoing took somebody's edit away.
            self._mover.put(self.slot_folder, aside_of(slot), folder, name)
            return False
        self._finish(folder, name, slot, before)
        return True

    def put_folder(self, spare: bytes, path: bytes) -> None:
        """Move the empty folder `spare` from the slots to the free `path`."""
        folder, name = split_path(path)
        self._mover.put(self.slot_folder, spare, self._folders.open(folder), name)


def _slot_name(slot: int) -> bytes:
    return str(slot).encode("ascii")


def _lstat(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _is_same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    return one is not None and other is not None and os.path.samestat(one, other)


def edited(path: bytes) -> ConflictsError:
    """Return the error that says that `path` was written to during an apply."""
    return ConflictsError(
        "the checkout was edited while the changes were applied",
        [PathConflict(path, "was edited")],
    )
