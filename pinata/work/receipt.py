"""A receipt: what one verification of a destination saw, kept for ever beside its logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from checks.outcome import explain
from checks.proof import CheckProof, SavedLog
from engine.core.errors import CorruptionError
from engine.records.request import explain as explain_fault
from engine.system import files

if TYPE_CHECKING:
    # A name in signatures: whoever only reads receipts must not wait for libgit2 to load.
    from worktrees.state import StateTriple

# What no verification of a checkout can speak of.
UNCOVERED = ("ignored files", "services and files outside the checkout", "the environment")
ReceiptStatus = Literal["verified", "verification_failed", "not_run", "source_changed"]
_STRICT: dict[str, Any] = {"extra": "forbid", "strict": True}
_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class SavedState:
    """A checkout's state triple, as it is stored."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    head: str | None
    content_tree: str
    index_digest: str

    @classmethod
    def of(cls, triple: "StateTriple") -> "SavedState":
        """Return the stored form of `triple`."""
        return cls(triple.head, triple.content_tree, triple.index_digest)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of one verification.

    Attributes:
        id: counts from 1 within a run.
        before, after: the destination around the checks.
        omitted: ids of planned checks that were not run.
        differing_paths: quoted, sorted; affected paths that do not hold the approved result.
        unverified: writers whose change could not be compared, since nothing verified it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT

    id: int
    run: str
    at_ms: int
    status: ReceiptStatus
    before: SavedState
    after: SavedState
    checks: tuple[CheckProof, ...]
    omitted: tuple[str, ...]
    no_checks_reason: str | None
    differing_paths: tuple[str, ...]
    origin: Literal["verify", "integrate"]
    unverified: tuple[str, ...] = ()
    kind: Literal["receipt"] = "receipt"
    v: Literal[1] = 1

    @property
    def is_exact(self) -> bool:
        """Whether there was a result of every writer, and every affected path held it."""
        return not (self.differing_paths or self.unverified)


@cache
def _adapter() -> TypeAdapter[Receipt]:
    # Built when first used: that takes longer than reading most of them.
    return TypeAdapter(Receipt)


def judge(
    before: "StateTriple | SavedState",
    after: "StateTriple | SavedState",
    proofs: Sequence[CheckProof],
    planned: int,
) -> ReceiptStatus:
    """Return what a verification came to; a change meanwhile wins over everything.

    Args:
        before: the destination when the checks began.
        after: the destination when they had ended, in the same form.
        proofs: of the checks that ran.
        planned: how many there were to run.
    """
    if before != after:
        return "source_changed"
    if planned == 0:
        return "not_run"
    passed = len(proofs) == planned and all(proof.passed for proof in proofs)
    return "verified" if passed else "verification_failed"


def answer(receipt: Receipt) -> dict[str, Any]:
    """Return the public form of a receipt."""
    out: dict[str, Any] = {
        "id": receipt.id,
        "run": receipt.run,
        "at": receipt.at_ms,
        "scope": "destination-checks",
        "reviewScope": "builder-artifacts-only",
        "status": receipt.status,
        **_state_answer(receipt.before),
        "after": _state_answer(receipt.after),
        "checks": [proof_answer(proof) for proof in receipt.checks],
        "omitted": list(receipt.omitted),
        "uncovered": list(UNCOVERED),
        "application": "exact" if receipt.is_exact else "different",
        "differingPaths": list(receipt.differing_paths),
        "origin": receipt.origin,
    }
    if receipt.no_checks_reason is not None:
        out["noChecksReason"] = receipt.no_checks_reason
    return out


def _state_answer(state: SavedState) -> dict[str, Any]:
    return {
        "head": state.head or "unborn",
        "contentTree": state.content_tree,
        "indexDigest": state.index_digest,
    }


def proof_answer(proof: CheckProof) -> dict[str, Any]:
    """Return the public form of a check's proof."""
    out: dict[str, Any] = {
        "id": proof.id,
        "list": proof.list,
        "argv": list(proof.argv),
        "cwd": proof.cwd,
        "code": proof.code,
        "signal": proof.signal,
        "reason": explain(proof),
        "passed": proof.passed,
        "ms": proof.duration_ms,
        "stdout": _log_answer(proof.stdout),
        "stderr": _log_answer(proof.stderr),
    }
    if proof.notes:
        out["notes"] = list(proof.notes)
    return out


def _log_answer(log: SavedLog | None) -> dict[str, Any] | None:
    return None if log is None else {"path": log.path, "bytes": log.bytes, "sha256": log.sha256}


@dataclass(frozen=True, slots=True)
class ReceiptFolder:
    """Where the receipts of a run lie: `<id>.json`, with the logs in a folder `<id>` beside it."""

    path: Path

    def next_id(self) -> int:
        """Return an id that no receipt and no log has; blocks, and makes the folder."""
        files.make_private_dir(self.path)
        taken = [int(e.name.removesuffix(".json")) for e in self.path.iterdir() if _is_entry(e)]
        return max(taken, default=0) + 1

    def logs(self, id_: int) -> Path:
        """Return where the logs of a receipt lie."""
        return self.path / str(id_)

    def save(self, receipt: Receipt) -> None:
        """Make `receipt` durable; blocks."""
        data = _adapter().dump_json(receipt, indent=1) + b"\n"
        files.replace_file(self.path / f"{receipt.id}.json", data, fault="receipt")

    def latest(self) -> Receipt | None:
        """Return the receipt with the highest id, None when there is none; blocks.

        Raises:
            CorruptionError: it is damaged.
        """
        ids = self._ids()
        return self._read(ids[-1]) if ids else None

    def all(self) -> list[Receipt]:
        """Return every receipt, the oldest first; blocks.

        Raises:
            CorruptionError: one is damaged.
        """
        return [self._read(id_) for id_ in self._ids()]

    def _ids(self) -> list[int]:
        if not self.path.is_dir():
            return []
        return sorted(
            int(e.name.removesuffix(".json"))
            for e in self.path.iterdir()
            if _is_entry(e) and e.suffix == ".json"
        )

    def _read(self, id_: int) -> Receipt:
        path = self.path / f"{id_}.json"
        try:
            return _adapter().validate_json(files.read_regular(path, _LIMIT_BYTES))
        except ValidationError as error:
            raise CorruptionError(f"{path} is damaged: {explain_fault(error)}") from error


def _is_entry(path: Path) -> bool:
    return path.name.removesuffix(".json").isdigit()
