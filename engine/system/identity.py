"""Which process a number means: a pid is reused, a pid with its start and its boot is not.

Reads /proc as proc(5) describes it.
"""

import functools
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What the kernel can give out: PID_MAX_LIMIT, and no more than a C `long long` holds.
HIGHEST_PID: Final = 1 << 22
HIGHEST_TICKS: Final = (1 << 63) - 1
# Fifty numbers and a name of at most sixteen characters.
_STAT_LIMIT_BYTES = 2048


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for as long as the machine keeps its records.

    Attributes:
        start_ticks: when the process started, in clock ticks since the boot.
        boot_id: the kernel's name for that boot.
    """

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What /proc/<pid>/stat says about a process, as far as anyone here needs it.

    Attributes:
        state: one letter; `Z` and `X` are dead, whoever still has to collect them.
    """

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        """Whether the process will never run again."""
        return self.state in "ZX"


def read_stat(pid: int) -> ProcessStat | None:
    """Return what the kernel says about `pid`; None when there is no such process."""
    # Read for every process there is, again and again, so without the comfort of Path.
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = os.read(fd, _STAT_LIMIT_BYTES)
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    # The second field is the program's name in parentheses, and the name may hold any of " ()".
    fields = text[text.rindex(b")") + 2 :].split(maxsplit=20)
    return ProcessStat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def all_pids() -> Iterator[int]:
    """Yield the numbers of the processes that exist now, dead but uncollected ones included."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def listed_children(pid: int | None = None) -> list[int] | None:
    """Return the numbers of all children of `pid`, dead but uncollected ones included.

    None on a kernel that lists no children, which is one without CONFIG_PROC_CHILDREN.

    Args:
        pid: whose; one that is gone, or hidden from us, has none. None means this process.
    """
    folder = f"/proc/{'self' if pid is None else pid}/task"
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for thread in os.listdir(folder):
            try:
                fd = os.open(f"{folder}/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                if Path(f"{folder}/{thread}").exists():
                    return None
                continue  # the thread has ended
            with os.fdopen(fd, "rb") as file:
                found += map(int, file.read().split())
    return found


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process that has the number `pid` now; None when none has."""
    stat = read_stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether exactly this process still runs; one that only waits to be collected does not."""
    stat = read_stat(identity.pid)
    return (
        stat is not None
        and not stat.is_dead
        and stat.start_ticks == identity.start_ticks
        and boot_id() == identity.boot_id
    )


def now_ticks() -> int:
    """Return the present as processes tell when they started, in clock ticks since the boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 10**9


@functools.cache
def boot_id() -> str:
    """Return the kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
