from dataclasses import replace

import pytest

from checks.outcome import CheckCounts, count, explain
from checks.proof import CheckProof

PASSED = CheckProof(
    id="unit",
    list="checks",
    argv=("true",),
    cwd="/",
    code=0,
    signal=None,
    reason=None,
    passed=True,
    duration_ms=1,
    stdout=None,
    stderr=None,
)
FAILED = replace(PASSED, code=3, passed=False)


def test_a_passed_check_needs_no_explanation() -> None:
    assert explain(PASSED) is None


@pytest.mark.parametrize(
    ("proof", "why"),
    [
        (FAILED, "exited with 3"),
        (replace(FAILED, code=None, signal="SIGSEGV"), "ended by SIGSEGV"),
        (replace(FAILED, code=None, reason="timed out"), "timed out"),
        (replace(FAILED, code=0, reason="output limit"), "output limit"),
    ],
)
def test_a_failed_check_says_why(proof: CheckProof, why: str) -> None:
    assert explain(proof) == why


def test_counts_add_up_to_what_was_planned() -> None:
    assert count([PASSED, PASSED, FAILED], not_run=4) == CheckCounts(passed=2, failed=1, not_run=4)
    assert count([]) == CheckCounts(passed=0, failed=0, not_run=0)


def test_a_proof_cannot_contradict_itself() -> None:
    for field in ({"passed": False}, {"code": 1}, {"code": None}, {"reason": "timed out"}):
        with pytest.raises(ValueError, match="passed is not"):
            replace(PASSED, **field)
