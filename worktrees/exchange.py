"""Moves between the checkout and a private folder of slots that never overwrite what is there.

Where the kernel can, a file is put in place, taken away or exchanged in one step, so that a crash
leaves either the state before or the state after. Where it cannot, an exchange is made of steps:
the file is taken away whole, and the new one gets its name only while the place is free. The file
is then absent for a moment, and a crash there leaves both sides in the slots.
"""

import ctypes
import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from engine.core.errors import ConflictError
from engine.system import faults

# renameat2(2).
_NOREPLACE = 1
_EXCHANGE = 2

# What a kernel or a file system says that does not know a call, or cannot give a second name.
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


class NoExchangeError(ConflictError):
    """The file system offers no move that is certain to overwrite nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"the file system of {folder} can neither exchange two files in one step (renameat2) "
            "nor give a file a second name (link), so nothing could be taken back safely; keep "
            "the checkout on a local file system"
        )


class Mover(Protocol):
    """Moves names between an open folder of the checkout and the open folder of slots.

    Nobody else writes to the slots. A move that raises may leave a second name of a file in the
    slots: one that is the very file in the checkout means nothing and can go.
    """

    @property
    def in_one_step(self) -> bool:
        """Whether a file is at no moment absent while it is replaced."""
        ...

    def take(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """Move what stands at `name` into the free `slot`.

        Raises:
            FileExistsError: the slot is taken.
            IsADirectoryError: a folder stands there, which this mover does not move.
            OSError: nothing was moved for another reason.
        """
        ...

    def put(self, slots: int, slot: bytes, folder: int, name: bytes) -> None:
        """Move what lies in `slot` to the free `name`.

        Raises:
            FileExistsError: the place is taken.
            OSError: it was not moved, or only its name in the slots could not be removed.
        """
        ...

    def swap(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """Let what stands at `name` and what lies in `slot` change places.

        Raises:
            OSError: nothing was moved, or what stood there lies in `aside_of(slot)`.
        """
        ...


def aside_of(slot: bytes) -> bytes:
    """Return where an exchange by steps keeps what it took away until `slot` is free for it."""
    return slot + b"~"


class KernelMover:
    """Each move is one step of the kernel, by renameat2(2)."""

    in_one_step = True

    def take(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """See `Mover.take`."""
        _rename(folder, name, slots, slot, _NOREPLACE)

    def put(self, slots: int, slot: bytes, folder: int, name: bytes) -> None:
        """See `Mover.put`."""
        _rename(slots, slot, folder, name, _NOREPLACE)

    def swap(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """See `Mover.swap`."""
        _rename(folder, name, slots, slot, _EXCHANGE)


def _rename(source: int, name: bytes, target: int, new_name: bytes, flags: int) -> None:
    if _RENAMEAT2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _RENAMEAT2(source, name, target, new_name, flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(new_name))


class LinkMover:
    """Takes by rename(2) and puts by link(2), which never overwrites.

    rename(2) takes whatever stands at a name, at once, so an edit of that moment is taken along
    and comes to light in the slot.
    """

    in_one_step = False

    def take(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """See `Mover.take`."""
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(name))
        # What cannot be linked, another user's file for one, could not be put back. A slot that
        # is taken shows here as well.
        _link(folder, name, slots, slot)
        faults.point("exchange.tried")
        os.unlink(slot, dir_fd=slots)
        os.rename(name, slot, src_dir_fd=folder, dst_dir_fd=slots)

    def put(self, slots: int, slot: bytes, folder: int, name: bytes) -> None:
        """See `Mover.put`."""
        if stat.S_ISDIR(os.lstat(slot, dir_fd=slots).st_mode):
            # A folder takes the place of an empty folder at most.
            os.rename(slot, name, src_dir_fd=slots, dst_dir_fd=folder)
            return
        _link(slots, slot, folder, name)
        faults.point("exchange.linked")
        os.unlink(slot, dir_fd=slots)

    def swap(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """See `Mover.swap`."""
        aside = aside_of(slot)
        self.take(folder, name, slots, aside)
        faults.point("exchange.taken")
        self.put(slots, slot, folder, name)
        faults.point("exchange.put")
        os.rename(aside, slot, src_dir_fd=slots, dst_dir_fd=slots)


def _link(source: int, name: bytes, target: int, new_name: bytes) -> None:
    os.link(name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)


MOVERS: tuple[Mover, ...] = (KernelMover(), LinkMover())


def choose_mover(folder: Path, movers: tuple[Mover, ...] = MOVERS) -> Mover:
    """Return the first mover that works in the private `folder`, which is left as it was; blocks.

    Raises:
        NoExchangeError: none does.
        OSError: the folder cannot be written.
    """
    for mover in movers:
        if _works(mover, folder):
            return mover
    raise NoExchangeError(folder)


def mover_for(*, in_one_step: bool) -> Mover:
    """Return the mover of that manner."""
    return next(mover for mover in MOVERS if mover.in_one_step is in_one_step)


# Not the names of slots, which are numbers.
_FIRST, _SECOND, _LINK = b"try-one", b"try-two", b"try-link"


def _works(mover: Mover, folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove_tries(descriptor)
        return _try_out(mover, descriptor)
    finally:
        _remove_tries(descriptor)
        os.close(descriptor)


def _try_out(mover: Mover, folder: int) -> bool:
    """Whether two files change places and a link goes and comes; leaves what it made."""
    for name in (_FIRST, _SECOND):
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=folder))
    os.symlink(b"nowhere", _LINK, dir_fd=folder)
    first = os.lstat(_FIRST, dir_fd=folder)
    try:
        mover.swap(folder, _FIRST, folder, _SECOND)
        mover.take(folder, _LINK, folder, aside_of(_LINK))
        mover.put(folder, aside_of(_LINK), folder, _LINK)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return False
        raise
    # A second name counts only where both are seen to be the same file.
    return os.path.samestat(first, os.lstat(_SECOND, dir_fd=folder))


def _remove_tries(folder: int) -> None:
    for name in (_FIRST, _SECOND, aside_of(_SECOND), _LINK, aside_of(_LINK)):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


# A C library without the call (musl before 1.2.6, macOS) is found out by trying.
_RENAMEAT2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
