"""Starts a program that outlives this one."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import trio

from engine.system import family, strays
from engine.system.groups import signal_group
from engine.system.launch import NOTHING, Popen, launch

_LINE_LIMIT_BYTES = 64 << 10

# Kept, so that nobody warns about a program that is still running when its Popen is collected.
_started: list[Popen] = []


async def start_detached(
    argv: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], log: int
) -> bytes | None:
    """Start a program that outlives this one, and return the first line that it says on stdout.

    None when it ended, or closed stdout, without one. Having said it, it turns stdout elsewhere:
    nobody reads the rest. It leads a session and a group of its own, carries no mark of a run,
    finds nothing on stdin and inherits no descriptor. Whoever stops waiting for its line ends it.

    Args:
        argv: see `launch`, as for the next two.
        cwd: where it starts.
        env: its whole environment but for marks.
        log: a descriptor for its stderr, which stays the caller's.

    Raises:
        LaunchError: it could not be started; nothing ran.
    """
    # The thread is waited for also when cancelled, so no child is born that nobody knows.
    popen = await trio.to_thread.run_sync(_spawn_detached, argv, cwd, env, log)
    assert popen.stdout is not None
    said = None
    try:
        async with trio.lowlevel.FdStream(os.dup(popen.stdout.fileno())) as stream:
            said = await _first_line(stream)
    finally:
        popen.stdout.close()
        if said is None:
            signal_group(popen.pid, signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(popen.wait)
    return said


async def _first_line(stream: trio.abc.ReceiveStream) -> bytes | None:
    received = b""
    while b"\n" not in received:
        data = await stream.receive_some(_LINE_LIMIT_BYTES)
        if not data or len(received) > _LINE_LIMIT_BYTES:
            return None
        received += data
    return received.partition(b"\n")[0]


def _spawn_detached(argv: tuple[str, ...], cwd: Path, env: Mapping[str, str], log: int) -> Popen:
    """Start it, and forget those that have ended before this process did; blocks."""
    marks = (strays.MARK_VARIABLE, strays.CALL_VARIABLE)
    plain = {name: value for name, value in env.items() if name not in marks}
    with family.birth() as register:
        popen = launch(argv, cwd, plain, stdin=NOTHING, stderr=log)
        register(popen.pid)
    _started[:] = [popen, *(each for each in _started if each.poll() is None)]
    return popen
