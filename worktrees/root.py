"""A worktree's own folder, told from whatever else may come to stand in its place.

Whoever works in a worktree can move it away and put a link, or another folder, where it was. What
is done there afterwards would be done to something else, such as the user's checkout.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ConflictError, CorruptionError
from engine.system.files import replace_file

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GIT_FILE_LIMIT_BYTES = 1 << 13


class ReplacedWorktreeError(ConflictError):
    """Something else stands where a worktree was."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"its worktree was replaced: {path} is not the folder that it was; put that back, or "
            "move away what stands there, and try again"
        )


@dataclass(frozen=True, slots=True)
class Root:
    """A worktree's folder.

    Attributes:
        device, inode: what it is recognised by while this process lives.
    """

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> "Root":
        """Return the folder that stands at `path` now; blocks.

        Raises:
            ReplacedWorktreeError: what is there is no folder, or only a link to one.
        """
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ReplacedWorktreeError(path) from error
        if not stat.S_ISDIR(found.st_mode):
            raise ReplacedWorktreeError(path)
        return cls(path, found.st_dev, found.st_ino)

    def ensure(self) -> None:
        """Make sure that it still stands where it stood; blocks.

        Raises:
            ReplacedWorktreeError: it does not.
        """
        if Root.of(self.path) != self:
            raise ReplacedWorktreeError(self.path)

    def put_git_file(self, content: bytes) -> None:
        """Make the folder's own file `.git` hold `content`; blocks.

        It is written inside of the folder and nowhere else, whatever its path leads to by then.

        Raises:
            ReplacedWorktreeError: it does not stand there any more.
        """
        try:
            folder = os.open(self.path, _FOLDER_FLAGS)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ReplacedWorktreeError(self.path) from error
        try:
            found = os.fstat(folder)
            if (found.st_dev, found.st_ino) != (self.device, self.inode):
                raise ReplacedWorktreeError(self.path)
            if _read_own(folder) != content:
                _put(folder, content)
        finally:
            os.close(folder)


def _read_own(folder: int) -> bytes | None:
    """Return what the `.git` file in a folder holds, None when it is anything else."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(".git", flags, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb", closefd=True) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        return file.read(_GIT_FILE_LIMIT_BYTES)


def _put(folder: int, content: bytes) -> None:
    name = ".git.pinata"
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
        file.write(content)
    os.rename(name, ".git", src_dir_fd=folder, dst_dir_fd=folder)


def keep_root(seed_index: Path, root: Root) -> None:
    """Remember, durably, which folder the worktree of `seed_index` is; blocks."""
    replace_file(_record_beside(seed_index), b"%d\n" % root.inode, fault="root.record")


def forget_root(seed_index: Path) -> None:
    """Forget which folder the worktree of `seed_index` was, now that it is gone; blocks."""
    _record_beside(seed_index).unlink(missing_ok=True)


def find_root(seed_index: Path, path: Path) -> Root | None:
    """Return the folder of the worktree at `path`, None when nothing is there; blocks.

    Args:
        seed_index: of the worktree.
        path: where it was made.

    Raises:
        ReplacedWorktreeError: something else is there than `keep_root` remembered, or a link.
        CorruptionError: what was remembered is damaged.
    """
    if not os.path.lexists(path):
        return None
    root, record = Root.of(path), _record_beside(seed_index)
    try:
        # A device may have another number after the machine was started anew.
        known = int(record.read_bytes())
    except FileNotFoundError:
        return root
    except ValueError as error:
        raise CorruptionError(f"{record} is damaged") from error
    if root.inode != known:
        raise ReplacedWorktreeError(path)
    return root


def _record_beside(seed_index: Path) -> Path:
    return seed_index.with_name(f"{seed_index.name}.root")
