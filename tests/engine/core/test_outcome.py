import pytest

from engine.core.outcome import Status, Stop, StopCause


def test_all_but_queued_and_running_are_final() -> None:
    assert [status.value for status in Status if status.is_final] == [
        "succeeded",
        "failed",
        "rejected",
        "blocked",
        "cancelled",
        "uncertain",
    ]


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (StopCause.CANCEL, Status.CANCELLED),
        (StopCause.COST, Status.CANCELLED),
        (StopCause.TASK_DEADLINE, Status.FAILED),
        (StopCause.RUN_DEADLINE, Status.FAILED),
    ],
)
def test_a_deadline_fails_a_running_task_and_anything_else_cancels_it(
    cause: StopCause, status: Status
) -> None:
    assert Stop(cause, "because").status is status
