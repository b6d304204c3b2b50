"""Checkout and slots of one journal, and the moves between them. All of it blocks."""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, assert_never

from engine.system import faults, files
from worktrees.apply_moves import Moves, edited
from worktrees.apply_plan import (
    ConflictsError,
    MakeFolder,
    PlannedMove,
    Put,
    RemoveFolder,
    Replace,
    Take,
    Where,
)
from worktrees.apply_slots import FLUSH_EACH
from worktrees.exchange import Mover
from worktrees.folders import Folders, split_path
from worktrees.journal import FileState, Journal

_SPARE_FOLDER = b"folder"

# How rmdir(2) says that a folder is not empty, or that there is no such folder.
_STAYS = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR)


class Bench:
    """Both sides of a journal, open; a context manager.

    Nothing is ever overwritten: what is taken away lies in a slot. A move that raises has moved
    nothing, or is among what has to be undone.
    """

    def __init__(self, journal: Journal, mover: Mover) -> None:
        self.journal = journal
        self.folders = Folders(journal.root)
        self._slots = Folders(journal.slots)
        self._moves = Moves(self.folders, self._slots, mover)

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

    def live(self, path: bytes) -> FileState | None:
        """Return what stands at `path` now; reads it."""
        return self._moves.live(path)

    def locate(self, slot: int, live: FileState | None) -> Where:
        """Return where the entry of `slot` stands, given what is at its path; reads its slot."""
        return self._moves.locate(slot, self.journal.entries[slot], live)

    def tidy(self) -> None:
        """Remove from the slots what moves that were cut short left there and means nothing."""
        for slot, entry in enumerate(self.journal.entries):
            self._moves.tidy(slot, entry)

    def carry_out(self, moves: Iterable[PlannedMove], done: list[PlannedMove]) -> None:
        """Do `moves` in order; each one that changed something is appended to `done` at once.

        Raises:
            ConflictsError: somebody wrote to a path since the plan was made. If the move took it
                away already, undoing what is in `done` puts exactly that back.
            OSError: a move failed.
        """
        for move in moves:
            faults.point("apply.move.started")
            try:
                performed = self._perform(move)
            except (OSError, ConflictsError):
                if isinstance(move, Take | Put | Replace) and self._moves.is_begun(move):
                    done.append(move)
                raise
            if performed:
                done.append(move)
                faults.point("apply.move.done")
                self._check(move)
        for move in done:
            # A program that had a file open may have written to it after it was taken away.
            self._check(move)
        faults.point("apply.moves.checked")
        self._flush(done)

    def _perform(self, move: PlannedMove) -> bool:
        match move:
            case MakeFolder(path=path):
                return self._make_folder(path)
            case RemoveFolder(folder=folder):
                return self._remove_folder(folder.path)
            case Take() | Put() | Replace():
                self._moves.make(move)
                return True
            case _:
                assert_never(move)

    def _check(self, move: PlannedMove) -> None:
        if isinstance(move, Take | Replace):
            self._moves.check(move)

    def take_back(self, done: Sequence[PlannedMove]) -> tuple[bytes, ...]:
        """Undo `done` from its end to its beginning, and flush.

        Returns:
            The paths that were left alone, because somebody wrote there.

        Raises:
            OSError: a move failed; those before it are still done.
        """
        left: list[bytes] = []
        for move in reversed(done):
            faults.point("apply.undo.started")
            match move:
                case MakeFolder(path=path):
                    self._remove_folder(path)
                case RemoveFolder(folder=folder):
                    self._restore_folder(folder.path, folder.permissions)
                case Take() | Put() | Replace():
                    if not self._moves.undo(move):
                        left.append(move.entry.path)
                case _:
                    assert_never(move)
            faults.point("apply.undo.done")
        self._flush(done)
        return tuple(left)

    def _make_folder(self, path: bytes) -> bool:
        folder, name = split_path(path)
        try:
            os.mkdir(name, dir_fd=self.folders.open(folder))
        except FileExistsError:
            return False
        except (FileNotFoundError, NotADirectoryError) as error:
            raise edited(path) from error
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
            os.mkdir(_SPARE_FOLDER, dir_fd=self._moves.slot_folder)
        os.chmod(_SPARE_FOLDER, permissions, dir_fd=self._moves.slot_folder)
        self._moves.put_folder(_SPARE_FOLDER, path)

    def _flush(self, moves: Sequence[PlannedMove]) -> None:
        touched = {split_path(_path_of(move))[0] for move in moves}
        if len(touched) > FLUSH_EACH:
            files.flush_file_system(self.journal.slots)
            return
        for folder in sorted(touched):
            # A folder that is gone was removed from one that is flushed as well.
            with suppress(FileNotFoundError, NotADirectoryError):
                os.fsync(self.folders.open(folder))
        os.fsync(self._moves.slot_folder)


def _path_of(move: PlannedMove) -> bytes:
    match move:
        case MakeFolder(path=path):
            return path
        case RemoveFolder(folder=folder):
            return folder.path
        case Take(entry=entry) | Put(entry=entry) | Replace(entry=entry):
            return entry.path
        case _:
            assert_never(move)
