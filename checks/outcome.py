"""What proofs mean: a sentence for people, counts for a summary; pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from checks.proof import CheckProof


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """How the planned checks of one place came out; the sum is what was planned."""

    passed: int
    failed: int
    not_run: int


def explain(proof: CheckProof) -> str | None:
    """Return why the check did not pass, without its id; None when it did."""
    if proof.passed:
        return None
    if proof.reason is not None:
        return proof.reason
    if proof.signal is not None:
        return f"ended by {proof.signal}"
    return f"exited with {proof.code}"


def count(proofs: Iterable[CheckProof], *, not_run: int = 0) -> CheckCounts:
    """Return how many of `proofs` passed and failed, beside the checks that were never started."""
    outcomes = [proof.passed for proof in proofs]
    passed = sum(outcomes)
    return CheckCounts(passed=passed, failed=len(outcomes) - passed, not_run=not_run)
