"""What a session's host costs while nothing works."""

import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure
from pinata.work.host_client import attach
from pinata.work.host_record import find_host
from pinata.work.session import Session

_PROJECT = Path(__file__).resolve().parent.parent
_IDLE_S = 5


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        env = {**os.environ, "PYTHONPATH": str(_PROJECT), "XDG_STATE_HOME": scratch}
        session = Session.of("benchmark", env)
        hello = {"type": "hello", "v": 1, "role": "session", "session": session.key, "cwd": scratch}
        attachment = await attach(session, env, hello)
        async with attachment.stream:
            host = await find_host(session)
            assert host is not None
            # What it does after its welcome is over soon.
            await trio.sleep(1)
            before = _number(host.pid, "voluntary_ctxt_switches")
            await trio.sleep(_IDLE_S)
            woken = _number(host.pid, "voluntary_ctxt_switches") - before
            memory_kb = _number(host.pid, "VmRSS")
            os.kill(host.pid, signal.SIGTERM)
            while await attachment.stream.receive_some():
                pass
    return [
        Figure("idle host attached to a session, memory", memory_kb / 1024, "MB", 80),
        Figure(f"idle host, times woken in {_IDLE_S} s", woken, "", 0),
    ]


def _number(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
