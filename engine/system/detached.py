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
# Started in the background by a shell that ends at once, the program is nobody's child: whoever
# ends this process with all that descends from it does not find it.
_IN_BACKGROUND = ("/bin/sh", "-c", '"$@" &', "sh")


async def start_detached(
    argv: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], log: int
) -> bytes | None:
    """Start a program that outlives this one, and return the first line that it says on stdout.

    None when it ended, or closed stdout, without one. Having said it, it turns stdout elsewhere:
    nobody reads the rest. It is no child of this process, has a session and a group of its own,
    carries no mark of a run, finds nothing on stdin and inherits no descriptor. Whoever stops
    waiting for its line ends it.

    Args:
        argv: see `launch`, as for the next two; what is wrong with it is told in the log.
        cwd: where it starts.
        env: its whole environment but for marks.
        log: a descriptor for its stderr, which stays the caller's.

    Raises:
        LaunchError: nothing could be started.
    """
    # The thread is waited for also when cancelled, so no program is born that nobody knows.
    shell = await trio.to_thread.run_sync(_start, argv, cwd, env, log)
    assert shell.stdout is not None
    said = None
    try:
        async with trio.lowlevel.FdStream(os.dup(shell.stdout.fileno())) as stream:
            said = await _first_line(stream)
    finally:
        shell.stdout.close()
        if said is None:
            # The group keeps its number for as long as somebody is in it.
            signal_group(shell.pid, signal.SIGKILL)
    return said


async def _first_line(stream: trio.abc.ReceiveStream) -> bytes | None:
    received = b""
    while b"\n" not in received:
        data = await stream.receive_some(_LINE_LIMIT_BYTES)
        if not data or len(received) > _LINE_LIMIT_BYTES:
            return None
        received += data
    return received.partition(b"\n")[0]


def _start(argv: tuple[str, ...], cwd: Path, env: Mapping[str, str], log: int) -> Popen:
    """Return the shell that has started it and has ended; blocks."""
    marks = (strays.MARK_VARIABLE, strays.CALL_VARIABLE)
    plain = {name: value for name, value in env.items() if name not in marks}
    with family.birth() as register:
        shell = launch((*_IN_BACKGROUND, *argv), cwd, plain, stdin=NOTHING, stderr=log)
        forget = register(shell.pid)
    shell.wait()
    forget()
    return shell
