"""When an agent last got on, how often that is written down, and from when on it counts as stale.

Turns, pieces of answers, and calls that begin or end are activity; what a tool writes while it
works is not, or a command that hangs and still prints would look alive.
"""

from typing import Final

from agents.herdsman.projection import AgentState, Evidence

STALE_AFTER_MS: Final = 10 * 60 * 1000
WRITE_EVERY_MS: Final = 5_000


def is_due(written_ms: int | None, now_ms: int) -> bool:
    """Return whether activity of now is to be written down.

    Args:
        written_ms: when it was last; None where it never was by this process, so that an agent
            that comes back in the midst of an assignment shows it at once. A time in the future
            was written before the clock was set back.
        now_ms: the time of the activity.
    """
    return written_ms is None or not 0 <= now_ms - written_ms < WRITE_EVERY_MS


def inactive_ms(evidence: Evidence, now_ms: int) -> int | None:
    """Return for how long an agent that works has not got on; None while it is not stale.

    Only one that is there, works on an assignment and has shown activity can be stale; a last
    activity in the future shows nothing.
    """
    last_ms = evidence.contents.state.last_activity_ms
    if (
        last_ms is None
        or evidence.state is not AgentState.WORKING
        or now_ms - last_ms < STALE_AFTER_MS
    ):
        return None
    return now_ms - last_ms
