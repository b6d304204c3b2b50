"""Files that survive a crash whole, and reads that nothing can divert.

Every function blocks; callers on the loop hop to a thread. What is durable on return stays so when
the machine loses power: the bytes were flushed before the name, and the name before the return.
"""

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.core.errors import ConflictError, CorruptionError, UsageError, reason_of
from engine.system import faults

# Below this many files, flushing each of them is cheaper than flushing a whole file system, which
# also waits for what everybody else has written.
_FLUSH_TOGETHER_FROM = 4
_PRIVATE_DIR_MODE = 0o700
_PIECE_BYTES = 64 << 10


def replace_file(
    path: Path, data: bytes, mode: int = 0o600, *, fault: str, durable: bool = True
) -> None:
    """Put `data` at `path`, durably: a reader, or a crash, sees the old contents or the new.

    Args:
        path: replaced if it is there, also when it is a symbolic link (the link itself is).
        data: the whole new contents.
        mode: exact permissions, whatever the umask.
        fault: prefix of the crash points `.started`, `.written`, `.renamed` and `.durable`.
        durable: if not, a crash of the machine may bring back the old contents, whole.

    Raises:
        OSError: nothing was changed, or the rename is done and only its flush failed.
    """
    faults.point(f"{fault}.started")
    with _staged(path, data, mode) as staged:
        # Without it, a crash could leave the new name with nothing in it.
        _flush(staged)
        faults.point(f"{fault}.written")
        staged.rename(path)
        faults.point(f"{fault}.renamed")
    if durable:
        sync_dir(path.parent)
        faults.point(f"{fault}.durable")


def replace_briefly(path: Path, data: bytes) -> None:
    """Put `data` at `path` for as long as this process lives: a reader sees all of it or the old.

    Nothing is flushed, since after a crash nobody needs it. Only this user can read it.

    Raises:
        OSError: nothing was changed.
    """
    with _staged(path, data, 0o600) as staged:
        staged.rename(path)


def replace_many(files: Sequence[tuple[Path, bytes]], mode: int = 0o600, *, fault: str) -> None:
    """Do `replace_file` for each of `files`, in order, at the price of about one flush.

    Each file is old or new, never torn; a crash may leave the first ones new and the rest old.

    Raises:
        OSError: some of the files may have been replaced.
    """
    faults.point(f"{fault}.started")
    with contextlib.ExitStack() as stack:
        staged = [stack.enter_context(_staged(path, data, mode)) for path, data in files]
        _flush_all(staged)
        faults.point(f"{fault}.written")
        for source, (target, _) in zip(staged, files, strict=True):
            source.rename(target)
            faults.point(f"{fault}.renamed")
    for folder in dict.fromkeys(path.parent for path, _ in files):
        sync_dir(folder)
    faults.point(f"{fault}.durable")


def read_regular(path: Path, limit_bytes: int, *, start: int = 0) -> bytes:
    """Return the contents of the file at `path`, which must be a plain one.

    Args:
        path: of the file.
        limit_bytes: the most that it may hold, from `start` on.
        start: how many bytes to leave out at its beginning.

    Raises:
        FileNotFoundError: there is nothing at `path`.
        CorruptionError: it is a link, a folder or a device, or is longer than `limit_bytes`.
    """
    try:
        data = _read_plain(path, os.O_NOFOLLOW, limit_bytes, start)
    except OSError as error:
        # ENXIO is a socket's answer.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise CorruptionError(f"{path} is not a regular file") from error
        raise
    if data is None:
        raise CorruptionError(f"{path} is not a regular file")
    if len(data) > limit_bytes:
        raise CorruptionError(f"{path} is longer than {limit_bytes} bytes")
    return data


def read_input(path: Path, limit_bytes: int, *, name: str | None = None) -> bytes:
    """Return the contents of the file that a person names at `path`, through links too.

    Args:
        path: of the file.
        limit_bytes: the most that it may hold.
        name: what messages call it; its path without one.

    Raises:
        UsageError: it cannot be read, is no regular file, or is longer than `limit_bytes`.
    """
    name = name or str(path)
    try:
        data = _read_plain(path, 0, limit_bytes)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {reason_of(error)}") from error
    if data is None:
        raise UsageError(f"{name} is no regular file")
    if len(data) > limit_bytes:
        raise UsageError(f"{name} is longer than {limit_bytes:,} bytes")
    return data


def is_there(path: Path) -> bool:
    """Return whether anything stands at `path`, be it a link that leads nowhere.

    Raises:
        UsageError: that cannot be told.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from error
    return True


def _read_plain(path: Path, flags: int, limit_bytes: int, start: int = 0) -> bytes | None:
    """Return a byte more than the limit at most; None when it is no regular file."""
    # Without O_NONBLOCK, opening a FIFO would wait for a writer for ever.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        if start:
            os.lseek(fd, start, os.SEEK_SET)
        # A read sets aside all that it asks for, so the limit alone, many times what most files
        # hold, would be dear. Some files do not tell their size or grow, hence the loop.
        due, room, pieces = max(0, found.st_size - start), limit_bytes + 1, []
        while room and (piece := os.read(fd, min(due or _PIECE_BYTES, room))):
            pieces.append(piece)
            due, room = max(0, due - len(piece)), room - len(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def make_private_dir(path: Path) -> None:
    """Make sure that `path` is a folder that only this user can enter, and its parents exist.

    Missing parents are made private too; existing ones are left alone. Durable on return.

    Raises:
        ConflictError: something else stands there, or the folder belongs to somebody else.
    """
    if not path.parent.is_dir():
        make_private_dir(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(_PRIVATE_DIR_MODE)
        sync_dir(path.parent)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise ConflictError(f"{path} is not a folder of its own; move it away and try again")
    if found.st_uid != os.geteuid():
        raise ConflictError(f"{path} belongs to another user; move it away and try again")
    if stat.S_IMODE(found.st_mode) != _PRIVATE_DIR_MODE:
        path.chmod(_PRIVATE_DIR_MODE)


def sync_dir(path: Path) -> None:
    """Make the names in the folder `path` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def flush_file_system(path: Path) -> None:
    """Make durable whatever was written to the file system that holds `path`; see syncfs(2)."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _LIBC.syncfs(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(fd)


@contextlib.contextmanager
def _staged(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Write `data` beside `path` under a name of its own; remove it if the block fails."""
    staged = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb", buffering=0) as file:
            os.fchmod(fd, mode)
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        yield staged
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _flush_all(paths: Sequence[Path]) -> None:
    if len(paths) < _FLUSH_TOGETHER_FROM:
        for path in paths:
            _flush(path)
        return
    for path in {path.stat().st_dev: path for path in paths}.values():
        flush_file_system(path)


_LIBC = ctypes.CDLL(None, use_errno=True)
