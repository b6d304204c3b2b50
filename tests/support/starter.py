"""A process that has loaded pinata, and starts the command by forking.

Python needs more time to load pinata than most commands need for their work, and tests start
hundreds of them. What is forked is as real a process as any: it has a number, descriptors, a
folder and an environment of its own, and dies of the signals that it is sent.

The starter is no child of the tests' process, so that no test finds it among its own. It ends with
the process that it was started for, however that ends.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TextIO

import coverage

from pinata import __main__ as command, app
from pinata.faces import cli
from tests.support.children import adopting_nobody

_ROOT = Path(__file__).resolve().parents[2]
# Loaded before the first command starts. The face for MCP clients is started in another way.
_LOADED = sorted({*cli._MODULES.values(), *app._MODULES.values()} - {"pinata.faces.mcp"})
_MEASURED = "COVERAGE_PROCESS_CONFIG"
_LENGTH_BYTES = 8
_lock = threading.Lock()


@dataclass(slots=True)
class Started:
    """A command that was started.

    Attributes:
        pid: its number.
        stdout: what it writes there, and what it starts, unless that writes elsewhere.
        stderr: the same of its errors.
        returncode: None until it has been waited for; a negative one names a signal.
    """

    pid: int
    stdout: TextIO
    stderr: TextIO
    _line: TextIO
    returncode: int | None = field(default=None, init=False)

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        if self.returncode is None:
            self.returncode = int(self._line.readline())
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """Wait for its end and return what is left of stdout and of stderr."""
        with ThreadPoolExecutor(1) as thread:
            errors = thread.submit(self.stderr.read)
            out = "" if self.stdout.closed else self.stdout.read()
            err = errors.result()
        self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal if it still runs."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it if it still runs."""
        self.send_signal(signal.SIGKILL)


@contextmanager
def started(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Iterator[Started]:
    """Start `pinata` with nothing to read; it has ended, or is killed, when the block is left."""
    job = json.dumps([list(arguments), str(cwd), dict(env)]).encode()
    with ExitStack() as stack:
        theirs = [os.open(os.devnull, os.O_RDONLY)]
        ours: list[TextIO] = []
        for _ in range(2):
            reading, writing = os.pipe()
            theirs.append(writing)
            ours.append(stack.enter_context(open(reading)))  # noqa: PTH123 - a descriptor
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        with _lock:
            starter = _starter()
        connection.connect(starter.address)
        socket.send_fds(connection, [len(job).to_bytes(_LENGTH_BYTES, "big")], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        connection.sendall(job)
        line = stack.enter_context(connection.makefile())
        out, err = ours
        process = Started(int(line.readline()), out, err, line)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def start(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run `pinata` to its end with nothing to read; may be called where a trio loop runs."""

    def run() -> tuple[str, str, int]:
        with started(arguments, cwd=cwd, env=env) as process:
            return *process.communicate(), process.wait()

    with ThreadPoolExecutor(1) as thread:
        out, err, code = thread.submit(run).result()
    return subprocess.CompletedProcess(["pinata", *arguments], code, out, err)


@dataclass(frozen=True, slots=True)
class _Starter:
    """Where the starter listens, and what keeps it alive for as long as it is open."""

    address: bytes
    hold: socket.socket


@cache
def _starter() -> _Starter:
    hold, held = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as listener, held:
        listener.bind("")  # The kernel chooses a name that is in no folder.
        listener.listen()
        kept = {name: os.environ[name] for name in ("PATH", _MEASURED) if name in os.environ}
        descriptors = (listener.fileno(), held.fileno())
        with adopting_nobody():
            subprocess.run(
                [sys.executable, "-m", __name__, *map(str, descriptors)],
                cwd=_ROOT,
                env=kept | {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(_ROOT)},
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                check=True,
            )
        return _Starter(listener.getsockname(), hold)


def _serve(listener: socket.socket, held: socket.socket) -> None:
    """Start commands until whoever holds the starter is gone."""
    for module in _LOADED:
        importlib.import_module(module)
    # Loading covers lines, too; kept here once, they are not written anew by every command.
    if measured := coverage.Coverage.current():
        measured.save()
    gc.freeze()
    waiting: list[int] = []
    while held not in select.select([listener, held], [], [])[0]:
        line, _ = listener.accept()
        child = os.fork()
        if child == 0:
            listener.close()
            held.close()
            _answer(line)
        line.close()
        waiting = [pid for pid in [*waiting, child] if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def _answer(line: socket.socket) -> None:
    """Start the command that is asked for, say how it ended, and end."""
    length, descriptors, _, _ = socket.recv_fds(line, _LENGTH_BYTES, 3)
    job = b""
    while len(job) < int.from_bytes(length, "big"):
        job += line.recv(1 << 16)
    child = os.fork()
    if child == 0:
        line.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        _become(*json.loads(job))
    for descriptor in descriptors:
        os.close(descriptor)
    line.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(arguments: list[str], cwd: str, env: dict[str, str]) -> None:
    """Be the command, to its end."""
    code = 1
    try:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["pinata", *arguments]
        code = _code_of(command.main)
        if measured := coverage.Coverage.current():
            measured.stop()
            measured.save()
    finally:
        # Not sys.exit: what would be cleaned up is the starter's.
        os._exit(code)


def _code_of(main: Callable[[], int]) -> int:
    """Carry out a program, and return what the interpreter would exit with."""
    try:
        return main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - shown, as the interpreter does
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    # It lives on as an orphan, so that it is nobody's child.
    if os.fork():
        os._exit(0)
    _serve(*(socket.socket(fileno=int(one)) for one in sys.argv[1:3]))
    os._exit(0)
