"""Events that order attempts to stop, and the stop that each of them stands for."""

from typing import assert_never

from engine.core.events import CancelRequested, CostLimitPassed, RunDeadlinePassed
from engine.core.outcome import Stop, StopCause

StopOrder = CancelRequested | RunDeadlinePassed | CostLimitPassed


def ordered_stop(event: StopOrder) -> Stop:
    """Return the stop that the event orders, for the run or for one task of it."""
    match event:
        case CancelRequested(reason=reason):
            return Stop(StopCause.CANCEL, reason)
        case RunDeadlinePassed(limit_ms=limit_ms):
            return Stop(StopCause.RUN_DEADLINE, f"run deadline of {limit_ms} ms passed")
        case CostLimitPassed(limit_usd=limit_usd, spent_usd=spent_usd):
            reason = f"cost limit of {limit_usd:g} USD passed: {spent_usd:g} USD spent"
            return Stop(StopCause.COST, reason)
        case _:
            assert_never(event)
