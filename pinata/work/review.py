"""Which verdicts count: an approval is worth something only for exactly what it judged."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.fingerprint import digest
from engine.core.ids import Fingerprint, TaskId
from engine.core.outcome import Status, Verdict
from engine.core.spec import Kind, ReviewOf, RunSpec, TaskSpec
from pinata.work.result import SavedResult, fingerprint_of

_JUDGED = (Status.SUCCEEDED, Status.REJECTED)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one reviewer's word about one writer stands.

    Attributes:
        current: the verdict is bound to the writer's fingerprint as it is now, and the reviewer
            came to its end.
    """

    reviewer: TaskId
    verdict: Verdict | None
    fingerprint: Fingerprint | None
    current: bool

    @property
    def approves(self) -> bool:
        """Whether this lets the change in, as far as this reviewer goes."""
        return self.verdict is Verdict.APPROVE and self.current


def reviewers_of(spec: RunSpec, writer: TaskId) -> tuple[TaskSpec, ...]:
    """Return the tasks that review `writer`, in input order."""
    return tuple(task for task in spec.tasks if task.target == ReviewOf(writer))


def standing_of(
    reviewer: TaskId, writer: TaskId, results: Mapping[TaskId, SavedResult]
) -> Standing:
    """Return how the word of `reviewer` about `writer` stands; only their results are looked at.

    A reviewer without a result, or that did not come to its end, has no verdict that counts.
    """
    judged, result = results.get(writer), results.get(reviewer)
    now = None if judged is None else fingerprint_of(judged)
    review = result.review if result is not None else None
    bound = Fingerprint(review.fingerprint) if review is not None else None
    counts = result is not None and result.status in _JUDGED and now is not None
    verdict = review.verdict if review is not None else None
    return Standing(reviewer, verdict, bound, current=counts and bound == now)


def standings(
    spec: RunSpec, writer: TaskId, results: Mapping[TaskId, SavedResult]
) -> tuple[Standing, ...]:
    """Return how each reviewer of `writer` stands, in input order."""
    return tuple(standing_of(task.id, writer, results) for task in reviewers_of(spec, writer))


def missing_approval(spec: RunSpec, results: Mapping[TaskId, SavedResult]) -> str | None:
    """Return a sentence about the first writer that is not fully approved, None when all are."""
    for task in spec.tasks:
        if task.kind is not Kind.WRITER:
            continue
        found = standings(spec, task.id, results)
        if not found:
            return (
                f"task {task.id}: nobody reviewed its change: start a run in which a reviewer "
                f"names it in reviewOf"
            )
        for standing in found:
            if not standing.approves:
                return f"task {task.id}: {_why_not(standing)}"
    return None


def _why_not(standing: Standing) -> str:
    if standing.verdict is None:
        return f"its reviewer {standing.reviewer} gave no verdict"
    if standing.verdict is not Verdict.APPROVE:
        return f"its reviewer {standing.reviewer} requested changes"
    return f"the approval of {standing.reviewer} is stale: it was given for another change"


def evidence_digest(spec: RunSpec, results: Mapping[TaskId, SavedResult]) -> str:
    """Return the digest that tells one body of evidence from another.

    Args:
        spec: of a run whose writers all have a verified change.
        results: of all tasks.
    """
    return digest(
        [
            {
                "task": task.id,
                "fingerprint": fingerprint_of(results[task.id]),
                "reviews": [
                    {"task": each.reviewer, "fingerprint": each.fingerprint}
                    for each in standings(spec, task.id, results)
                ],
            }
            for task in spec.tasks
            if task.kind is Kind.WRITER
        ]
    )
