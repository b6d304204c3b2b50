"""How a run begins, and how it goes on after its process died: two sets of events.

Both go through the loop's one door, as the first events that it folds and records.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.core.events import (
    AttemptSettled,
    Decision,
    Event,
    RunResumed,
    RunStarted,
    TaskQueued,
)
from engine.core.ids import AttemptId
from engine.core.outcome import LOST_REASON, AttemptOutcome, Status
from engine.core.reduce import reduce
from engine.core.state import Graph, RunState


def opening_events(graph: Graph) -> tuple[Decision, ...]:
    """Return the events that a new run begins with."""
    return (RunStarted(len(graph.order)), *map(TaskQueued, graph.order))


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt that was running when its process died, and what it therefore came to."""

    attempt: AttemptId
    outcome: AttemptOutcome


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a run needs to go on after its process died.

    Attributes:
        state: where the run stood at the end of its log.
        lost: attempts without an outcome, in the order in which they were started; their results
            are to be saved before `events` is called.
        first: what is recorded before the lost attempts settle.
    """

    state: RunState
    lost: tuple[Lost, ...]
    first: tuple[Decision, ...]

    def events(self, digests: Sequence[str | None]) -> tuple[Decision, ...]:
        """Return the events to open the loop with; `digests` are those of the saved results."""
        settled = (
            AttemptSettled(each.attempt, replace(each.outcome, result_digest=digest))
            for each, digest in zip(self.lost, digests, strict=True)
        )
        return (*self.first, *settled)


def state_after(graph: Graph, events: Iterable[Event]) -> RunState:
    """Return where a run of `graph` stands after `events`."""
    state = RunState(graph)
    for event in events:
        reduce(state, event)
    return state


def recover(graph: Graph, events: Iterable[Event], *, reason: str) -> Recovery:
    """Return how the run whose log holds `events` goes on.

    A running attempt is cancelled, or ends as the stop says that was already ordered. Tasks that
    the log does not have because a crash cut a write short are queued. A settled run needs nothing.
    Doing this twice, because the second process died too, is the same as doing it once.
    """
    state = state_after(graph, events)
    if state.settled is not None:
        return Recovery(state, (), ())
    opened = RunResumed(reason) if state.started else RunStarted(len(graph.order))
    queued = (
        TaskQueued(name)
        for name in graph.order
        if not state.tasks[name].queued or name in state.reopening
    )
    lost = tuple(_lost(state, attempt) for attempt in state.running.values())
    return Recovery(state, lost, (opened, *queued))


def _lost(state: RunState, attempt: AttemptId) -> Lost:
    task = state.tasks[attempt.task]
    stop = task.stop or state.to_stop.get(attempt.task)
    status, reason = (Status.CANCELLED, LOST_REASON) if stop is None else (stop.status, stop.reason)
    spent_usd = state.spending.get(attempt.task, 0.0)
    return Lost(attempt, AttemptOutcome(status, reason, cost_usd=spent_usd))
