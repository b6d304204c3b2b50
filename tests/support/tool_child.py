"""A process that calls tools in children that may be told to die.

Starting Python and loading pinata costs more than a small run, so one process is started, and it
forks once for each call.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio

from engine.system import faults
from pinata import app
from pinata.tools import gc, repair, rerun, runs
from pinata.tools.registry import GC, RERUN
from pinata.work.observer import Silence

LOADED = (gc, repair, rerun, runs)


class Forker:
    """The test's end: hands out calls and waits for how each ended."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def call(self, root: Path, tool: str, arguments: object, plan: str) -> int:
        """Call a tool, or rerun, from `root` under a fault plan; return the process's exit code.

        It is negative when a signal ended it, and 1 when the call failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(root), tool, arguments, plan]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def open_forker(env: Mapping[str, str]) -> Iterator[Forker]:
    """Start the process; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        env={**env, "PYTHONPATH": str(Path.cwd())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Forker(process)


def _serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _call(*json.loads(line))
                code = 0
            finally:
                # Not sys.exit: the buffers and the input are the parent's.
                os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _call(root: str, tool: str, arguments: object, plan: str) -> None:
    faults.install(plan)
    context = app.build_context(dict(os.environ), Path(root), Silence())
    if tool == RERUN:
        assert isinstance(arguments, str)
        trio.run(app.rerun_run, context, arguments)
    elif tool == GC:
        assert isinstance(arguments, list)
        trio.run(partial(app.collect_garbage, context, confirm=True, discard=arguments))
    else:
        trio.run(app.call_tool, context, tool, arguments)


if __name__ == "__main__":
    _serve()
