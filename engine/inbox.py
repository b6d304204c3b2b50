"""How a run is told what happens, by its attempts, by people and by timers.

Nothing here changes a run: the loop takes the letters and decides what they come to.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import trio

from engine.core.events import CancelRequested, Decision, Trace, UsageReported
from engine.core.ids import TaskId
from engine.core.repair import RepairRules, refusal, repair_events
from engine.core.state import RunState
from engine.ports import EventSink


class FirstDecisions(Protocol):
    """Computes events from where the run stands at the moment when they are folded."""

    def __call__(self, state: RunState) -> Iterable[Decision]:
        """Return the events; `state` is only looked at."""
        ...


@dataclass(slots=True)
class Letter:
    """Something for the loop; `recorded` is set once it is durable or known to be no news."""

    event: Decision | UsageReported | FirstDecisions
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
        letter = Letter(CancelRequested(reason, task), trio.Event())
        self.post(letter)
        assert letter.recorded is not None
        await letter.recorded.wait()

    async def request_repair(self, task: TaskId, feedback: str, rules: RepairRules) -> str | None:
        """Ask that a settled writer mends its change; return why it may not, or None.

        Returns once the request is durable or refused.
        """
        answers: list[str | None] = ["the run has ended: ask once more"]

        def decide_repair(state: RunState) -> Iterable[Decision]:
            answers.append(refusal(state, rules, task, feedback))
            return repair_events(state, task, feedback) if answers[-1] is None else ()

        letter = Letter(decide_repair, trio.Event())
        self.post(letter)
        assert letter.recorded is not None
        await letter.recorded.wait()
        return answers[-1]

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
        letter = Letter(event, trio.Event())
        self.inbox.post(letter)
        assert letter.recorded is not None
        await letter.recorded.wait()

    def note(self, event: Trace) -> None:
        """Show a trace event; what was spent also counts towards the run's limit."""
        self.sink.note(event)
        if isinstance(event, UsageReported):
            self.inbox.post(Letter(event))
