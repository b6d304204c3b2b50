"""What those who watch runs hear of them, and how they reach into one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from engine.core.errors import ConflictError
from engine.core.events import Sender, Trace
from engine.core.ids import RunId, TaskId
from engine.core.view import RunView
from engine.records.event import Logged


class Cancel(Protocol):
    """Asks a run to end."""

    def __call__(self, reason: str) -> None:
        """Ask for the end, once or more often; returns at once."""
        ...


class RecordCancel(Protocol):
    """Asks a run, or one task of it, to end."""

    async def __call__(self, reason: str, task: TaskId | None = None) -> None:
        """Return once that is durable, or known to be no news."""
        ...


class SteerTask(Protocol):
    """Leaves a message for a running agent."""

    def __call__(
        self, task: TaskId, text: str, *, follow_up: bool = False, sender: Sender = Sender.PARENT
    ) -> None:
        """Leave it; see `pinata.work.attempts.Attempts.steer` for what is refused."""
        ...


def _refuse(*_given: object, **_named: object) -> NoReturn:
    raise ConflictError("the run is only looked at: nothing can be asked of it here")


async def _refuse_later(*_given: object, **_named: object) -> NoReturn:
    _refuse()


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run that is about to work, or to go on working, or one that is looked at.

    Its owner alone reaches into it by `cancel`, `record_cancel` and `steer`; whoever looks at it
    from elsewhere asks the owner by other ways, and these refuse.

    Attributes:
        folder: where it is stored.
        agents: which agent has which task.
        after: every task in input order, with the tasks that it waits for.
        view: how the run stands.
        notices: what its caller should know before its agents start.
        survives: whether it goes on when the session that started it has ended.
        backends: what runs the agent of each task, where that is known.
    """

    id: RunId
    folder: Path
    started_at_ms: int
    agents: Mapping[TaskId, str]
    after: Mapping[TaskId, Sequence[TaskId]]
    view: RunView
    cancel: Cancel = _refuse
    record_cancel: RecordCancel = _refuse_later
    steer: SteerTask = _refuse
    notices: Sequence[str] = ()
    survives: bool = False
    backends: Mapping[TaskId, str] = field(default_factory=dict)


class Observer(Protocol):
    """What a face wants to hear while a run works; it is called on the loop and must not block."""

    def run_opened(self, run: OpenedRun) -> None:
        """The run is about to work."""
        ...

    def happened(self, logged: Logged) -> None:
        """An event was written."""
        ...

    def noted(self, event: Trace) -> None:
        """An agent does something; written later, or not at all."""
        ...


class Silence:
    """An observer that does not care."""

    def run_opened(self, run: OpenedRun) -> None:
        """Do nothing."""

    def happened(self, logged: Logged) -> None:
        """Do nothing."""

    def noted(self, event: Trace) -> None:
        """Do nothing."""


class Both:
    """An observer that tells two others."""

    def __init__(self, first: Observer, second: Observer) -> None:
        """Begin with those that are told, in this order."""
        self._told = (first, second)

    def run_opened(self, run: OpenedRun) -> None:
        """See `Observer`."""
        for one in self._told:
            one.run_opened(run)

    def happened(self, logged: Logged) -> None:
        """See `Observer`."""
        for one in self._told:
            one.happened(logged)

    def noted(self, event: Trace) -> None:
        """See `Observer`."""
        for one in self._told:
            one.noted(event)


class Onlooker(Protocol):
    """Watches all runs of a process."""

    def begin(self) -> Observer:
        """Return what is to hear of one more run."""
        ...

    def end(self, observer: Observer) -> None:
        """Learn that this run is in this process's hands no longer, whatever became of it."""
        ...


class NoOnlooker:
    """Watches nothing."""

    def begin(self) -> Observer:
        """See `Onlooker`."""
        return Silence()

    def end(self, observer: Observer) -> None:
        """See `Onlooker`."""
