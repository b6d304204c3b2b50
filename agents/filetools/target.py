"""Changing one file below the working directory, without ever following a symbolic link.

Every folder on the way is opened from its parent's descriptor with links refused, and the file is
replaced inside the last one. So a link that takes a folder's place after the guard has looked
leads nowhere: it is refused here, or it is too late to matter.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from agents.filetools.resolve import Place
from agents.filetools.source import describe_kind
from agents.filetools.tool import ToolFaultError
from engine.core.changes import quote_path

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Target:
    """A file to change; it need not exist.

    Attributes:
        folder: descriptor of the folder that it is in, open as long as `open_target` lasts.
        shown: its path as messages name it.
        permissions: its permission bits, or None when there is no such file.
    """

    folder: int
    name: bytes
    shown: str
    permissions: int | None

    def read(self, limit_bytes: int) -> bytes:
        """Return what the file holds.

        Raises:
            ToolFaultError: it is larger than `limit_bytes`.
            OSError: it cannot be read.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.name, flags, dir_fd=self.folder)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise ToolFaultError(f"{self.shown} is larger than {limit_bytes} bytes; use bash")
        return data

    def replace(self, data: bytes) -> None:
        """Put a file with `data` in its place, in one step and with its permission bits.

        Raises:
            OSError: it cannot be written; what stood there still does.
        """
        temporary = b".pinata-" + secrets.token_hex(8).encode() + b".tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666, dir_fd=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if self.permissions is not None:
                    os.fchmod(file.fileno(), self.permissions)
                file.write(data)
            os.rename(temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self.folder)
            raise


@contextmanager
def open_target(
    place: Place,
    shown: str,
    *,
    create_parents: bool,
    identity: tuple[int, int] | None = None,
) -> Iterator[Target]:
    """Open the folder that `place` is in.

    Args:
        place: not the working directory itself.
        shown: its path as messages name it.
        create_parents: make the folders that are missing.
        identity: device and inode that the working directory must have, if they are known.

    Raises:
        ToolFaultError: something else stands where the working directory was, a symbolic link or
            a file stands in the way, the place is taken by something
            that is no regular file, or a parent is missing and not to be made.
    """
    assert place.parts
    folder = os.open(place.root, _FOLDER_FLAGS)
    try:
        refuse_replaced(os.fstat(folder), identity)
        for name in place.parts[:-1]:
            inner = _enter(folder, name, shown, create=create_parents)
            os.close(folder)
            folder = inner
        yield Target(folder, place.parts[-1], shown, _permissions(folder, place.parts[-1], shown))
    finally:
        os.close(folder)


def refuse_replaced(found: os.stat_result, identity: tuple[int, int] | None) -> None:
    """Refuse to go on in what is not the working directory.

    Raises:
        ToolFaultError: it is another folder than the one with `identity`.
    """
    if identity not in (None, (found.st_dev, found.st_ino)):
        raise ToolFaultError(
            "something else stands where the working directory was; the task cannot go on here"
        )


def _enter(folder: int, name: bytes, shown: str, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            return _enter(folder, name, shown, create=False)
        raise ToolFaultError(f"there is no {shown}; write makes new files") from None
    except NotADirectoryError:
        kind = describe_kind(os.lstat(name, dir_fd=folder).st_mode)
        raise ToolFaultError(
            f"{quote_path(name)} in {shown} is {kind} and no directory; choose another path"
        ) from None


def _permissions(folder: int, name: bytes, shown: str) -> int | None:
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ToolFaultError(f"{shown} is {describe_kind(mode)}; only regular files are written")
    return stat.S_IMODE(mode) & 0o777
