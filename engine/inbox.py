"""How a run is told what happens, by its attempts, by people and by timers.

Nothing here changes a run: the loop takes the letters and decides what they come to.
"""

from dataclasses import dataclass

import trio

from engine.core.events import CancelRequested, Decision, Trace, UsageReported
from engine.core.ids import TaskId
from engine.ports import EventSink


@dataclass(slots=True)
class Letter:
    """Something for the loop; `recorded` is set once it is durable or known to be no news."""

    event: Decision | UsageReported
    recorded: trio.Event | None = None


class Inbox:
    """How a run is told things while it works, and before; every method may be called at any time.

    What arrives after the run has settled is not heard.
    """

    def __init__(self) -> None:
        self._letters: list[Letter] = []
        self._arrived = trio.Event()
        self._closed = False

    def request_cancel(self, reason: str, task: TaskId | None = None) -> None:
        """Ask for the end of the run, or of one task; once is enough, more changes nothing."""
        self.post(Letter(CancelRequested(reason, task)))

    async def record_cancel(self, reason: str, task: TaskId | None = None) -> None:
        """Ask for the end as `request_cancel` does; return once it is durable or no news."""
        await self.record(CancelRequested(reason, task))

    async def record(self, event: Decision) -> None:
        """Tell the loop; return once `event` is durable, or known to come too late to matter."""
        recorded = trio.Event()
        self.post(Letter(event, recorded))
        await recorded.wait()

    def wake(self) -> None:
        """Have the loop look again at what may start, although nothing happened in the run."""
        self._arrived.set()

    def post(self, letter: Letter) -> None:
        """Hand a letter to the loop, or back to whoever waits for it once the loop has ended."""
        self._letters.append(letter)
        self._arrived.set()
        if self._closed:
            self.close()

    def close(self) -> None:
        """Hear nothing any more; whoever waits for a letter to be heard goes on."""
        self._closed = True
        for letter in self.take_nowait():
            if letter.recorded is not None:
                letter.recorded.set()

    async def wait_letters(self) -> list[Letter]:
        """Wait for a letter or to be woken; take all letters there are, in order of arrival."""
        await self._arrived.wait()
        return self.take_nowait()

    def take_nowait(self) -> list[Letter]:
        """Take all letters that there are, in order of arrival."""
        letters, self._letters = self._letters, []
        self._arrived = trio.Event()
        return letters


@dataclass(frozen=True, slots=True)
class LoopReporter:
    """Carries what happens in an attempt to the loop, and what is only to be seen to the log."""

    inbox: Inbox
    sink: EventSink

    async def record(self, event: Decision) -> None:
        """Return once `event` is durable, or known to come too late to matter."""
        await self.inbox.record(event)

    def note(self, event: Trace) -> None:
        """Show a trace event; what was spent also counts towards the run's limit."""
        self.sink.note(event)
        if isinstance(event, UsageReported):
            self.inbox.post(Letter(event))
