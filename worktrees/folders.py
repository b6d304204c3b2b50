"""Folders of a working tree, opened one component at a time and never through a symbolic link."""

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Return the folder of `path`, empty for the root, and its last name."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


def ancestors(path: bytes) -> tuple[bytes, ...]:
    """Return the folders above `path` without the root, the outermost first."""
    parts = path.split(b"/")
    return tuple(b"/".join(parts[:count]) for count in range(1, len(parts)))


class Folders:
    """Descriptors of the folders below one root; a context manager that closes them.

    Only the chain down to the folder asked for last is kept open, so that the number of open
    descriptors does not grow with the number of folders. Asking in path order is cheapest.
    """

    def __init__(self, root: Path) -> None:
        self._names: list[bytes] = []
        self._descriptors = [os.open(root, _OPEN)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def open(self, folder: bytes) -> int:
        """Return a descriptor of `folder`, valid until the next call.

        Args:
            folder: relative to the root, empty for the root itself.

        Raises:
            FileNotFoundError: it, or a folder above it, is not there.
            NotADirectoryError: it, or one above it, is a file or a symbolic link.
        """
        wanted = folder.split(b"/") if folder else []
        shared = 0
        while shared < min(len(wanted), len(self._names)):
            if wanted[shared] != self._names[shared]:
                break
            shared += 1
        while len(self._names) > shared:
            self._names.pop()
            os.close(self._descriptors.pop())
        for name in wanted[shared:]:
            # With both flags a link is an ENOTDIR like any other file; see open(2).
            inner = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=self._descriptors[-1])
            self._descriptors.append(inner)
            self._names.append(name)
        return self._descriptors[-1]

    def lstat(self, path: bytes) -> os.stat_result | None:
        """Return the facts about `path` itself, or None when there is no such path."""
        folder, name = split_path(path)
        try:
            return os.lstat(name, dir_fd=self.open(folder))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_free(self, path: bytes) -> bool:
        """Whether neither a file nor a link stands at `path`."""
        found = self.lstat(path)
        return found is None or stat.S_ISDIR(found.st_mode)
