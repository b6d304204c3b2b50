"""A verdict counts only while it is bound to exactly what it judged."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.core.ids import TaskId
from engine.core.outcome import Status, Verdict
from engine.core.spec import Kind, ReviewOf, RunSpec
from pinata.work.result import SavedResult
from pinata.work.review import Standing, missing_approval, reviewers_of, standings
from tests.support.jobs import task_spec
from tests.support.results import judged, saved, written

FIX, YES, NO = TaskId("fix"), TaskId("yes"), TaskId("no")


def spec_of(*reviewers: str) -> RunSpec:
    fix = task_spec("fix", kind=Kind.WRITER, owns=("a",))
    of_fix = [
        task_spec(name, "fix", kind=Kind.REVIEWER, target=ReviewOf(FIX)) for name in reviewers
    ]
    return RunSpec((task_spec("look"), fix, *of_fix))


def table(results: Sequence[SavedResult]) -> dict[TaskId, SavedResult]:
    return {result.id: result for result in results}


def test_reviewers_are_found_in_input_order() -> None:
    assert [task.id for task in reviewers_of(spec_of("yes", "no"), FIX)] == [YES, NO]


def test_approval_of_what_the_writer_left_is_current() -> None:
    results = table([written("fix", "a"), judged("yes", "fix")])
    assert standings(spec_of("yes"), FIX, results) == (
        Standing(YES, Verdict.APPROVE, results[YES].review.fingerprint, current=True),  # type: ignore[union-attr, arg-type]  # judged has a review
    )
    assert missing_approval(spec_of("yes"), results) is None


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ([written("fix", "a")], "its reviewer yes gave no verdict"),
        ([written("fix", "a"), judged("yes", "fix", None)], "its reviewer yes gave no verdict"),
        (
            [written("fix", "a"), judged("yes", "fix", Verdict.CHANGES_REQUESTED)],
            "its reviewer yes requested changes",
        ),
        (
            [written("fix", "a", fingerprint="f2"), judged("yes", "fix")],
            "the approval of yes is stale: it was given for another change",
        ),
        (
            [written("fix", "a", fingerprint=None), judged("yes", "fix")],
            "the approval of yes is stale: it was given for another change",
        ),
        ([judged("yes", "fix")], "the approval of yes is stale: it was given for another change"),
    ],
    ids=["absent", "silent", "against", "older", "unverified", "writer-without-result"],
)
def test_anything_but_a_current_approval_is_named(results: list[SavedResult], says: str) -> None:
    spec = spec_of("yes")
    assert missing_approval(spec, table(results)) == f"task fix: {says}"
    (standing,) = standings(spec, FIX, table(results))
    assert not standing.approves


def test_verdict_of_a_reviewer_that_did_not_succeed_does_not_count() -> None:
    failed = judged("yes", "fix")
    results = table([written("fix", "a"), saved("yes", Status.FAILED, review=failed.review)])
    (standing,) = standings(spec_of("yes"), FIX, results)
    assert (standing.current, standing.approves) == (False, False)


def test_one_rejection_among_approvals_is_enough() -> None:
    against = judged("no", "fix", Verdict.CHANGES_REQUESTED)
    results = table([written("fix", "a"), judged("yes", "fix"), against])
    assert missing_approval(spec_of("yes", "no"), results) == (
        "task fix: its reviewer no requested changes"
    )


def test_writer_that_nobody_reviews_is_named_with_the_remedy() -> None:
    assert missing_approval(spec_of(), table([written("fix", "a")])) == (
        "task fix: nobody reviewed its change: start a run in which a reviewer names it in reviewOf"
    )


def test_rejection_of_what_the_writer_left_is_current_and_of_anything_else_is_not() -> None:
    against = replace(judged("no", "fix", Verdict.CHANGES_REQUESTED), status=Status.REJECTED)
    for fingerprint, current in ((None, True), ("0" * 64, False)):
        fix = (
            written("fix", "a")
            if fingerprint is None
            else written("fix", "a", fingerprint=fingerprint)
        )
        (standing,) = standings(spec_of("no"), FIX, table([fix, against]))
        assert standing.current is current
        assert not standing.approves
