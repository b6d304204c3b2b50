"""Process groups: signalled as one, and empty before anyone goes on."""

import os
import signal
from contextlib import suppress

import trio

from engine.system.identity import all_pids, read_stat

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05
# The kernel hides a forking process from no signal, so a group is normally gone after one or two
# rounds. Later rounds look closer, since members may be dead without being collected.
_LOOK_CLOSER_AFTER_S = 0.01


def signal_group(group: int, number: int) -> bool:
    """Send signal `number` to all of `group`; return whether it has a process, dead or alive."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # all that are left run as somebody else
    return True


async def end_group(group: int) -> None:
    """Kill `group` until nothing in it lives, and collect those that are our children.

    Its leader must have been collected already. Does not return while a member refuses to die.
    """
    pause_s = _FIRST_PAUSE_S
    while signal_group(group, signal.SIGKILL):
        _collect(group)
        if not signal_group(group, 0):
            return
        # A member whose parent lives elsewhere and never collects it is dead all the same.
        if pause_s > _LOOK_CLOSER_AFTER_S and not await trio.to_thread.run_sync(_has_living, group):
            return
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _collect(group: int) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) != (0, 0):
            pass


def _has_living(group: int) -> bool:
    return any(
        stat.group == group and not stat.is_dead
        for stat in map(read_stat, all_pids())
        if stat is not None
    )
