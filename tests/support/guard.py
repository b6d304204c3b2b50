"""Raises where something that blocks is called on the thread that runs the trio loop."""

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import filelock
import pytest
import trio

_BLOCKING: tuple[tuple[object, str], ...] = (
    (os, "fsync"),
    (os, "fdatasync"),
    (filelock.BaseFileLock, "acquire"),
    (subprocess.Popen, "__init__"),
)

_allowed = threading.local()
P = ParamSpec("P")
R = TypeVar("R")


def guard_loop_thread(patch: pytest.MonkeyPatch) -> None:
    """Make flushing, locking and spawning raise AssertionError on the loop's own thread."""
    for owner, name in _BLOCKING:
        _guard(patch, owner, name)


def guard_pygit2(patch: pytest.MonkeyPatch) -> None:
    """Do the same for opening a repository, once something has imported pygit2."""
    _guard(patch, sys.modules["pygit2"].Repository, "__init__")


@contextmanager
def blocking_allowed() -> Iterator[None]:
    """Let a test prepare something from inside an async function, where nothing else waits."""
    _allowed.depth = getattr(_allowed, "depth", 0) + 1
    try:
        yield
    finally:
        _allowed.depth -= 1


def _guard(patch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    what = f"{getattr(owner, '__name__', owner)}.{name}"
    patch.setattr(owner, name, _guarded(getattr(owner, name), what))


def _guarded(original: Callable[P, R], what: str) -> Callable[P, R]:
    @functools.wraps(original)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        if trio.lowlevel.in_trio_run() and not getattr(_allowed, "depth", 0):
            raise AssertionError(f"{what} blocks the loop: hop with trio.to_thread.run_sync")
        return original(*args, **kwargs)

    return guarded
