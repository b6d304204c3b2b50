"""What one check showed; kept exactly as it was, since verdicts and receipts are bound to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.core.fingerprint import digest
from engine.core.stored import STORED

ListName = Literal["checks", "evidenceChecks", "integratedChecks", "explicit"]


@dataclass(frozen=True, slots=True)
class SavedLog:
    """One stream of a check's output, as it lies on disk.

    Attributes:
        sha256: of the file's contents, in hex.
    """

    __pydantic_config__ = STORED

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CheckProof:
    """Evidence of one check that was started, or could not be.

    Attributes:
        id: the check's id.
        list: which list planned it.
        argv: exactly what was run, secrets included.
        cwd: absolute path.
        code: exit code; None when a signal ended it or it never ran.
        signal: name of the signal that ended it by itself, such as `SIGSEGV`.
        reason: why the engine ended it or could not start it: `timed out`, `output limit`,
            `stopped`, or what a launch failed of. None when it ended by itself, also by failing.
        passed: it exited with 0 and there is no reason.
        stdout: None when it never ran.
        notes: sentences about what a reader of the logs should know.
    """

    __pydantic_config__ = STORED

    id: str
    list: ListName
    argv: tuple[str, ...]
    cwd: str
    code: int | None
    signal: str | None
    reason: str | None
    passed: bool
    duration_ms: int
    stdout: SavedLog | None
    stderr: SavedLog | None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A stored proof may come from anybody, so this is no mere assertion.
        if self.passed != (self.code == 0 and self.reason is None):
            raise ValueError("passed is not what code and reason come to")


def proofs_digest(proofs: Sequence[CheckProof]) -> str:
    """Return the digest that binds a fingerprint to what checks showed; durations do not count."""
    return digest(
        [
            {
                "id": proof.id,
                "list": proof.list,
                "argv": proof.argv,
                "code": proof.code,
                "signal": proof.signal,
                "reason": proof.reason,
                "stdout": None if proof.stdout is None else proof.stdout.sha256,
                "stderr": None if proof.stderr is None else proof.stderr.sha256,
            }
            for proof in proofs
        ]
    )
