"""What programs use: computing, memory and storage, read from /proc by psutil.

Loaded only by who measures.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property, reduce

import psutil

from engine.system import strays
from engine.system.identity import ProcessIdentity, all_pids, listed_children, read_stat
from engine.system.meter import Program, Resources


def read_resources(programs: Collection[Program]) -> Mapping[Program, Resources]:
    """Return what each of `programs` and all that it started use now; blocks.

    A process that was started is found by its parents, and one that lost them by the call that its
    environment names. One that is gone uses nothing, but what it computed is its parent's once
    that has collected it. The numbers of a program that nobody has collected yet are its own.
    """
    look = _Look()
    return {
        program: reduce(Resources.plus, map(_read, look.members(program)), Resources())
        for program in programs
    }


class _Look:
    """One look at the processes of this machine; it goes through all of them once at most."""

    def members(self, program: Program) -> Collection[int]:
        """Return the processes that belong to a program, each once."""
        left = [program.leader.pid]
        left += [identity.pid for identity in self._adopted.get(program.call, ())]
        found: dict[int, None] = {}
        while left:
            pid = left.pop()
            if pid not in found:
                found[pid] = None
                left += self._children(pid)
        return found

    def _children(self, pid: int) -> Collection[int]:
        listed = listed_children(pid)
        return self._by_parent[pid] if listed is None else listed

    @cached_property
    def _adopted(self) -> Mapping[str, Collection[ProcessIdentity]]:
        return strays.adopted_by_call()

    @cached_property
    def _by_parent(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for stat in map(read_stat, all_pids()):
            if stat is not None:
                found[stat.parent].append(stat.pid)
        return found


def _read(pid: int) -> Resources:
    """Return what one process uses, and what those of its children used that it has collected."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            is_dead = process.status() == psutil.STATUS_ZOMBIE
            cpu_s = sum(process.cpu_times()[:4])
            memory_bytes = process.memory_info().rss
    except psutil.Error:
        return Resources()
    read_bytes = written_bytes = None
    try:
        storage = process.io_counters()
        read_bytes, written_bytes = storage.read_bytes, storage.write_bytes
    except (psutil.Error, RuntimeError, ValueError):
        pass  # not for us, or a kernel that does not count
    return Resources(cpu_s, memory_bytes, 0 if is_dead else 1, read_bytes, written_bytes)
