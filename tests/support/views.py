"""Runs as a view hears of them, and a source that tells what the test says."""

from collections.abc import Sequence
from pathlib import Path

import trio

from agents.transcript import SaidMessage
from engine.core.errors import ConflictError, PinataError
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    RunStarted,
    Sender,
    TaskQueued,
    Trace,
)
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.work.observer import Observer, OpenedRun

FIX, CHECK, LOOK = map(TaskId, ("fix", "check", "look"))
PLAN: dict[TaskId, Sequence[TaskId]] = {FIX: (), CHECK: (FIX,), LOOK: ()}


def cancelled(reason: str) -> None:
    raise AssertionError


async def cancelled_for_good(reason: str, task: TaskId | None = None) -> None:
    raise AssertionError


def steered(
    task: TaskId, text: str, *, follow_up: bool = False, sender: Sender = Sender.PARENT
) -> None:
    raise AssertionError


def opened(
    *events: Event, plan: dict[TaskId, Sequence[TaskId]] = PLAN, agent: str = "builder"
) -> OpenedRun:
    view = RunView()
    beginning: list[Event] = [RunStarted(len(plan)), *map(TaskQueued, plan)]
    for seq, event in enumerate([*beginning, *events]):
        view.apply(seq, 0, event)
    return OpenedRun(
        id=RunId("0123456789abcdef"),
        folder=Path("/nowhere"),
        started_at_ms=0,
        agents=dict.fromkeys(plan, agent),
        after=plan,
        view=view,
        cancel=cancelled,
        record_cancel=cancelled_for_good,
        steer=steered,
    )


def started(task: TaskId, number: int = 1) -> AttemptStarted:
    return AttemptStarted(AttemptId(task, number))


def settled(task: TaskId, status: Status, reason: str | None = None) -> AttemptSettled:
    return AttemptSettled(AttemptId(task, 1), AttemptOutcome(status, reason))


class ToldSource:
    """A source that tells what the test says, and keeps what it is asked for.

    Attributes:
        asked: every request, in order.
        refusal: what every request is refused with, None when they are granted.
        said: the conversation of every task.
        watched: set once somebody hears of the run from here.
    """

    def __init__(self, run: OpenedRun | None) -> None:
        self.watched = trio.Event()
        self.asked: list[object] = []
        self.refusal: PinataError | None = None
        self.said: list[SaidMessage] = []
        self._run = run
        self._seq = 0 if run is None else run.view.seq + 1
        self._observer: Observer | None = None
        self._over = trio.Event()
        self._loss: PinataError | None = None
        self._reopened = trio.Event()
        self._left: PinataError | None = None

    def happen(self, *events: Event) -> None:
        """Tell what happened."""
        assert self._observer is not None
        for event in events:
            self._observer.happened(Logged(self._seq, 1_000 * self._seq, event))
            self._seq += 1

    def note(self, *events: Trace) -> None:
        """Tell what agents do."""
        assert self._observer is not None
        for event in events:
            self._observer.noted(event)

    def open_anew(self, run: OpenedRun) -> None:
        """Tell how the run stands, since some of what happened was not told."""
        assert self._observer is not None
        self._observer.run_opened(run)

    def end(self, loss: PinataError | None = None) -> None:
        """Tell that nothing more happens, or that it could not be heard of."""
        self._loss = loss
        self._over.set()

    def reopen(self, run: OpenedRun) -> None:
        """Tell that a run which has settled goes on."""
        self._run, self._over = run, trio.Event()
        self._reopened.set()

    def leave(self) -> None:
        """Tell that whoever owned a run which has settled has nothing more to say of it."""
        self._left = ConflictError("its owner has left")
        self._reopened.set()

    async def watch(self, observer: Observer) -> None:
        self._observer = observer
        self.watched.set()
        if self._run is not None:
            observer.run_opened(self._run)
        await self._over.wait()
        if self._loss is not None:
            raise self._loss

    async def wait_reopened(self) -> None:
        await self._reopened.wait()
        if self._left is not None:
            raise self._left

    async def steer(self, task: TaskId, text: str, *, follow_up: bool) -> None:
        self._ask((task, text, follow_up))
        await trio.lowlevel.checkpoint()

    async def cancel(self, task: TaskId | None = None) -> bool:
        self._ask(("cancel", task))
        await trio.lowlevel.checkpoint()
        return task == LOOK

    async def messages(self, task: TaskId, attempt: int | None) -> Sequence[SaidMessage]:
        self._ask(("messages", task, attempt))
        await trio.lowlevel.checkpoint()
        return tuple(self.said)

    def _ask(self, request: object) -> None:
        self.asked.append(request)
        if self.refusal is not None:
            raise self.refusal
