"""The file that a program without a terminal writes what it says into."""

import contextlib
import os
import stat
from pathlib import Path

from engine.core.errors import ConflictError

# So much of what earlier programs said is kept, and once as much beside it.
LOG_LIMIT_BYTES = 1 << 20


def open_log_file(path: Path) -> int:
    """Return a descriptor that appends to the log at `path`; blocks.

    A log that has grown long is kept as `<path>.1`, in place of the one that was kept before.

    Raises:
        ConflictError: what stands there is no plain file of this user.
        OSError: it cannot be written.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_size > LOG_LIMIT_BYTES:
            path.rename(path.with_name(f"{path.name}.1"))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if path.is_symlink() or path.is_fifo() or path.is_socket():
            raise _refusal(path) from error
        raise
    try:
        _make_ours(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make_ours(fd: int, path: Path) -> None:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise _refusal(path)
    os.fchmod(fd, 0o600)
    os.set_blocking(fd, True)


def _refusal(path: Path) -> ConflictError:
    return ConflictError(f"{path} is no file of its own; move it away and try again")
