"""The child processes of the test process."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.system import family
from engine.system.family import has_children
from engine.system.identity import ProcessStat, all_pids, read_stat


def end_children() -> list[str]:
    """End and collect the children of this process; describe those that there were."""
    if not has_children():
        return []
    left = []
    for stat in map(read_stat, all_pids()):
        if stat is not None and stat.parent == os.getpid():
            left.append(_description(stat))
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(stat.pid, signal.SIGKILL)
                os.waitpid(stat.pid, 0)
    return left


def adopt_no_more() -> None:
    """Let orphans go to the first process again, whoever has this one adopt them."""
    if family.adopts():
        family._set_subreaper(enabled=False)


@contextmanager
def adopting_nobody() -> Iterator[None]:
    """Let orphans of what is started inside the block go to the first process."""
    adopts = family.adopts()
    adopt_no_more()
    try:
        yield
    finally:
        if adopts:
            family.become_subreaper()


def _description(stat: ProcessStat) -> str:
    command = Path(f"/proc/{stat.pid}/cmdline").read_bytes().split(b"\0")[:-1]
    return f"{stat.pid} {stat.state} {command}"


def children() -> list[int]:
    """Return the numbers of this process's children, dead ones that nobody collected included."""
    stats = (read_stat(pid) for pid in all_pids())
    return [stat.pid for stat in stats if stat is not None and stat.parent == os.getpid()]
