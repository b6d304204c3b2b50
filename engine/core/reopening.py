"""What every way of letting a run go on that had come to its end has in common."""

from engine.core.outcome import Status, StopCause
from engine.core.state import RunState


def why_stopped(state: RunState, deed: str) -> str | None:
    """Return why nothing of a run may be done again because it was ended early, None if it may.

    A stop that came too late to matter ended nothing.

    Args:
        state: where the run stands.
        deed: what is not done therefore, such as `repaired`.
    """
    if state.stop is None or state.settled is Status.SUCCEEDED:
        return None
    verb = "is over" if state.stop.cause is StopCause.RUN_DEADLINE else "was stopped"
    return f"the run {verb} ({state.stop.reason}), so nothing of it is {deed}: start a new run"
