"""Runs planned checks in order and brings home the proof of each."""

import hashlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import trio

from checks.proof import CheckProof, ListName, SavedLog
from engine.core.spec import CheckSpec
from engine.system.files import make_private_dir, sync_dir
from engine.system.launch import LaunchError
from engine.system.output import ToFiles
from engine.system.process import ProcessExit, ProcessSpec, run

# Of both streams of one check together.
OUTPUT_LIMIT_BYTES = 16 << 20

TIMED_OUT = "timed out"
OUTPUT_LIMIT = "output limit"
STOPPED = "stopped"

_PIPES_HELD = (
    "a process that left the check's group kept its output open; what it wrote after the check "
    "ended is not in the logs"
)


class Progress(Protocol):
    """Who wants to know how far a suite is."""

    async def check_started(self, spec: CheckSpec) -> None:
        """Called before the check is started; it is not started while this waits."""
        ...

    async def check_ended(self, proof: CheckProof) -> None:
        """Called with the finished proof; the next check is not started while this waits."""
        ...


@dataclass(frozen=True, slots=True)
class SuiteSpec:
    """Checks to run, one after another, and where.

    Attributes:
        planned: each with the list that planned it; ids differ, since they name the logs.
        cwd: where each check runs; absolute.
        env: the whole environment of each check.
        log_dir: this suite's own folder for logs; made if need be.
        mark: see `ProcessSpec.mark`.
    """

    planned: Sequence[tuple[ListName, CheckSpec]]
    cwd: Path
    env: Mapping[str, str]
    log_dir: Path
    mark: str | None


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What a suite came to.

    Attributes:
        proofs: in the order planned; only the last one can have failed.
        not_run: the checks after it.
    """

    proofs: tuple[CheckProof, ...]
    not_run: tuple[tuple[ListName, CheckSpec], ...]

    @property
    def passed(self) -> bool:
        """Whether every planned check ran and passed; an empty suite has nothing against it."""
        return not self.not_run and all(proof.passed for proof in self.proofs)


async def run_suite(
    suite: SuiteSpec, *, progress: Progress, collected: list[CheckProof]
) -> SuiteResult:
    """Run the checks in order and stop at the first that does not pass.

    Args:
        suite: what to run, and where.
        progress: told before and after each check.
        collected: gets each proof as soon as there is one. When the caller is cancelled, it also
            gets that of the check that is being run then, with the reason `stopped`.

    Raises:
        ExternalError: a log could not be written, so nothing is proved.
    """
    await trio.to_thread.run_sync(make_private_dir, suite.log_dir)
    proofs: list[CheckProof] = []
    for position, (list_name, spec) in enumerate(suite.planned):
        await progress.check_started(spec)
        trial = _Trial(suite, list_name, spec)
        try:
            proof = await trial.run()
        except trio.Cancelled:
            collected.append(await trial.prove(STOPPED))
            raise
        collected.append(proof)
        proofs.append(proof)
        await progress.check_ended(proof)
        if not proof.passed:
            return SuiteResult(tuple(proofs), tuple(suite.planned[position + 1 :]))
    return SuiteResult(tuple(proofs), ())


class _Trial:
    """One check being run."""

    def __init__(self, suite: SuiteSpec, list_name: ListName, spec: CheckSpec) -> None:
        self._suite = suite
        self._list_name = list_name
        self._spec = spec
        self._stdout = suite.log_dir / f"{spec.id}.out"
        self._stderr = suite.log_dir / f"{spec.id}.err"
        self._began = time.monotonic()

    async def run(self) -> CheckProof:
        """Run it under its own time limit."""
        process = ProcessSpec(
            argv=self._spec.argv,
            cwd=self._suite.cwd,
            env=self._suite.env,
            output=ToFiles(self._stdout, self._stderr, OUTPUT_LIMIT_BYTES),
            mark=self._suite.mark,
        )
        ended = None
        try:
            with trio.move_on_after(self._spec.timeout_ms / 1000):
                ended = await run(process)
        except LaunchError as error:
            return await self.prove(str(error))
        if ended is None:
            return await self.prove(TIMED_OUT)
        return await self.prove(OUTPUT_LIMIT if ended.overflowed else None, ended)

    async def prove(self, reason: str | None, ended: ProcessExit | None = None) -> CheckProof:
        """Make the logs durable and return the proof; runs to its end even when cancelled."""
        duration_ms = round((time.monotonic() - self._began) * 1000)
        with trio.CancelScope(shield=True):
            stdout, stderr = await trio.to_thread.run_sync(_seal, self._stdout, self._stderr)
        code = None if ended is None else ended.code
        by_signal = None if ended is None or ended.signal is None else ended.signal
        return CheckProof(
            id=self._spec.id,
            list=self._list_name,
            argv=self._spec.argv,
            cwd=str(self._suite.cwd),
            code=code,
            signal=None if by_signal is None else _signal_name(by_signal),
            reason=reason,
            passed=code == 0 and reason is None,
            duration_ms=duration_ms,
            stdout=stdout,
            stderr=stderr,
            notes=(_PIPES_HELD,) if ended is not None and ended.pipes_held else (),
        )


def _seal(*paths: Path) -> list[SavedLog | None]:
    """Make logs durable and say what is in them; None for one that was never opened."""
    logs = [_seal_one(path) for path in paths]
    sync_dir(paths[0].parent)
    return logs


def _seal_one(path: Path) -> SavedLog | None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size:
            os.fsync(file.fileno())
        return SavedLog(str(path), size, hashlib.file_digest(file, "sha256").hexdigest())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"  # real-time signals have no names of their own
