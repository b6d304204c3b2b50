"""Locks that the kernel releases when their holder dies.

A lock is an flock(2) on a file that is never removed: a removed lock file can be held twice. What
is written inside it names the holder in messages and decides nothing.

Those of one process that wait for the same lock stand in a queue, in the order in which they came:
only the first of them asks the kernel, and the next one goes on as soon as it is done.
"""

import errno
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

import filelock
import trio

from engine.core.errors import ExternalError, HeldElsewhereError, reason_of
from engine.system.holder import (
    HOLDER_LIMIT_BYTES,
    hide_holder,
    read_holder,
    read_live_holder,
    show_holder,
)

_log = logging.getLogger(f"pinata.{__name__}")

# A waiter looks again after this long, and after twice as long each time up to the second number.
# The kernel could wake it, but only in a thread that no cancellation could call back.
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.25

# By real path; a queue is there for as long as somebody stands in it. One process can have several
# loops in several threads; they meet at the kernel's lock, like processes.
_queues: "trio.lowlevel.RunVar[WeakValueDictionary[str, trio.Lock]]" = trio.lowlevel.RunVar(
    "pinata lock queues"
)


@asynccontextmanager
async def claim(path: Path, *, what: str, holder: str) -> AsyncIterator[None]:
    """Hold the lock at `path` inside the block; do not wait for it.

    Args:
        path: its folder exists; the file is made if need be, readable by this user alone.
        what: the thing locked, as an error message begins with it.
        holder: who asks, as an error message of somebody else ends with it.

    Raises:
        HeldElsewhereError: a live holder has it, be it in this process.
        ExternalError: the file system has no locks, or the lock file cannot be opened.
    """
    lock = _Lock(path, holder)
    if not await _try_acquire(lock):
        raise HeldElsewhereError(what, await trio.to_thread.run_sync(read_holder, path))
    try:
        yield
    finally:
        await _release(lock)


@asynccontextmanager
async def hold(path: Path, *, what: str, holder: str) -> AsyncIterator[None]:
    """Hold the lock at `path` inside the block, waiting for it as long as it takes.

    Within one loop the lock goes round in the order in which it was asked for; between processes
    it goes to whoever looks first. The block must be left by the task that entered it, and must not
    ask for the same lock again.

    Raises:
        ExternalError: the file system has no locks, or the lock file cannot be opened.
    """
    lock = _Lock(path, holder)
    async with await _queue(path):
        pause_s = _FIRST_PAUSE_S
        while not await _try_acquire(lock):
            _log.debug("waiting for %s", what)
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        try:
            yield
        finally:
            await _release(lock)


@contextmanager
def claimed_if_free(path: Path, *, holder: str) -> Iterator[bool]:
    """Hold the lock at `path` inside the block unless somebody does; yield whether it is free.

    For what may be done only if nobody works there, and takes a moment. It blocks. A lock that was
    never taken is free, and its file is not made.

    Raises:
        ExternalError: as `claim`.
        OSError: it cannot be told who holds it.
    """
    if read_live_holder(path) is not None:
        yield False
        return
    if not path.exists():
        yield True
        return
    lock = _Lock(path, holder)
    if not lock.try_acquire():
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


async def _queue(path: Path) -> trio.Lock:
    """Return what those of this loop queue up at who want the lock at `path`; it is fair."""
    key = await trio.to_thread.run_sync(os.path.realpath, path)
    try:
        queues = _queues.get()
    except LookupError:
        queues = WeakValueDictionary()
        _queues.set(queues)
    return queues.setdefault(key, trio.Lock())


async def _try_acquire(lock: "_Lock") -> bool:
    # The thread is waited for also when cancelled, so no lock is taken that nobody releases.
    return await trio.to_thread.run_sync(lock.try_acquire)


async def _release(lock: "_Lock") -> None:
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(lock.release)


class _Lock:
    """A lock that its holder can be seen by; what it does blocks."""

    def __init__(self, path: Path, holder: str) -> None:
        """Begin without having it; the file is made when it is taken."""
        self._holder = holder
        self._fd = -1
        self._lock = filelock.UnixFileLock(
            path,
            mode=0o600,
            # Taken in one worker thread and released in another.
            thread_local=False,
            # A lock that is a mere file would outlive its holder.
            fallback_to_soft=False,
            preserve_lock_file=True,
            on_acquired=self._acquired,
        )

    def try_acquire(self) -> bool:
        """Take the lock; return whether that was possible.

        Raises:
            ExternalError: the file system has no locks, or the lock file cannot be opened.
        """
        path = self._lock.lock_file
        try:
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            return False
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise ExternalError(
                    f"the file system of {path} has no locks (flock); "
                    "keep the repository on a local disk"
                ) from error
            raise ExternalError(f"cannot lock {path}: {reason_of(error)}") from error
        return True

    def release(self) -> None:
        """Give the lock back."""
        hide_holder(self._fd)
        self._lock.release()

    def _acquired(self, fd: int) -> None:
        self._fd = fd
        show_holder(fd)
        # Overwritten and then cut, so that a reader never finds it empty.
        text = self._holder.encode()[:HOLDER_LIMIT_BYTES]
        # On a full disk the lock is held all the same; others only hear a worse name for it.
        with suppress(OSError):
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
