import pytest

from engine.core.events import CancelRequested, CostLimitPassed, RunDeadlinePassed
from engine.core.ids import TaskId
from engine.core.outcome import Stop, StopCause
from engine.core.stop_order import StopOrder, ordered_stop


@pytest.mark.parametrize(
    ("order", "stop"),
    [
        (CancelRequested("enough"), Stop(StopCause.CANCEL, "enough")),
        (CancelRequested("enough", TaskId("a")), Stop(StopCause.CANCEL, "enough")),
        (RunDeadlinePassed(5), Stop(StopCause.RUN_DEADLINE, "run deadline of 5 ms passed")),
        (
            CostLimitPassed(1, 1.5),
            Stop(StopCause.COST, "cost limit of 1 USD passed: 1.5 USD spent"),
        ),
    ],
)
def test_each_order_stands_for_a_stop_with_its_reason(order: StopOrder, stop: Stop) -> None:
    assert ordered_stop(order) == stop
