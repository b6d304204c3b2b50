"""The loop that runs a task graph: fold what arrived, decide, announce in one write, act.

The loop is the only one that changes the run's state. Everybody else sends it events: attempts by
their reporter and by ending, people through its `engine.inbox.Inbox`, timers through the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import trio

from engine.core.commands import Command, StartAttempt, StopAttempt, announcement
from engine.core.decide import decide
from engine.core.events import (
    AttemptSettled,
    AttemptStopping,
    Decision,
    Event,
    RunDeadlinePassed,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import AttemptOutcome, Stop, StopCause, Unstarted
from engine.core.recovery import opening_events
from engine.core.reduce import reduce
from engine.core.slots import Slots, open_slots
from engine.core.spec import Limits
from engine.core.state import Graph, RunState
from engine.inbox import Inbox, Letter, LoopReporter
from engine.ports import EventSink, Executor, Reporter
from engine.system.clock import Clock
from engine.system.nursery import open_flat_nursery


@dataclass(frozen=True, slots=True)
class Terms:
    """What is fixed about a run before its first turn.

    Attributes:
        providers: whose model works on each task of the graph.
        limits: `concurrency`, `task_ms`, `job_ms` (for the reason only) and `cost_usd` count here.
        deadline_at_ms: epoch milliseconds; nothing of the run goes on after it.
    """

    graph: Graph
    providers: Mapping[TaskId, str]
    limits: Limits
    deadline_at_ms: int


@dataclass(frozen=True, slots=True)
class Means:
    """What a run is carried out with.

    Attributes:
        executor: does the work of attempts and saves results.
        sink: where events become durable.
        limiter: shared by all runs of this process.
        clock: what the deadline is compared with.
    """

    executor: Executor
    sink: EventSink
    limiter: Limiter
    clock: Clock


@dataclass(frozen=True, slots=True)
class Continuation:
    """Where a run is taken up.

    Attributes:
        state: from `recovery.recover` or an earlier call; it is changed from now on.
        opening: the events to begin with, not yet recorded.
    """

    state: RunState
    opening: Sequence[Decision]


async def run_graph(
    terms: Terms, means: Means, inbox: Inbox, *, go_on: Continuation | None = None
) -> RunState:
    """Carry the run out until every task is final and the run's end is durable; return the state.

    A cancel from outside ends all attempts and leaves the log as it stands: `recovery.recover`
    closes it later.

    Several runs of a process go on side by side: an attempt holds a slot of their common limiter
    from the decision to start it until it has ended, however it ends. Whoever looks first after a
    slot became free may have it, so a large run does not keep a small one waiting.

    Args:
        terms: what is fixed about the run.
        means: what it is carried out with.
        inbox: what it already holds is heard right after the opening.
        go_on: where the run stands; None for a new one.

    Raises:
        PinataError: an executor or the sink failed. Nothing more was recorded.
    """
    limits, limiter = terms.limits, means.limiter
    go_on = go_on or Continuation(RunState(terms.graph), opening_events(terms.graph))
    state = go_on.state
    state.ready.assign(terms.providers)
    letters = [Letter(event) for event in go_on.opening]
    if terms.deadline_at_ms <= means.clock.now_ms():
        letters.append(Letter(RunDeadlinePassed(limits.job_ms)))
    letters += inbox.take_nowait()  # what was ordered before comes before the first start

    def look_again() -> None:
        if state.ready:
            inbox.wake()

    with (
        limiter.admit_run(limits.concurrency),
        open_slots(limiter, terms.providers, look_again) as slots,
    ):
        loop = _Loop(state, terms, means, inbox, slots)
        try:
            async with open_flat_nursery() as nursery:
                nursery.start_soon(_watch_deadline, terms, means.clock, inbox)
                await loop.work(nursery, letters)
                nursery.cancel_scope.cancel()
        finally:
            inbox.close()
    return state


async def _watch_deadline(terms: Terms, clock: Clock, inbox: Inbox) -> None:
    """Tell the loop when the deadline is over."""
    await trio.sleep(max(0, terms.deadline_at_ms - clock.now_ms()) / 1000)
    inbox.post(Letter(RunDeadlinePassed(terms.limits.job_ms)))


@dataclass(slots=True)
class _Turn:
    """What one turn of the loop came to, before any of it is durable.

    Attributes:
        events: to be recorded, in order.
        unstarted: tasks that settle in this turn, with the place in `events` that says so.
        commands: to be carried out once the events are durable.
    """

    events: list[Event] = field(default_factory=list)
    unstarted: list[tuple[int, Unstarted]] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)


@dataclass(slots=True)
class _Loop:
    state: RunState
    terms: Terms
    means: Means
    inbox: Inbox
    slots: Slots
    scopes: dict[AttemptId, trio.CancelScope] = field(default_factory=dict)

    async def work(self, nursery: trio.Nursery, letters: list[Letter]) -> None:
        """Take turns until the run has settled."""
        while True:
            await self._take_turn(nursery, letters)
            if self.state.settled is not None:
                return
            letters = await self.inbox.wait_letters()

    async def _take_turn(self, nursery: trio.Nursery, letters: list[Letter]) -> None:
        # No await before all is decided: an attempt that ends meanwhile either has its letter
        # among these, and its outcome counts, or finds its stop in the state, and the stop counts.
        # Nor can another run take the room that was found before the slots in it are taken.
        turn = _Turn()
        for letter in letters:
            self._fold(turn, letter)
        while commands := self._decide():
            for command in commands:
                self._announce(turn, command)
        if turn.unstarted:
            await self._save_unstarted(turn)
        if turn.events:
            await self.means.sink.append(turn.events)
        for command in turn.commands:
            self._act(nursery, command)
        for letter in letters:
            if letter.recorded is not None:
                letter.recorded.set()

    def _decide(self) -> list[Command]:
        room = self.means.limiter.room(self.state.ready.providers)
        return decide(self.state, self.terms.limits, room)

    def _fold(self, turn: _Turn, letter: Letter) -> None:
        event, is_news = letter.event, reduce(self.state, letter.event)
        if is_news and not isinstance(event, UsageReported):  # the sink already has those
            turn.events.append(event)

    def _announce(self, turn: _Turn, command: Command) -> None:
        if isinstance(command, StartAttempt):
            self.slots.take(command.attempt)
        for event in announcement(command):
            reduce(self.state, event)
            if isinstance(event, AttemptSettled):
                task, outcome = event.attempt.task, event.outcome
                assert outcome.reason is not None
                unstarted = Unstarted(task, outcome.status, outcome.reason)
                turn.unstarted.append((len(turn.events), unstarted))
            turn.events.append(event)
        turn.commands.append(command)

    async def _save_unstarted(self, turn: _Turn) -> None:
        """Save the results of this turn's unstarted tasks and put their digests into the events."""
        digests = await self.means.executor.settle_unstarted([each for _, each in turn.unstarted])
        for (place, _), digest in zip(turn.unstarted, digests, strict=True):
            event = turn.events[place]
            assert isinstance(event, AttemptSettled)
            outcome = replace(event.outcome, result_digest=digest)
            turn.events[place] = replace(event, outcome=outcome)

    def _act(self, nursery: trio.Nursery, command: Command) -> None:
        match command:
            case StartAttempt(attempt=attempt):
                scope = trio.CancelScope(relative_deadline=self.terms.limits.task_ms / 1000)
                self.scopes[attempt] = scope
                nursery.start_soon(self._attempt, attempt, scope, name=str(attempt))
            case StopAttempt(attempt=attempt) if attempt in self.scopes:
                self.scopes[attempt].cancel()
            case _:
                pass

    async def _attempt(self, attempt: AttemptId, scope: trio.CancelScope) -> None:
        """Carry one attempt out, give its slot back and tell the loop what it came to."""
        try:
            outcome = await self._carry_out(attempt, scope)
        finally:
            self.slots.give_back(attempt)
        self.inbox.post(Letter(AttemptSettled(attempt, outcome)))

    async def _carry_out(self, attempt: AttemptId, scope: trio.CancelScope) -> AttemptOutcome:
        """Have one attempt done, and close it when it is stopped or out of time."""
        reporter = LoopReporter(self.inbox, self.means.sink)
        outcome: AttemptOutcome | None = None
        with scope:
            outcome = await self.means.executor.run(attempt, reporter)
        del self.scopes[attempt]
        stop = self.state.stop_of(attempt)
        if outcome is None or stop is not None:
            reason = f"task deadline of {self.terms.limits.task_ms} ms passed"
            stop = stop or Stop(StopCause.TASK_DEADLINE, reason)
            # For a stop that the loop ordered this records nothing: it waits until that is durable.
            await reporter.record(AttemptStopping(attempt, stop))
            outcome = await self._close(attempt, reporter)
        return outcome

    async def _close(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        """Have a stopped attempt closed, for the reason that was recorded first."""
        stop = self.state.stop_of(attempt)
        assert stop is not None
        return await self.means.executor.close(attempt, stop, reporter)
