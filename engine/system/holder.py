"""Who holds a lock; apart from the locks, since those who only look need not load their library.

Whoever holds a lock's flock(2) also holds a write lock of its open file, of the kind of fcntl(2).
The kernel tells of that one to whoever asks, without taking anything: a look never makes somebody
else's claim fail. And it tells the truth where `/proc/locks` does not: there the device of a file
on overlayfs or btrfs is another than stat(2) says, and who is in another namespace is left out.

Every function blocks. Source: F_OFD_GETLK in fcntl_locking(2).
"""

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

HOLDER_LIMIT_BYTES = 1024
# struct flock: the type of the lock, from where it counts, its start and length, and a process.
_FLOCK = struct.Struct("hhqqi0q")


def show_holder(fd: int) -> None:
    """Let others see that the lock is held whose file is open as `fd`.

    Raises:
        OSError: the file system has no such locks.
    """
    # Somebody else can hold one only by hand, and then is seen in our place.
    with suppress(BlockingIOError, PermissionError):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))


def hide_holder(fd: int) -> None:
    """Undo `show_holder`; comes before the lock is released, so the next holder can show itself."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_UNLCK))


def read_live_holder(path: Path) -> str | None:
    """Return who holds the lock at `path` now, None when nobody does; nothing is locked.

    Raises:
        OSError: it cannot be told.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        # Another user's, who may hold it.
        return read_holder(path)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
    finally:
        os.close(fd)
    kind, *_ = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else read_holder(path)


def read_holder(path: Path) -> str:
    """Return what the last holder of the lock at `path` wrote about itself."""
    try:
        with path.open("rb") as file:
            text = file.read(HOLDER_LIMIT_BYTES)
    except OSError:
        text = b""
    return text.decode(errors="replace").strip() or "another process"


def _whole_file(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
