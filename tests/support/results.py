"""Saved results, proofs and changes as values, right in every respect but what a test adds."""

from dataclasses import replace
from typing import Any

from checks.proof import CheckProof
from engine.core.changes import ABSENT_MODE, FILE_MODE, Change, ChangeStatus
from engine.core.ids import BlobId
from engine.core.outcome import Status, Verdict
from pinata.work.result import Artifact, Review, SavedResult, StoredChange

ABSENT_BLOB = BlobId("0" * 40)


def saved(task: str, status: Status = Status.SUCCEEDED, **fields: Any) -> SavedResult:
    """Return the result of a first attempt that said one sentence."""
    result = SavedResult(task, "scout", 1, status, submission={"summary": f"{task} is done"})
    return replace(result, **fields)


def written(task: str, *paths: str, fingerprint: str | None = "f1") -> SavedResult:
    """Return the result of a builder that added `paths`."""
    changes = tuple(
        StoredChange(path, ChangeStatus.ADDED, ABSENT_MODE, FILE_MODE, ABSENT_BLOB, "b" * 40)
        for path in paths
    )
    artifact = Artifact(
        base_commit="c" * 40,
        base_tree="d" * 40,
        result_commit="e" * 40,
        result_tree="f" * 40,
        changes=changes,
        fingerprint=fingerprint,
    )
    return saved(task, agent="builder", artifact=artifact)


def judged(
    task: str, of: str, verdict: Verdict | None = Verdict.APPROVE, fingerprint: str = "f1"
) -> SavedResult:
    """Return the result of a reviewer whose verdict is bound to `fingerprint`."""
    return saved(task, agent="reviewer", review=Review(of, fingerprint, verdict))


def proof(id_: str = "test", *, code: int = 0, reason: str | None = None) -> CheckProof:
    """Return what a check without output showed."""
    passed = code == 0 and reason is None
    return CheckProof(
        id_, "checks", ("make", id_), "/repo", code, None, reason, passed, 5, None, None
    )


def change(path: str, old: str | None, new: str | None, *, mode: str = FILE_MODE) -> Change:
    """Return a change between two contents, named by one letter each; None where it is absent."""
    status = ChangeStatus.MODIFIED
    if old is None:
        status = ChangeStatus.ADDED
    elif new is None:
        status = ChangeStatus.DELETED
    return Change(
        path=path.encode(),
        status=status,
        old_mode=ABSENT_MODE if old is None else FILE_MODE,
        new_mode=ABSENT_MODE if new is None else mode,
        old_blob=ABSENT_BLOB if old is None else BlobId(old * 40),
        new_blob=ABSENT_BLOB if new is None else BlobId(new * 40),
    )
