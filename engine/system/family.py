"""The children of this process: which of them it started itself, and which it adopted.

Orphans of our children become ours, because this process is a subreaper. Whoever started a child
waits for it and wants its exit code; only adopted ones may be collected by others.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from engine.core.errors import ExternalError
from engine.system.identity import ProcessStat, all_pids, listed_children, read_stat

_PR_SET_CHILD_SUBREAPER = 36


class _Family:
    """Which children of this process were started by it, so that only adopted ones are collected.

    Collecting a child that somebody waits for would lose its exit code.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.births = 0
        self.own: dict[int, object] = {}
        self.calls: set[bytes] = set()
        self.adopts = False


_family = _Family()


def become_subreaper() -> None:
    """Let orphans of our children become our children, instead of the first process's.

    Holds for the whole process and from now on. Does nothing where the system cannot do it.

    Raises:
        ExternalError: the kernel refused.
    """
    if sys.platform != "linux":
        return
    _set_subreaper(enabled=True)


@contextmanager
def birth() -> Iterator[Callable[[int], Callable[[], None]]]:
    """Start a child inside the block.

    Yields:
        A function that says which pid was born and returns another one, to be called once that
        child is collected.
    """
    with _family.lock:
        _family.births += 1
    try:
        yield _register
    finally:
        with _family.lock:
            _family.births -= 1


def begin_call(call: str) -> None:
    """Let adopted children be spared that name `call`, until it ends."""
    _family.calls.add(call.encode())


def end_call(call: str) -> None:
    """Spare nobody any more who names `call`; it may have ended already."""
    _family.calls.discard(call.encode())


def is_going_on(call: bytes) -> bool:
    """Whether `call` has begun and not ended."""
    return call in _family.calls


def adopts() -> bool:
    """Whether orphans come to this process."""
    return _family.adopts


def collect_adopted() -> None:
    """Collect dead children that we did not start ourselves.

    They are known by their session: whatever `process.run` starts has one of its own, and so has
    all that comes from there, while programs that a library starts share ours.
    """
    with strangers() as found:
        for stat in found:
            if stat.is_dead:
                with suppress(ChildProcessError):
                    os.waitpid(stat.pid, os.WNOHANG)


@contextmanager
def strangers() -> Iterator[list[ProcessStat]]:
    """Yield the children that were surely adopted; none is born, and so none is taken for another.

    The list is empty while a child is being born: it is not registered yet.
    """
    with _family.lock:
        session = os.getsid(0)
        known = _family.adopts and not _family.births
        yield [stat for stat in adopted() if stat.session != session] if known else []


def adopted() -> list[ProcessStat]:
    """Return the children of this process that `process.run` did not start, or just starts."""
    me = os.getpid()
    stats = [read_stat(pid) for pid in _child_pids() if pid not in _family.own]
    return [stat for stat in stats if stat is not None and stat.parent == me]


def _child_pids() -> Iterable[int]:
    """Return the numbers of all children, and maybe of others, with the least effort there is."""
    listed = listed_children()
    return all_pids() if listed is None else listed


def has_children() -> bool:
    """Whether this process has any child at all; one system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _register(pid: int) -> Callable[[], None]:
    token = object()
    _family.own[pid] = token

    def forget() -> None:
        # The number may belong to a newer child of ours by now.
        if _family.own.get(pid) is token:
            del _family.own[pid]

    return forget


def _set_subreaper(*, enabled: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0) != 0:
        raise ExternalError(f"cannot adopt orphans: {os.strerror(ctypes.get_errno())}")
    _family.adopts = enabled
