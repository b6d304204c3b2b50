"""Runs a program to its end and leaves nothing of it behind.

That is: not its children, not a daemon that kept the environment it was given, no descriptor and no
thread.
"""

import itertools
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import trio

from engine.core.errors import ExternalError, reason_of
from engine.system import family, ledger, meter, strays
from engine.system.groups import end_group, signal_group
from engine.system.identity import ProcessIdentity, identify
from engine.system.launch import NOTHING, PIPE, LaunchError, Popen, launch
from engine.system.nursery import open_flat_nursery
from engine.system.output import (
    Budget,
    MemorySink,
    Output,
    Sink,
    ToMemory,
    open_sinks,
    remove_empty_files,
)
from engine.system.pipes import InputPipe, OutputPipe

_log = logging.getLogger(f"pinata.{__name__}")

# How long a stranger may hold a pipe after the program and its group are gone.
_PIPE_GRACE_S = 0.25
# A process that does not die of SIGKILL waits for a device; we do not wait for it for ever.
_KILL_LIMIT_S = 10.0

_calls = itertools.count(1)
# Kept, so that nobody warns about a program that is still running when its Popen is collected.
_undying: list[Popen] = []


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A program to run.

    Attributes:
        argv: the program, looked up in the PATH of `env`, and its arguments as they stand.
        env: the whole environment; nothing is inherited.
        stdin: what the program can read; nothing else is ever on its stdin.
        term_grace_s: when it must be stopped, how long its group has between SIGTERM and SIGKILL.
        mark: `<token of the run>/<label>`, durable before this is started; by it, what the program
            leaves behind can be found. Reaches the program as PINATA_MARK, beside a PINATA_CALL
            that no other call shares.
        duplex: a socket that is its stdin and its stdout instead, which then go to nobody else; see
            `engine.system.duplex`.
    """

    argv: tuple[str | bytes, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: bytes = b""
    output: Output = field(default_factory=ToMemory)
    term_grace_s: float = 2.0
    mark: str | None = None
    duplex: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a program ended.

    Attributes:
        code: its exit code; None when a signal ended it, or nothing could.
        signal: the number of the signal that ended it.
        stdout: empty when output went to files; so is `stderr`.
        overflowed: output was longer than its limit and was cut.
        pipes_held: a process outside the program's group kept its output open; it was not waited
            for, so what it wrote later is missing.
    """

    code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    overflowed: bool
    pipes_held: bool
    duration_ms: int


async def run(
    spec: ProcessSpec, *, started: Callable[[ProcessIdentity], None] | None = None
) -> ProcessExit:
    """Run a program to its end and return how it ended.

    There is no time limit: the caller's cancel scope is one. When that ends, the program's group
    gets SIGTERM, after the grace SIGKILL, and everything is collected before `Cancelled` goes on.
    However the program ends, what is left of its group is killed, and so are adopted processes
    that carry the mark of this call.

    Args:
        spec: what to run.
        started: told the program's identity, on the loop, as soon as there is one.

    Raises:
        LaunchError: it could not be started; nothing ran.
        ExternalError: its output could not be written; it was stopped.
    """
    began = time.monotonic()
    with ExitStack() as closing:
        # The thread is waited for also when cancelled, so no child is born that nobody knows.
        child = await trio.to_thread.run_sync(_spawn, spec, closing)
        async with open_flat_nursery() as nursery:
            for pump in child.pumps():
                nursery.start_soon(pump)
            try:
                meter.begin(child.program)
                if started is not None:
                    started(child.identity)
                with trio.CancelScope() as enough:
                    child.budget.stop = enough.cancel
                    await child.wait_end()
            finally:
                with trio.CancelScope(shield=True):
                    pipes_held = await _finish(child, spec.term_grace_s)
    if child.budget.failure is not None:
        raise ExternalError(f"cannot save output: {child.budget.failure}")
    code = child.popen.returncode
    return ProcessExit(
        code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stdout=b"" if child.stdout is None else _kept(child.stdout),
        stderr=_kept(child.stderr),
        overflowed=any(pipe.sink.overflowed for pipe in child.outputs),
        pipes_held=pipes_held,
        duration_ms=round((time.monotonic() - began) * 1000),
    )


@dataclass(slots=True)
class _Child:
    """A started program, with what we hold of it.

    Attributes:
        program: what it is to who measures or ends it; None for one without a mark.
        forget: to be called once it is collected.
        pidfd: readable once it has ended; None where the kernel has none.
    """

    popen: Popen
    identity: ProcessIdentity
    program: meter.Program | None
    forget: Callable[[], None]
    pidfd: int | None
    stdin: InputPipe | None
    stdout: OutputPipe | None
    stderr: OutputPipe
    budget: Budget
    has_ended: bool = False

    @property
    def outputs(self) -> tuple[OutputPipe, ...]:
        """What is read of the program."""
        return (self.stderr,) if self.stdout is None else (self.stdout, self.stderr)

    def pumps(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Return what has to run while the program does."""
        yield from (pipe.pump for pipe in self.outputs)
        if self.stdin is not None and self.stdin.write_some():
            yield self.stdin.pump

    async def wait_end(self) -> None:
        """Return when the program has ended; it is not collected yet, so its pid stays taken."""
        if self.has_ended:
            return
        if self.pidfd is not None:
            await trio.lowlevel.wait_readable(self.pidfd)
        else:
            # An abandoned thread ends with the program, which does not live long then.
            await trio.to_thread.run_sync(
                os.waitid, os.P_PID, self.popen.pid, os.WEXITED | os.WNOWAIT, abandon_on_cancel=True
            )
        self.has_ended = True

    def collect(self) -> None:
        """Take the exit code of the ended program; from here on its pid may belong to another."""
        self.popen.poll()
        self.forget()


async def _finish(child: _Child, term_grace_s: float) -> bool:
    """Leave nothing of the program behind; return whether a stranger held its output open."""
    group = child.popen.pid
    if not child.has_ended:
        signal_group(group, signal.SIGTERM)
        with trio.move_on_after(term_grace_s):
            await child.wait_end()
    # The first kill comes before the leader is collected: until then nobody else has its number.
    signal_group(group, signal.SIGKILL)
    with trio.move_on_after(_KILL_LIMIT_S) as limit:
        await child.wait_end()
        await meter.end(child.program)
        child.collect()
        await end_group(group)
        if child.program is not None:
            await strays.end_adopted(child.program.call)
    if limit.cancelled_caught:
        _log.warning("process group %s does not die of SIGKILL; leaving it", group)
        _undying.append(child.popen)
    if child.stdin is not None:
        child.stdin.stop()
    with trio.move_on_after(_PIPE_GRACE_S):
        for pipe in child.outputs:
            await pipe.wait_end()
    return any([await pipe.finish() for pipe in child.outputs])


def _kept(pipe: OutputPipe) -> bytes:
    return pipe.sink.contents() if isinstance(pipe.sink, MemorySink) else b""


def _spawn(spec: ProcessSpec, closing: ExitStack) -> _Child:
    """Start the program; `closing` will close everything that was opened for it. Blocks."""
    env = dict(spec.env)
    call = None
    if spec.mark is not None:
        call = f"{os.getpid()}.{next(_calls)}"
        family.begin_call(call)
        closing.callback(family.end_call, call)
        env |= {strays.MARK_VARIABLE: spec.mark, strays.CALL_VARIABLE: call}
    budget, stdout, stderr = open_sinks(spec.output, closing)
    with family.birth() as register:
        try:
            popen = _popen(spec, env)
        except LaunchError:
            remove_empty_files(spec.output)
            raise
        forget = register(popen.pid)
    try:
        return _hold(popen, spec, closing, call=call, forget=forget, sinks=(budget, stdout, stderr))
    except OSError as error:  # we are out of descriptors
        signal_group(popen.pid, signal.SIGKILL)
        popen.communicate()
        forget()
        raise LaunchError(os.fsdecode(spec.argv[0]), reason_of(error).lower()) from error


def _hold(
    popen: Popen,
    spec: ProcessSpec,
    closing: ExitStack,
    *,
    call: str | None,
    forget: Callable[[], None],
    sinks: tuple[Budget, Sink, Sink],
) -> _Child:
    """Take hold of a program that was just started."""
    assert popen.stderr is not None
    budget, stdout, stderr = sinks
    closing.callback(popen.stderr.close)
    stdin = said = None
    if popen.stdout is not None:
        closing.callback(popen.stdout.close)
        said = OutputPipe(popen.stdout.fileno(), stdout)
    if popen.stdin is not None:
        closing.callback(popen.stdin.close)
        stdin = InputPipe(popen.stdin.fileno(), spec.stdin, popen.stdin.close)
    identity = identify(popen.pid)
    assert identity is not None
    program = None
    if spec.mark is not None and call is not None:
        ledger.write_down(spec.mark, identity)
        program = meter.Program(spec.mark, call, identity)
    return _Child(
        popen=popen,
        identity=identity,
        program=program,
        forget=forget,
        pidfd=_open_pidfd(popen.pid, closing),
        stdin=stdin,
        stdout=said,
        stderr=OutputPipe(popen.stderr.fileno(), stderr),
        budget=budget,
    )


def _popen(spec: ProcessSpec, env: Mapping[str, str]) -> Popen:
    if spec.duplex is not None:
        return launch(spec.argv, spec.cwd, env, stdin=spec.duplex, stdout=spec.duplex)
    return launch(spec.argv, spec.cwd, env, stdin=PIPE if spec.stdin else NOTHING)


def _open_pidfd(pid: int, closing: ExitStack) -> int | None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None  # an older kernel, or a sandbox without it
    closing.callback(os.close, pidfd)
    return pidfd
