import pytest

from engine.core.graph import TaskGraph
from engine.core.ids import TaskId
from engine.core.spec import Kind, ReviewBase, ReviewOf, ReviewPr, ReviewTarget, TaskSpec
from engine.core.targets import ReviewTargetError, check_targets
from tests.support.jobs import task_spec

FIX = ReviewOf(TaskId("fix"))


def writer(name: str, *after: str) -> TaskSpec:
    return task_spec(name, *after, kind=Kind.WRITER, owns=(name,))


def judge(target: ReviewTarget, *after: str) -> TaskSpec:
    return task_spec("judge", *after, kind=Kind.REVIEWER, target=target)


def check(*specs: TaskSpec) -> None:
    check_targets(TaskGraph.build(specs), specs)


def refusal(*specs: TaskSpec) -> str:
    with pytest.raises(ReviewTargetError) as caught:
        check(*specs)
    return str(caught.value)


def test_a_reviewer_may_review_a_writer_it_waits_for() -> None:
    check(writer("fix"), judge(FIX, "fix"))


def test_a_reviewer_must_wait_for_the_writer_itself() -> None:
    assert refusal(writer("fix"), task_spec("look", "fix"), judge(FIX, "look")) == (
        'task judge: reviewOf: "fix" is not in after; add it there too'
    )


def test_only_writers_are_reviewed() -> None:
    assert refusal(task_spec("fix"), judge(FIX, "fix")) == (
        'task judge: reviewOf: "fix" is a reader; this run has no writer'
    )


def test_what_is_reviewed_must_be_there() -> None:
    assert refusal(writer("mend"), writer("make"), judge(FIX, "mend")) == (
        'task judge: reviewOf: "fix" is not a task of this run; name a writer: mend or make'
    )


@pytest.mark.parametrize("target", [ReviewBase("HEAD"), ReviewPr(7)])
def test_a_live_target_shows_no_writer_so_none_may_come_before_it(target: ReviewTarget) -> None:
    field = "reviewBase" if isinstance(target, ReviewBase) else "reviewPr"
    check(writer("fix"), task_spec("look"), judge(target, "look"))
    assert refusal(writer("fix"), task_spec("look", "fix"), judge(target, "look")) == (
        f"task judge: {field}: the reviewer waits for writer fix, whose change {field} does not "
        'show; review it with reviewOf "fix"'
    )
    assert "writer fix" in refusal(writer("fix"), judge(target, "fix"))
