"""Renames that never overwrite: two names change places, or one takes a place that is free.

Both are single steps of the kernel, so a crash leaves either the state before or the state after,
and a file that somebody wrote in between comes out on the other side instead of being lost.
"""

import ctypes
import errno
import os
from pathlib import Path
from typing import Protocol

from engine.core.errors import ConflictError

# renameat2(2).
_NOREPLACE = 1
_EXCHANGE = 2

# What a kernel or a file system says that does not know these renames.
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


class NoExchangeError(ConflictError):
    """The file system cannot let two files change places in one step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"the file system of {folder} cannot exchange two files in one step (renameat2), so "
            "nothing could be taken back safely; keep the checkout on a local file system"
        )


class Mover(Protocol):
    """Moves names between open folders."""

    def move(self, source: int, name: bytes, target: int, new_name: bytes) -> None:
        """Rename `name` in the folder `source` to the free `new_name` in `target`.

        Raises:
            FileExistsError: the place is taken.
            OSError: nothing was moved for another reason.
        """
        ...

    def swap(self, folder: int, name: bytes, other: int, other_name: bytes) -> None:
        """Let what two names stand for change places.

        Raises:
            OSError: nothing was moved.
        """
        ...


class KernelMover:
    """The kernel's own renames, by renameat2(2)."""

    def move(self, source: int, name: bytes, target: int, new_name: bytes) -> None:
        """See `Mover.move`."""
        _rename(source, name, target, new_name, _NOREPLACE)

    def swap(self, folder: int, name: bytes, other: int, other_name: bytes) -> None:
        """See `Mover.swap`."""
        _rename(folder, name, other, other_name, _EXCHANGE)


def _rename(source: int, name: bytes, target: int, new_name: bytes, flags: int) -> None:
    if _RENAMEAT2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _RENAMEAT2(source, name, target, new_name, flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(new_name))


def check_exchange(mover: Mover, folder: Path) -> None:
    """Try both renames in the empty `folder`, which is empty again afterwards.

    Raises:
        NoExchangeError: they do not work there.
        OSError: the folder cannot be written.
    """
    first, second, third = (folder / name for name in ("one", "two", "three"))
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        first.touch()
        second.touch()
        mover.swap(fd, b"one", fd, b"two")
        mover.move(fd, b"two", fd, b"three")
    except OSError as error:
        if error.errno in _UNKNOWN:
            raise NoExchangeError(folder) from error
        raise
    finally:
        os.close(fd)
        for path in (first, second, third):
            path.unlink(missing_ok=True)


# A C library without the call (musl before 1.2.6, macOS) is found out by `check_exchange`.
_RENAMEAT2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
