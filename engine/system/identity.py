"""Which process a number means: a pid is reused, a pid with its start and its boot is not.

Reads /proc as proc(5) describes it.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


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
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, and the name may hold any of " ()".
    fields = text[text.rindex(b")") + 2 :].split()
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
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


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


@functools.cache
def boot_id() -> str:
    """Return the kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
