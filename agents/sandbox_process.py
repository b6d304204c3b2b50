"""The sandbox in which scripts run: a process of `pydantic-monty`, one for each script.

Its Python has no files, no network, no environment and no modules but a few pure ones; whatever it
wants from outside arrives here as a question, and only the agent's own tools are ever answered. The
process starts in milliseconds, with an empty environment, so none is kept for later.

Everything here blocks, `kill` excepted, so it belongs into a worker thread. This module is the only
one that imports the library, and is itself imported in a thread when the first script runs.
"""

import math
import os
import resource
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress

import pydantic_monty as monty

from agents.sandbox import (
    GRACE_S,
    MAX_DEPTH,
    MAX_QUESTIONS,
    MEMORY_LIMIT_BYTES,
    RUN_LIMIT_S,
    SandboxError,
    ScriptCall,
    ScriptDone,
    ScriptFailed,
    ScriptStep,
)

MODULES = (
    "asyncio, base64, binascii, bisect, collections, copy, csv, dataclasses, datetime, decimal, "
    "functools, hashlib, itertools, json, math, random, re, tomllib, typing and unicodedata"
)

_SUPPORTED = (
    "scripts run in a part of Python: statements, functions, plain classes, comprehensions, "
    "exceptions and f-strings, but no yield, del, class inheritance or exception groups, and tools "
    "are called directly, not by map, sorted or a decorator"
)
_UNSUPPORTED = ("does not yet support", "cannot suspend")
_NO_OUTSIDE = (
    "a script has no files, environment, network or waiting of its own; call your tools instead"
)
_SOURCE_CHARS = 120
_MESSAGE_CHARS = 2_000

_Snapshot = (
    monty.FunctionSnapshot | monty.NameLookupSnapshot | monty.FutureSnapshot | monty.MontyComplete
)


class SandboxProcess:
    """One process that runs one script."""

    def __init__(
        self,
        tools: Sequence[str],
        refused: Collection[str],
        show: Callable[[str], None],
    ) -> None:
        """Prepare a sandbox; nothing is started.

        Args:
            tools: the functions that scripts are told of.
            refused: more functions; a call of them is a step too, so that its refusal has reasons.
            show: takes what the script prints, piece by piece, in order, in a worker thread.
        """
        self._tools = tuple(tools)
        self._functions = frozenset({*tools, *refused})
        self._show = show
        self._stack = ExitStack()
        self._snapshot: _Snapshot | None = None
        self._session: monty.MontySession | None = None
        self._lock = threading.Lock()
        self._pidfd: int | None = None
        self._is_killed = False

    def open(self) -> int:
        """Start the process and return its number. `close` must follow, whatever comes of it.

        Raises:
            SandboxError: it does not start.
        """
        pool = monty.Monty(
            min_processes=0,
            max_processes=1,
            request_timeout=RUN_LIMIT_S + 2 * GRACE_S,
            feed_duration_limit_grace=GRACE_S,
        )
        limits = monty.ResourceLimits(
            max_feed_duration_secs=RUN_LIMIT_S,
            max_memory=MEMORY_LIMIT_BYTES,
            max_recursion_depth=MAX_DEPTH,
            max_suspensions=MAX_QUESTIONS,
        )
        try:
            self._stack.enter_context(pool)
            policy = monty.OSPolicy(sleep="call_host")
            session = pool.checkout(limits=limits, os_policy=policy)
            self._session = self._stack.enter_context(session)
            pid = self._session.worker_pid
            assert pid is not None
            with self._lock:
                # It is our child and only the library collects it, so the number is still its own.
                self._pidfd = os.pidfd_open(pid)
            # Should we be killed, nobody is left to end one that never looks at its clock.
            limit_s = math.ceil(RUN_LIMIT_S + 3 * GRACE_S)
            resource.prlimit(pid, resource.RLIMIT_CPU, (limit_s, limit_s))
        except (OSError, RuntimeError, monty.MontyError) as error:
            raise SandboxError(str(error)) from error
        if self._is_killed:
            self.kill()
        return pid

    def start(self, code: str) -> ScriptStep:
        """Run the script up to its first tool call, or to its end."""
        assert self._session is not None
        session = self._session
        return self._run(lambda: session.feed_start(code, print_callback=self._print))

    def give(self, text: str) -> ScriptStep:
        """Let the waiting tool call return `text`, and go on."""
        return self._resume({"return_value": text})

    def refuse(self, message: str) -> ScriptStep:
        """Let the waiting tool call raise a RuntimeError, and go on."""
        return self._resume({"exc_type": "RuntimeError", "message": message})

    def kill(self) -> None:
        """End the process at once, in whatever it is; never blocks and may be called anywhere."""
        with self._lock:
            self._is_killed = True
            if self._pidfd is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """End the process and collect it."""
        self.kill()
        try:
            self._snapshot = None
            self._stack.close()
        finally:
            with self._lock:
                if self._pidfd is not None:
                    os.close(self._pidfd)
                    self._pidfd = None

    def _print(self, _stream: str, text: str) -> None:
        self._show(text)

    def _resume(self, result: monty.ExternalResult) -> ScriptStep:
        snapshot = self._snapshot
        assert isinstance(snapshot, monty.FunctionSnapshot)
        return self._run(lambda: snapshot.resume(result))

    def _run(self, advance: Callable[[], _Snapshot]) -> ScriptStep:
        """Go on, and answer what no tool is needed for, until a tool is or the script is over."""
        try:
            step = self._take(advance())
            while not isinstance(step, ScriptCall | ScriptDone | ScriptFailed):
                step = self._take(step)
        except monty.MontyCrashedError as error:
            if error.timed_out:
                return ScriptFailed(_too_long())
            return ScriptFailed(f"the sandbox broke down: {error}")
        except (monty.MontySyntaxError, monty.MontyRuntimeError) as error:
            return ScriptFailed(_explain(error))
        return step

    def _take(self, snapshot: _Snapshot) -> ScriptStep | _Snapshot:
        """Return what to do at `snapshot`, or the next one if the answer needs nobody else."""
        self._snapshot = snapshot
        if isinstance(snapshot, monty.MontyComplete):
            return ScriptDone(_shown(snapshot.output))
        if isinstance(snapshot, monty.NameLookupSnapshot):
            return self._look_up(snapshot)
        # The fourth kind waits for answers that were put off, and none is.
        assert isinstance(snapshot, monty.FunctionSnapshot)
        name = snapshot.function_name
        if not snapshot.is_os_function and name in self._functions:
            return ScriptCall(name, snapshot.args, snapshot.kwargs)
        return snapshot.resume(self._refusal(snapshot))

    def _look_up(self, snapshot: monty.NameLookupSnapshot) -> _Snapshot:
        name = snapshot.variable_name
        if name not in self._functions:
            return snapshot.resume()

        def tool() -> None:
            """Stand for a tool where a script names it without calling it."""

        tool.__name__ = name
        return snapshot.resume(value=tool)

    def _refusal(self, snapshot: monty.FunctionSnapshot) -> monty.ExternalResult:
        name = snapshot.function_name
        if not snapshot.is_os_function:
            message = f"name '{name}' is not defined; the tools are {', '.join(self._tools)}"
            return {"exc_type": "NameError", "message": message}
        if name == "import":
            message = f"there is no module {snapshot.args[0]!r} here; there are {MODULES}"
            return {"exc_type": "ModuleNotFoundError", "message": message}
        return {"exc_type": "PermissionError", "message": f"'{name}' is refused: {_NO_OUTSIDE}"}


def _too_long() -> str:
    return f"the script was stopped: it computed for more than {RUN_LIMIT_S:g} seconds"


def _shown(value: object) -> str | None:
    """Return what a model reads of a value: text as it is, everything else as Python writes it."""
    if value is None or isinstance(value, str):
        return value
    try:
        return repr(value)
    except (RecursionError, ValueError) as error:
        return f"(a {type(value).__name__} that cannot be shown: {error})"


def _explain(error: monty.MontySyntaxError | monty.MontyRuntimeError) -> str:
    """Return what ended a script as a sentence that says where."""
    frames = error.traceback()
    cause = error.exception()
    if not frames and isinstance(cause, TimeoutError):
        return _too_long()
    if not frames and isinstance(cause, MemoryError):
        return f"the script was stopped: it needs more than {MEMORY_LIMIT_BYTES >> 20} MB of memory"
    if str(cause).startswith("suspension limit"):
        return f"the script was stopped after {MAX_QUESTIONS:,} calls"
    message = error.display("type-msg")[:_MESSAGE_CHARS]
    if isinstance(cause, NotImplementedError) and any(mark in message for mark in _UNSUPPORTED):
        message = f"{message}; {_SUPPORTED}"
    if not frames:
        return f"the script failed: {message}"
    last = frames[-1]
    source = (last.source_line or "").strip()[:_SOURCE_CHARS]
    return f"the script failed in line {last.line}{source and f' ({source})'}: {message}"
