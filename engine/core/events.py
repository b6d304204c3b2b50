"""What can happen in a run. Events carry facts; time and sequence number belong to the log.

There are two classes. *Decision* events are durable before anything is done because of them, and
scheduling sees only these. *Trace* events show what an agent is doing and may be lost in a crash.
"""

from dataclasses import dataclass
from enum import Enum

from engine.core.ids import AttemptId, CheckId, TaskId
from engine.core.outcome import AttemptOutcome, Status, Stop


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run exists and its tasks are about to be queued."""

    task_count: int


@dataclass(frozen=True, slots=True)
class TaskQueued:
    """The task waits for its predecessors or for room."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt is about to begin; nothing of it has happened yet."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class AttemptStopping:
    """A running attempt is about to be ended from outside."""

    attempt: AttemptId
    stop: Stop


@dataclass(frozen=True, slots=True)
class AttemptSettled:
    """An attempt ended and its result is durable. Attempt 0: the task was never started."""

    attempt: AttemptId
    outcome: AttemptOutcome


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Someone wants the run, or one task of it, to end."""

    reason: str
    task: TaskId | None = None


@dataclass(frozen=True, slots=True)
class RunDeadlinePassed:
    """The run's absolute deadline is over."""

    limit_ms: int


@dataclass(frozen=True, slots=True)
class CostLimitPassed:
    """All attempts together spent more than the run may."""

    limit_usd: float
    spent_usd: float


@dataclass(frozen=True, slots=True)
class CheckStarted:
    """A check of an attempt is about to be started."""

    attempt: AttemptId
    check: CheckId


@dataclass(frozen=True, slots=True)
class CheckEnded:
    """A check of an attempt ended; `reason` is absent when it passed."""

    attempt: AttemptId
    check: CheckId
    passed: bool
    duration_ms: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CheckoutChanged:
    """The checkout that an agent read is no longer what it was.

    What counts is, for a reader, what it was when the reader started; for a reviewer of the
    checkout, when the run did.
    """

    attempt: AttemptId


class Sender(Enum):
    """Who speaks to a running agent: the session that started the run, or somebody watching it."""

    PARENT = "parent"
    USER = "user"


@dataclass(frozen=True, slots=True)
class SteerDelivered:
    """A message to a running agent is about to enter its conversation.

    Attributes:
        follow_up: whether it was held back until the agent would otherwise have stopped.
    """

    attempt: AttemptId
    text: str
    follow_up: bool
    sender: Sender = Sender.PARENT


@dataclass(frozen=True, slots=True)
class RepairRequested:
    """A settled writer shall mend its change; it and all that depend on it are queued next."""

    task: TaskId
    feedback: str


@dataclass(frozen=True, slots=True)
class RepairStarted:
    """The agent of a repaired writer is about to begin: from here on the repair counts."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class RerunRequested:
    """Tasks that were lost, and those that depend on them, are started again; they are queued.

    Attributes:
        tasks: in the graph's order; all of them were final.
    """

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A process took the run over from one that died, or a settled run goes on."""

    reason: str


@dataclass(frozen=True, slots=True)
class RunSettled:
    """Every task is final; nothing more will happen by itself."""

    status: Status
    reason: str | None = None


Decision = (
    RunStarted
    | TaskQueued
    | AttemptStarted
    | AttemptStopping
    | AttemptSettled
    | CancelRequested
    | RunDeadlinePassed
    | CostLimitPassed
    | CheckStarted
    | CheckEnded
    | CheckoutChanged
    | SteerDelivered
    | RepairRequested
    | RepairStarted
    | RerunRequested
    | RunResumed
    | RunSettled
)


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The agent asked its model for turn number `turn`, counted from 1."""

    attempt: AttemptId
    turn: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of visible text arrived from the model."""

    attempt: AttemptId
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of reasoning arrived from the model."""

    attempt: AttemptId
    text: str


@dataclass(frozen=True, slots=True)
class MessageEnded:
    """The model finished an answer."""

    attempt: AttemptId
    stop_reason: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call began; `summary` is one line for people."""

    attempt: AttemptId
    call: str
    tool: str
    summary: str


@dataclass(frozen=True, slots=True)
class ToolUpdated:
    """A tool call that goes on wrote something; `text` is the end of all that it wrote so far."""

    attempt: AttemptId
    call: str
    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool call ended."""

    attempt: AttemptId
    call: str
    tool: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class UsageReported:
    """What the attempt has used so far; every number counts from the attempt's start.

    Attributes:
        cost_usd: None while a price is unknown.
    """

    attempt: AttemptId
    turns: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class TelemetryReported:
    """What the programs of an attempt use: setup, checks, and the commands of its agent.

    Attributes:
        cpu_s: seconds of computing, all of the attempt's programs so far.
        memory_bytes: resident now; what several processes share counts for each of them.
        peak_memory_bytes: the most of it that was seen so far.
        processes: alive now.
        read_bytes, written_bytes: from and to storage so far; None where the kernel does not tell.
    """

    attempt: AttemptId
    cpu_s: float
    memory_bytes: int
    peak_memory_bytes: int
    processes: int
    read_bytes: int | None
    written_bytes: int | None


@dataclass(frozen=True, slots=True)
class ModelThrottled:
    """The provider refused a request because of its rate or its load.

    Attributes:
        wait_s: how long the attempt waits before it asks again.
    """

    attempt: AttemptId
    wait_s: float


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """A conversation that was about to outgrow its model was replaced by a summary of itself.

    Attributes:
        tokens_before: how long it was.
    """

    attempt: AttemptId
    tokens_before: int


Trace = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | MessageEnded
    | ToolStarted
    | ToolUpdated
    | ToolEnded
    | UsageReported
    | TelemetryReported
    | ModelThrottled
    | ContextCompacted
)

Event = Decision | Trace
