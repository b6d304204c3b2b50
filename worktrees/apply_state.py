"""What stands at a path right now, looked at exactly, and whether that is what was planned."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from engine.core.errors import ExternalError, reason_of
from engine.core.ids import BlobId
from worktrees.journal import FileIdentity, FileKind, FileState

_READ_BYTES = 1 << 20

# The coarsest time stamp of a file system in use (FAT) counts in steps of two seconds: a file
# older than that when it was read has another time once it is written again.
_SETTLED_AFTER_NS = 2_000_000_000


@contextmanager
def machine_failures(doing: str) -> Iterator[None]:
    """Turn a system error inside the block into an ExternalError that starts with `doing`."""
    try:
        yield
    except OSError as error:
        where = "" if error.filename is None else f" ({error.filename})"
        raise ExternalError(f"{doing}: {reason_of(error)}{where}") from error


def read_state(
    folder: int, name: bytes, *, mode: str = "", blob: BlobId | None = None, now_ns: int = 0
) -> FileState | None:
    """Return what stands at `name` in the open `folder`, its bytes included; blocks.

    Args:
        folder: an open folder; `name` is not followed when it is a link.
        name: one component.
        mode: Git's mode and
        blob: Git's id for it, which are taken over as they are.
        now_ns: the file system's idea of now, which decides whether the file counts as settled.

    Returns:
        None when nothing stands there, or a folder or a device, none of which Git stores.

    Raises:
        OSError: it cannot be read.
    """
    try:
        found = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            kind, (size, sha256) = FileKind.SYMLINK, _digest_link(folder, name)
        elif stat.S_ISREG(found.st_mode):
            kind, (size, sha256) = FileKind.FILE, _digest_file(folder, name)
        else:
            return None
    except FileNotFoundError:
        return None
    settled = found.st_mtime_ns < now_ns - _SETTLED_AFTER_NS
    identity = FileIdentity(found.st_dev, found.st_ino, found.st_mtime_ns, settled)
    permissions = stat.S_IMODE(found.st_mode)
    return FileState(kind, mode, blob or BlobId(""), permissions, size, sha256, identity)


def _digest_link(folder: int, name: bytes) -> tuple[int, str]:
    target = os.readlink(name, dir_fd=folder)
    return len(target), hashlib.sha256(target).hexdigest()


def _digest_file(folder: int, name: bytes) -> tuple[int, str]:
    # O_NONBLOCK: should a FIFO have taken the file's place, opening it must not wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=folder)
    digest, size = hashlib.sha256(), 0
    try:
        while block := os.read(descriptor, _READ_BYTES):
            digest.update(block)
            size += len(block)
    finally:
        os.close(descriptor)
    return size, digest.hexdigest()


def is_untouched(folder: int, name: bytes, planned: FileState) -> bool:
    """Whether `name` in the open `folder` is the very file of the plan, or an equal one; blocks.

    Cheap for a file that has not been touched: its identity tells. Anything else is read.
    """
    try:
        found = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    identity = planned.identity
    if (
        identity.settled
        and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        == (identity.device, identity.inode, planned.size, identity.mtime_ns)
        and (planned.kind is FileKind.SYMLINK or stat.S_IMODE(found.st_mode) == planned.permissions)
    ):
        return True
    now = read_state(folder, name)
    return now is not None and now.same_content(planned)
