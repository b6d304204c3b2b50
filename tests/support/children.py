"""The child processes of the test process."""

import os
import signal
from contextlib import suppress

import psutil


def end_children() -> list[str]:
    """End and collect the children of this process; describe those that there were."""
    try:
        # One system call when there are none, which is after nearly every test.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    left = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            left.append(f"{child.pid} {child.status()} {child.cmdline()}")
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
    return left
