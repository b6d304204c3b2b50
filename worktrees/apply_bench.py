"""Checkout and slots of one journal, and the single moves between them. All of it blocks."""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, assert_never

from engine.system import faults, files
from worktrees.apply_plan import (
    ConflictsError,
    MakeFolder,
    PathConflict,
    Put,
    RemoveFolder,
    Replace,
    Step,
    Take,
    Where,
    locate,
)
from worktrees.apply_slots import FLUSH_EACH
from worktrees.apply_state import is_untouched, read_state
from worktrees.exchange import Mover
from worktrees.folders import Folders, split_path
from worktrees.journal import FileState, Journal, JournalEntry

_SPARE_FOLDER = b"folder"

# How rmdir(2) says that a folder is not empty, or that there is no such folder.
_STAYS = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR)


class Bench:
    """Both sides of a journal, open; a context manager.

    A step moves something or raises having moved nothing, and so does undoing it. Nothing is ever
    overwritten: what is taken away lies in a slot.
    """

    def __init__(self, journal: Journal, mover: Mover) -> None:
        self.journal = journal
        self.folders = Folders(journal.root)
        self._slots = Folders(journal.slots)
        self._mover = mover

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._slots.__exit__(kind, error, trace)
        self.folders.__exit__(kind, error, trace)

    @property
    def _slot_folder(self) -> int:
        return self._slots.open(b"")

    def locate(self) -> tuple[Where, ...]:
        """Return where each entry stands, in the order of the journal; reads every file."""
        return tuple(
            locate(entry, self._live(entry.path), read_state(self._slot_folder, _slot_name(slot)))
            for slot, entry in enumerate(self.journal.entries)
        )

    def _live(self, path: bytes) -> FileState | None:
        folder, name = split_path(path)
        try:
            return read_state(self.folders.open(folder), name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def carry_out(self, steps: Iterable[Step], done: list[Step]) -> None:
        """Do `steps` in order; each one that changed something is appended to `done` at once.

        Raises:
            ConflictsError: somebody wrote to a path since the plan was made. If the step took it
                away already, undoing what is in `done` puts exactly that back.
            OSError: a step failed.
        """
        for step in steps:
            faults.point("apply.step.started")
            if self._perform(step):
                done.append(step)
                faults.point("apply.step.done")
                self._check(step)
        for step in done:
            # A program that had a file open may have written to it after it was taken away.
            self._check(step)
        faults.point("apply.steps.checked")
        self._flush(done)

    def _perform(self, step: Step) -> bool:
        match step:
            case MakeFolder(path=path):
                return self._make_folder(path)
            case RemoveFolder(folder=folder):
                return self._remove_folder(folder.path)
            case Take() | Put() | Replace():
                self._move(step)
                return True
            case _:
                assert_never(step)

    def _move(self, step: Take | Put | Replace) -> None:
        slot = _slot_name(step.slot)
        try:
            folder, name = self._place(step.entry)
            match step:
                case Take():
                    self._mover.move(folder, name, self._slot_folder, slot)
                case Put():
                    self._mover.move(self._slot_folder, slot, folder, name)
                case Replace():
                    self._mover.swap(folder, name, self._slot_folder, slot)
                case _:
                    assert_never(step)
        except (FileNotFoundError, NotADirectoryError, FileExistsError) as error:
            raise _edited(step.entry.path) from error

    def _place(self, entry: JournalEntry) -> tuple[int, bytes]:
        folder, name = split_path(entry.path)
        return self.folders.open(folder), name

    def _check(self, step: Step) -> None:
        """Look at what a step took away.

        Raises:
            ConflictsError: it is not what the plan says.
        """
        if isinstance(step, Take | Replace):
            before = step.entry.before
            assert before is not None
            if not is_untouched(self._slot_folder, _slot_name(step.slot), before):
                raise _edited(step.entry.path)

    def take_back(self, done: Sequence[Step]) -> tuple[bytes, ...]:
        """Undo `done` from its end to its beginning, and flush.

        Returns:
            The paths that were left alone, because somebody wrote there.

        Raises:
            OSError: a step failed; those before it are still done.
        """
        left: list[bytes] = []
        for step in reversed(done):
            faults.point("apply.undo.started")
            match step:
                case MakeFolder(path=path):
                    self._remove_folder(path)
                case RemoveFolder(folder=folder):
                    self._restore_folder(folder.path, folder.permissions)
                case Take() | Put() | Replace():
                    if not self._move_back(step):
                        left.append(step.entry.path)
                case _:
                    assert_never(step)
            faults.point("apply.undo.done")
        self._flush(done)
        return tuple(left)

    def _move_back(self, step: Take | Put | Replace) -> bool:
        slot = _slot_name(step.slot)
        try:
            folder, name = self._place(step.entry)
            match step:
                case Take():
                    self._mover.move(self._slot_folder, slot, folder, name)
                    return True
                case Put():
                    self._mover.move(folder, name, self._slot_folder, slot)
                case Replace():
                    self._mover.swap(folder, name, self._slot_folder, slot)
                case _:
                    assert_never(step)
        except (FileNotFoundError, NotADirectoryError, FileExistsError):
            return False
        assert step.entry.after is not None
        if is_untouched(self._slot_folder, slot, step.entry.after):
            return True
        # Somebody wrote to the path at this moment: theirs stays.
        if isinstance(step, Put):
            self._mover.move(self._slot_folder, slot, folder, name)
        else:
            self._mover.swap(folder, name, self._slot_folder, slot)
        return False

    def _make_folder(self, path: bytes) -> bool:
        folder, name = split_path(path)
        try:
            os.mkdir(name, dir_fd=self.folders.open(folder))
        except FileExistsError:
            return False
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _edited(path) from error
        return True

    def _remove_folder(self, path: bytes) -> bool:
        """Remove `path` if it is an empty folder; a file or a full folder stays."""
        folder, name = split_path(path)
        try:
            os.rmdir(name, dir_fd=self.folders.open(folder))
        except OSError as error:
            if error.errno in _STAYS:
                return False
            raise
        return True

    def _restore_folder(self, path: bytes, permissions: int) -> None:
        """Make the folder `path` as it was, in one step, unless it is there."""
        found = self.folders.lstat(path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            return
        with suppress(FileExistsError):
            os.mkdir(_SPARE_FOLDER, dir_fd=self._slot_folder)
        os.chmod(_SPARE_FOLDER, permissions, dir_fd=self._slot_folder)
        folder, name = split_path(path)
        self._mover.move(self._slot_folder, _SPARE_FOLDER, self.folders.open(folder), name)

    def _flush(self, steps: Sequence[Step]) -> None:
        touched = {split_path(_path_of(step))[0] for step in steps}
        if len(touched) > FLUSH_EACH:
            files.flush_file_system(self.journal.slots)
            return
        for folder in sorted(touched):
            # A folder that is gone was removed from one that is flushed as well.
            with suppress(FileNotFoundError, NotADirectoryError):
                os.fsync(self.folders.open(folder))
        os.fsync(self._slot_folder)


def _slot_name(slot: int) -> bytes:
    return str(slot).encode("ascii")


def _path_of(step: Step) -> bytes:
    match step:
        case MakeFolder(path=path):
            return path
        case RemoveFolder(folder=folder):
            return folder.path
        case Take(entry=entry) | Put(entry=entry) | Replace(entry=entry):
            return entry.path
        case _:
            assert_never(step)


def _edited(path: bytes) -> ConflictsError:
    return ConflictsError(
        "the checkout was edited while the changes were applied",
        [PathConflict(path, "was edited")],
    )
