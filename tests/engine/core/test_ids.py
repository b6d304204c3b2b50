from engine.core.ids import AttemptId, TaskId


def test_an_attempt_is_named_after_its_task_and_number() -> None:
    assert str(AttemptId(TaskId("fix"), 2)) == "fix@2"


def test_attempts_of_a_task_are_ordered_by_number() -> None:
    fix = TaskId("fix")
    attempts = [AttemptId(fix, 10), AttemptId(TaskId("a"), 3), AttemptId(fix, 2)]
    assert sorted(attempts) == [AttemptId(TaskId("a"), 3), AttemptId(fix, 2), AttemptId(fix, 10)]
