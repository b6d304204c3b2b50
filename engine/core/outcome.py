"""How a task ends, and what is known when it does."""

from dataclasses import dataclass
from enum import Enum

from engine.core.ids import TaskId

LOST_REASON = "host exited before this agent settled"


class Status(Enum):
    """Where a task stands; the last six are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    UNCERTAIN = "uncertain"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to the task by itself."""
        return self is not Status.QUEUED and self is not Status.RUNNING


class Verdict(Enum):
    """What a reviewer decides about a change."""

    APPROVE = "approve"
    CHANGES_REQUESTED = "changes_requested"


class FailureStage(Enum):
    """Where in an attempt's life it failed."""

    WORKSPACE = "workspace"
    SETUP = "setup"
    LAUNCH = "launch"
    PROCESS = "process"
    RESULT = "result"
    VERIFICATION = "verification"


class StopCause(Enum):
    """Who or what stops an attempt that has not ended by itself.

    `COST` ends everybody once the run's limit is passed; `TASK_COST` names the attempt that alone
    spent more than was left when it started, and which has failed because of it.
    """

    CANCEL = "cancel"
    TASK_DEADLINE = "task deadline"
    RUN_DEADLINE = "run deadline"
    COST = "cost"
    TASK_COST = "task cost"


@dataclass(frozen=True, slots=True)
class Stop:
    """An order to end, with the sentence that the task's `reason` will carry."""

    cause: StopCause
    reason: str

    @property
    def status(self) -> Status:
        """The status of a running task that is stopped for this cause."""
        outsiders = {StopCause.CANCEL, StopCause.COST}
        return Status.CANCELLED if self.cause in outsiders else Status.FAILED


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """What an attempt came to, after its result was made durable.

    Attributes:
        reason: present on everything that did not succeed.
        result_digest: SHA-256 of the saved result file, in hex; None when nothing was saved.
        cost_usd: dollars this attempt spent, as far as prices are known.
    """

    status: Status
    reason: str | None = None
    stage: FailureStage | None = None
    result_digest: str | None = None
    cost_usd: float = 0.0

    @property
    def is_lost(self) -> bool:
        """Whether nobody ended the attempt: it died with the process that carried it out."""
        return self.status is Status.CANCELLED and self.reason == LOST_REASON


@dataclass(frozen=True, slots=True)
class Unstarted:
    """A task that settles without ever having been started."""

    task: TaskId
    status: Status
    reason: str
