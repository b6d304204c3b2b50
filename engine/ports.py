"""What the core needs from the outside, as protocols; `pinata.app` brings the real parts."""

from collections.abc import Sequence
from typing import Protocol

from engine.core.events import Decision, Event, Trace
from engine.core.ids import AttemptId
from engine.core.outcome import AttemptOutcome, Stop, Unstarted


class EventSink(Protocol):
    """Where the loop writes what happened."""

    async def append(self, events: Sequence[Event]) -> None:
        """Make `events` durable, in order, as one write; return when they are."""
        ...

    def note(self, event: Trace) -> None:
        """Take a trace event; it becomes durable soon, and is lost if the process dies first."""
        ...


class Reporter(Protocol):
    """How an attempt tells the loop what is happening in it."""

    async def record(self, event: Decision) -> None:
        """Return once `event` is durable."""
        ...

    def note(self, event: Trace) -> None:
        """Show a trace event; never blocks and never fails."""
        ...


class Executor(Protocol):
    """Does the work of attempts. Every method returns after its result is durable."""

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        """Carry the attempt out. Cancelled when the attempt is stopped; see `close`."""
        ...

    async def close(self, attempt: AttemptId, stop: Stop, reporter: Reporter) -> AttemptOutcome:
        """Save what a stopped attempt left behind; called once its `run` has returned."""
        ...

    async def settle_unstarted(self, tasks: Sequence[Unstarted]) -> Sequence[str | None]:
        """Save the results of tasks that never started; return their digests in the same order."""
        ...
