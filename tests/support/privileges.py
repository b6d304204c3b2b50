"""Work done without the privileges of root."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")

# capget(2): version 3 of the header, followed by two words each of three sets.
_VERSION_3 = 0x20080522


# prctl(2) and capabilities(7): a program that root starts does not get its capabilities back.
_SET_SECURITY_BITS, _NO_ROOT = 28, 1


def unprivileged(work: Callable[[], Answer]) -> Answer:
    """Return what `work` returns in a thread to which permission bits apply, also as root.

    They apply to the programs that it starts, too.
    """
    with ThreadPoolExecutor(1, initializer=_drop_capabilities) as thread:
        return thread.submit(work).result()


def _drop_capabilities() -> None:
    if os.geteuid() == 0:
        assert ctypes.CDLL(None).prctl(_SET_SECURITY_BITS, _NO_ROOT, 0, 0, 0) == 0
    # Capabilities belong to a thread, so the rest of the process keeps its own.
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, none) == 0
