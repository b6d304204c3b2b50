"""When work in a place ended, by the log of a run: whatever changed there later is a person's."""

from collections.abc import Iterable, Set as AbstractSet

from engine.core.events import AttemptSettled, AttemptStarted, Event, RunResumed
from engine.core.ids import AttemptId, TaskId


def work_end_ms(
    timed: Iterable[tuple[int, Event]], tasks: AbstractSet[TaskId], now_ms: int
) -> int | None:
    """Return when the last attempt of `tasks` ended, in epoch milliseconds.

    An attempt that was lost with its process ended at the latest when the last thing was heard of
    that process, which may be long before anybody noticed.

    Args:
        timed: what happened in the run, in order, each with its time.
        tasks: those that worked in the place.
        now_ms: the time by the same clock.

    Returns:
        None when no time can be trusted: nobody worked there, somebody still does, or the clock was
        set back since.
    """
    running: set[AttemptId] = set()
    ended: int | None = None
    # Of all that was told since then, and by now.
    earliest_ms, before_ms = now_ms, 0
    for at_ms, event in timed:
        earliest_ms = min(earliest_ms, at_ms)
        match event:
            case AttemptStarted(attempt=attempt) if attempt.task in tasks:
                running.add(attempt)
            case AttemptSettled(attempt=attempt) if attempt in running:
                running.discard(attempt)
                ended = at_ms
                earliest_ms = min(at_ms, now_ms)
            case RunResumed() if running:
                running.clear()
                ended = before_ms
                earliest_ms = min(at_ms, now_ms)
            case _:
                pass
        before_ms = at_ms
    if running or ended is None or earliest_ms < ended:
        return None
    return ended
