"""Opening what is only read: regular files and directories, never a device, a pipe or a socket.

Opening a pipe can wait for ever and opening a device can do things, so neither is opened at all.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from agents.filetools.secrets import Identities, refuse_secret
from agents.filetools.tool import ToolFaultError

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a symbolic link"),
)

_SNIFFED_BYTES = 8_192


def describe_kind(mode: int) -> str:
    """Return what a file of `mode` is, with its article."""
    return next((name for holds, name in _KINDS if holds(mode)), "a regular file")


@contextmanager
def open_regular(
    path: Path, shown: str, secrets: Identities, *, follow_link: bool = True
) -> Iterator[BinaryIO]:
    """Open the regular file that `path` leads to for reading bytes.

    Files of /proc count as no files: they are views of running processes, this one included, and
    show environments that hold credentials.

    Args:
        path: absolute.
        shown: the path as error messages name it.
        secrets: files that are not opened.
        follow_link: whether the file may be a symbolic link; folders above it always may.

    Raises:
        ToolFaultError: there is no such file, or it is something else.
        OSError: it may not be read.
    """
    _refuse_special(_stat(path, shown, follow_link=follow_link), shown)
    # The file can be replaced between the look and the open: hence no waiting, and a second look.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_link else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        _refuse_special(found, shown)
        refuse_secret(found, secrets, shown)
        yield file


def _stat(path: Path, shown: str, *, follow_link: bool = True) -> os.stat_result:
    try:
        return path.stat(follow_symlinks=follow_link)
    except FileNotFoundError:
        raise ToolFaultError(f"there is no {shown}; ls and find show what there is") from None
    except NotADirectoryError:
        raise ToolFaultError(f"a parent of {shown} is a file and no directory") from None


def _refuse_special(found: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolFaultError(f"{shown} is a directory; ls lists it")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFaultError(f"{shown} is {describe_kind(found.st_mode)} and is not opened")
    if found.st_dev == _proc_device():
        raise ToolFaultError(f"{shown} is a view of a running process and is not opened")


@cache
def _proc_device() -> int | None:
    try:
        return Path("/proc/self/").stat().st_dev
    except OSError:
        return None


def is_directory(path: Path, shown: str) -> bool:
    """Return whether `path` leads to a directory.

    Raises:
        ToolFaultError: there is nothing there.
    """
    return stat.S_ISDIR(_stat(path, shown).st_mode)


def looks_binary(start: bytes) -> bool:
    """Return whether a file that begins with `start` holds something else than text."""
    return b"\0" in start[:_SNIFFED_BYTES]


def sniff(file: BinaryIO) -> bytes:
    """Return the first bytes of `file`, for `looks_binary`, leaving it at its beginning."""
    start = file.read(_SNIFFED_BYTES)
    file.seek(0)
    return start
