"""Processes that left the group they were started in, and how they are found and ended.

A program can leave its process group (setsid), but not its environment behind without an effort:
each child carries a mark there. While its owner lives, such a daemon comes back to the owner as an
adopted child, because the owner is a subreaper; after the owner's death, whoever takes over looks
for the mark in every process of this user. A daemon that wiped its environment belongs to nobody:
the living owner ends it soon after it was adopted; once that owner is dead, nobody finds it.
"""

import logging
import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from engine.core.errors import ExternalError
from engine.system import family
from engine.system.identity import (
    ProcessIdentity,
    ProcessStat,
    all_pids,
    boot_id,
    identify,
    is_alive,
    read_stat,
)

MARK_VARIABLE = "PINATA_MARK"
CALL_VARIABLE = "PINATA_CALL"

_log = logging.getLogger(f"pinata.{__name__}")
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05
_END_LIMIT_S = 10.0
# One look at all processes may miss one that is just being born, or executing another program.
_EMPTY_LOOKS = 3
# How often one look goes after what was born during it.
_NEWBORN_ROUNDS = 10

_MARK = MARK_VARIABLE.encode()
_CALL = CALL_VARIABLE.encode()


async def end_adopted(call: str) -> None:
    """Kill and collect every adopted child whose environment names `call`, until none is left.

    Those whose environment names no call that is going on go too: they meant not to be found.
    Also collects adopted children that died by themselves, whoever they belonged to. What cannot be
    killed in ten seconds is left.
    """
    await _end_adopted(call)


def adopted_by_call() -> Mapping[str, Sequence[ProcessIdentity]]:
    """Return the adopted children that live, by the call that their environment names; blocks."""
    found: dict[str, list[ProcessIdentity]] = {}
    for stat in family.adopted() if family.adopts() else ():
        call = b"" if stat.is_dead else _environment(stat.pid).get(_CALL, b"")
        if call:
            identity = ProcessIdentity(stat.pid, stat.start_ticks, boot_id())
            found.setdefault(call.decode("ascii", "replace"), []).append(identity)
    return found


async def end_unclaimed() -> None:
    """Kill and collect every adopted child whose environment names no call that is going on.

    What cannot be killed in ten seconds is left.
    """
    await _end_adopted(None)


async def _end_adopted(call: str | None) -> None:
    if not family.adopts() or not family.has_children():
        return
    hunt = _AdoptedHunt(None if call is None else call.encode())
    if not await _ends(lambda: not family.has_children() or hunt.is_over()):
        _log.warning("cannot end what came back to this process; leaving it")


async def end_marked(prefix: str) -> list[ProcessIdentity]:
    """Kill every process of this user whose mark starts with `prefix`, until none is left.

    Whatever its pid, group and parent; never this process or the first one. Collects those that
    are adopted children of ours.

    Args:
        prefix: a run's token, possibly with more of the mark; never empty.

    Returns:
        Those that were killed, in the order they were found.

    Raises:
        ExternalError: some could not be killed in ten seconds.
    """
    assert prefix
    return await _end_all(partial(_marked, prefix.encode()))


def find_marked(prefix: str) -> list[ProcessIdentity]:
    """Return every process of this user whose mark starts with `prefix`; blocks."""
    assert prefix
    return list(_marked(prefix.encode()))


async def end_recorded(identities: Collection[ProcessIdentity]) -> list[ProcessIdentity]:
    """Kill those of `identities` that still are the processes they were, with groups they lead.

    One that a library started shares its group with the owner of then, and so maybe with a shell
    and others that are none of ours; it goes alone.

    Returns:
        Those that were killed.

    Raises:
        ExternalError: some could not be killed in ten seconds.
    """
    return await _end_all(lambda: identities, leaders_only=True)


async def _end_all(
    find: Callable[[], Iterable[ProcessIdentity]], *, leaders_only: bool = False
) -> list[ProcessIdentity]:
    hunt = _Hunt(find, leaders_only=leaders_only)
    if not await _ends(hunt.is_over):
        raise ExternalError(f"cannot end process {', '.join(str(one.pid) for one in hunt.killed)}")
    return list(hunt.killed)


async def _ends(is_over: Callable[[], bool]) -> bool:
    """Look again and again, in a thread; return whether it was over in time."""
    pause_s = _FIRST_PAUSE_S
    with trio.move_on_after(_END_LIMIT_S):
        while not await trio.to_thread.run_sync(is_over):
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return True
    return False


class _Hunt:
    """Kills what `find` yields, the moment it is found, until nothing of it is left.

    A process is found by its environment, and has none while it executes another program or is
    dying; so one look that finds nothing proves nothing.

    Attributes:
        killed: in the order they were found.
    """

    def __init__(
        self, find: Callable[[], Iterable[ProcessIdentity]], *, leaders_only: bool
    ) -> None:
        self.killed: dict[ProcessIdentity, None] = {}
        self._find = find
        self._leaders_only = leaders_only
        self._groups: set[int] = set()
        self._looks_left = _EMPTY_LOOKS

    def is_over(self) -> bool:
        """Look once, kill what is found, and return whether there is nothing left to do."""
        found = False
        for identity in self._find():
            if identity.pid not in (1, os.getpid()) and is_alive(identity):
                found = True
                self.killed[identity] = None
                self._groups |= _kill(identity, leaders_only=self._leaders_only)
        family.collect_adopted()
        if found or self._is_dying():
            self._looks_left = _EMPTY_LOOKS
        else:
            self._looks_left -= 1
        return self._looks_left == 0

    def _is_dying(self) -> bool:
        if any(is_alive(identity) for identity in self.killed):
            return True
        stats = map(read_stat, all_pids()) if self._groups else ()
        return any(
            stat.group in self._groups and not stat.is_dead for stat in stats if stat is not None
        )


class _AdoptedHunt:
    """Kills and collects the adopted children of one call, and of none, until they are gone."""

    def __init__(self, call: bytes | None) -> None:
        self._call = call
        self._killed: set[int] = set()
        # A process has no environment while it executes another program, so once is no proof.
        self._unclaimed: set[tuple[int, int]] = set()
        self._looks_left = _EMPTY_LOOKS

    def is_over(self) -> bool:
        """Look once, kill what is found, and return whether there is nothing left to do."""
        adopted = family.adopted()
        claims = {stat: _environment(stat.pid).get(_CALL) for stat in adopted if not stat.is_dead}
        for stat in (stat for stat, call in claims.items() if call and call == self._call):
            self._kill(stat)
        unclaimed = {
            _key(stat)
            for stat, call in claims.items()
            if call is None or not family.is_going_on(call)
        }
        with family.strangers() as strangers:
            for stat in strangers:
                if _key(stat) in unclaimed & self._unclaimed:
                    self._kill(stat)
        self._unclaimed = unclaimed
        if adopted:
            family.collect_adopted()
            adopted = family.adopted()
        if any(stat.pid in self._killed for stat in adopted):
            return False
        self._looks_left -= 1
        return self._looks_left == 0 or not adopted

    def _kill(self, stat: ProcessStat) -> None:
        self._killed.add(stat.pid)
        self._looks_left = _EMPTY_LOOKS
        with suppress(ProcessLookupError, PermissionError):
            os.kill(stat.pid, signal.SIGKILL)


def _key(stat: ProcessStat) -> tuple[int, int]:
    return stat.pid, stat.start_ticks


def _marked(prefix: bytes) -> Iterator[ProcessIdentity]:
    for pid in _pids_with_newborns():
        if _is_mine(pid) and _environment(pid).get(_MARK, b"").startswith(prefix):
            identity = identify(pid)
            if identity is not None:
                yield identity


def _pids_with_newborns() -> Iterator[int]:
    """Yield every process, and then those that were born meanwhile, a few times over."""
    seen: set[int] = set()
    for _ in range(_NEWBORN_ROUNDS):
        born = [pid for pid in all_pids() if pid not in seen]
        if not born:
            return
        seen.update(born)
        yield from born


def _kill(identity: ProcessIdentity, *, leaders_only: bool = False) -> set[int]:
    """Kill exactly this process, and with it its group; return the group if it was killed too.

    With `leaders_only`, the group goes only if the process leads it.

    The group goes too because it is the only thing that is killed at one stroke: a process that
    forks and exits in a circle is never met alive by somebody who looks at one after another.
    """
    groups: set[int] = set()
    with suppress(OSError):
        pidfd = os.pidfd_open(identity.pid)
        try:
            # The descriptor holds on to one process; what is true of it after opening stays true.
            stat = read_stat(identity.pid)
            if stat is None or stat.start_ticks != identity.start_ticks:
                return groups
            # Everything that was started for a run has a session that is not ours.
            takes_group = stat.group == stat.pid or not leaders_only
            if takes_group and stat.session != os.getsid(0) and stat.group > 1:
                os.killpg(stat.group, signal.SIGKILL)
                groups.add(stat.group)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            _log.info("killed process %s, left over from an earlier owner", identity.pid)
        finally:
            os.close(pidfd)
    return groups


def _is_mine(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _environment(pid: int) -> Mapping[bytes, bytes]:
    """Return the environment that `pid` was started with; empty if it is dead or not for us."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    entries = (entry.partition(b"=") for entry in text.split(b"\0"))
    return {name: value for name, _, value in entries}
