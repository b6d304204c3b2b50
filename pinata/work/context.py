"""What a tool call works with: the caller's surroundings, handed in and never looked up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents.traffic import Traffic
from engine.core.agent_dir import agent_dir
from engine.core.events import Sender, Trace
from engine.core.ids import RunId, TaskId
from engine.core.limiter import Limiter
from engine.core.view import RunView
from engine.records.event import Logged
from engine.system.clock import Clock


class Cancel(Protocol):
    """Asks a run to end."""

    def __call__(self, reason: str) -> None:
        """Ask for the end, once or more often; returns at once."""
        ...


class SteerTask(Protocol):
    """Leaves a message for a running agent."""

    def __call__(
        self, task: TaskId, text: str, *, follow_up: bool = False, sender: Sender = Sender.PARENT
    ) -> None:
        """Leave it; see `pinata.work.attempts.Attempts.steer` for what is refused."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run that is about to work, or to go on working.

    Attributes:
        agents: which agent has which task.
        after: every task in input order, with the tasks that it waits for.
        view: how the run stands.
        notices: what its caller should know before its agents start.
    """

    id: RunId
    started_at_ms: int
    agents: Mapping[TaskId, str]
    after: Mapping[TaskId, Sequence[TaskId]]
    view: RunView
    cancel: Cancel
    steer: SteerTask
    notices: Sequence[str] = ()


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


@dataclass(frozen=True, slots=True)
class Context:
    """The caller's surroundings.

    Attributes:
        environment: the caller's whole environment; what a child sees of it is decided elsewhere.
        shell: the program that reads shell scripts, with `-c` before the text.
        cwd: where the caller stands.
        base: what a relative `cwd` of a request starts from: a job file's folder, else `cwd`.
        holder: who we are, for the message that others get while we hold a lock.
        project_trust: what the caller says about trusting the project; None asks Pi's decisions.
        traffic: the way to models, and how much they bear; shared by all runs of this process.
    """

    environment: Mapping[str, str]
    shell: str
    cwd: Path
    base: Path
    clock: Clock
    holder: str
    project_trust: bool | None
    traffic: Traffic
    observer: Observer

    @property
    def agent_dir(self) -> Path | None:
        """The Pi agent directory of the caller, which need not be there."""
        found = agent_dir(self.environment)
        return None if found is None else self.cwd / found

    @property
    def limiter(self) -> Limiter:
        """What decides how many agents may work."""
        return self.traffic.limiter
