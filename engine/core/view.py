"""What is shown of a run, folded from every event of its log.

The same events give the same view, live or read back; a lean log gives what a full one does,
because nothing that lasts is taken from an event that a lean log leaves out. The one exception,
`TelemetryReported`, does not happen at all in a run with a lean log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, assert_never

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    CancelRequested,
    CheckEnded,
    CheckoutChanged,
    CheckStarted,
    ContextCompacted,
    CostLimitPassed,
    Event,
    MessageEnded,
    ModelThrottled,
    RepairRequested,
    RepairStarted,
    RerunRequested,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    RunStarted,
    Sender,
    SteerDelivered,
    TaskQueued,
    TelemetryReported,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    Trace,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, CheckId, TaskId
from engine.core.outcome import FailureStage, Status, Stop
from engine.core.stop_order import ordered_stop


class UsageView(NamedTuple):
    """What was used; a cost is what is known of it.

    A named tuple, like `TaskView`: whoever reads a long log makes a new one for most of its lines,
    and a frozen dataclass takes twice as long to make and to change.

    Attributes:
        cost_is_partial: some of it had no known price.
    """

    turns: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cost_is_partial: bool = False

    def plus(self, other: "UsageView") -> "UsageView":
        """Return the sum of both."""
        return UsageView(
            self.turns + other.turns,
            self.tool_calls + other.tool_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.cost_is_partial or other.cost_is_partial,
        )


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check of the newest attempt; `passed` is None while it runs."""

    check: CheckId
    passed: bool | None = None
    duration_ms: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SteerView:
    """A message that reached an agent while it worked; see `SteerDelivered`."""

    text: str
    follow_up: bool
    sender: Sender = Sender.PARENT


class ResourcesView(NamedTuple):
    """What the programs of an attempt used, as `TelemetryReported` says."""

    cpu_s: float = 0.0
    memory_bytes: int = 0
    peak_memory_bytes: int = 0
    processes: int = 0
    read_bytes: int | None = None
    written_bytes: int | None = None


class TaskView(NamedTuple):
    """What is shown of one task.

    Attributes:
        attempt: the newest attempt; 0 before the first.
        started_at_ms, settled_at_ms: of the newest attempt, epoch milliseconds.
        stop: why the running attempt is being ended.
        reason, stage, digest: as the outcome said.
        settled_attempt: whose saved result counts; 0 when the task settled unstarted.
        attempt_usage: what the newest attempt used so far.
        earlier_usage: what all attempts before it used.
        resources: what the programs of the newest attempt used; None where nobody measured.
        checks: of the newest attempt, in the order in which they started.
        steers: of all attempts, in the order in which they were delivered.
        activity: what a running agent does at the moment, in a few words; not kept.
    """

    task: TaskId
    status: Status = Status.QUEUED
    attempt: int = 0
    started_at_ms: int | None = None
    settled_at_ms: int | None = None
    stop: Stop | None = None
    reason: str | None = None
    stage: FailureStage | None = None
    digest: str | None = None
    settled_attempt: int | None = None
    attempt_usage: UsageView = UsageView()
    earlier_usage: UsageView = UsageView()
    resources: ResourcesView | None = None
    checks: tuple[CheckView, ...] = ()
    checkout_changed: bool = False
    steers: tuple[SteerView, ...] = ()
    activity: str = ""

    @property
    def usage(self) -> UsageView:
        """What all attempts used."""
        return self.earlier_usage.plus(self.attempt_usage)


@dataclass(slots=True)
class RunView:
    """What is shown of a run.

    Attributes:
        seq: number of the newest event that was folded; -1 before the first.
        status: RUNNING until it has settled.
        started_at_ms, settled_at_ms: epoch milliseconds.
        stop_reason: why the run is being ended or was ended before its tasks were done.
        rested_ms: for how long it was settled before it went on; its job clock stood still.
        settlements: how often it has settled; names a delivery together with the run's id.
        tasks: in the order in which they were first queued.
    """

    seq: int = -1
    status: Status = Status.QUEUED
    reason: str | None = None
    started_at_ms: int | None = None
    settled_at_ms: int | None = None
    stop_reason: str | None = None
    rested_ms: int = 0
    settlements: int = 0
    tasks: dict[TaskId, TaskView] = field(default_factory=dict)

    @property
    def usage(self) -> UsageView:
        """What all attempts of all tasks used."""
        tasks = self.tasks.values()
        return _total([part for task in tasks for part in (task.earlier_usage, task.attempt_usage)])

    def copy(self) -> "RunView":
        """Return a view that later events do not change."""
        return replace(self, tasks=dict(self.tasks))

    def apply(self, seq: int, at_ms: int, event: Event) -> None:
        """Fold one event; one at or below `seq` was folded before and is ignored."""
        if seq <= self.seq:
            return
        self.seq = seq
        match event:
            case RunStarted() | RunResumed() | RunSettled():
                self._move(at_ms, event)
            case CancelRequested() | RunDeadlinePassed() | CostLimitPassed():
                if not isinstance(event, CancelRequested) or event.task is None:
                    self.stop_reason = self.stop_reason or ordered_stop(event).reason
            case TaskQueued(task=task) | RepairRequested(task=task):
                # What the task came to before does not count any more, from the request on.
                self._queue(task)
            case RerunRequested(tasks=tasks):
                for task in tasks:
                    self._queue(task)
            case AttemptSettled():
                self._settle(at_ms, event)
            case AttemptStarted(attempt=attempt):
                self._start(at_ms, attempt)
            case _:
                self._change(event)

    def note(self, event: Trace) -> None:
        """Fold a trace event at the moment when it happens, before or without its number."""
        self._change(event)

    def _move(self, at_ms: int, event: RunStarted | RunResumed | RunSettled) -> None:
        match event:
            case RunStarted():
                self.status, self.started_at_ms = Status.RUNNING, at_ms
            case RunResumed():
                if self.settled_at_ms is not None:
                    self.rested_ms += max(0, at_ms - self.settled_at_ms)
                    self.reason = self.settled_at_ms = self.stop_reason = None
                self.status = Status.RUNNING
            case RunSettled(status=status, reason=reason):
                self.status, self.reason, self.settled_at_ms = status, reason, at_ms
                self.settlements += 1
            case _:
                assert_never(event)

    def _queue(self, name: TaskId) -> None:
        old = self.tasks.get(name)
        if old is None:
            self.tasks[name] = TaskView(name)
            return
        self.tasks[name] = TaskView(
            name,
            attempt=old.attempt,
            earlier_usage=old.usage,
            # What an earlier try was told shaped what the next one goes on from.
            steers=old.steers,
        )

    def _start(self, at_ms: int, attempt: AttemptId) -> None:
        task = self.tasks.get(attempt.task)
        if task is not None:
            self.tasks[attempt.task] = task._replace(
                status=Status.RUNNING, attempt=attempt.number, started_at_ms=at_ms
            )

    def _settle(self, at_ms: int, event: AttemptSettled) -> None:
        task, outcome = self.tasks.get(event.attempt.task), event.outcome
        if task is None or task.status.is_final:
            return
        # The outcome knows the final cost even where the last report of it was lost in a crash.
        cost_usd = max(task.attempt_usage.cost_usd, outcome.cost_usd)
        self.tasks[task.task] = task._replace(
            status=outcome.status,
            settled_at_ms=at_ms,
            stop=None,
            reason=outcome.reason,
            stage=outcome.stage,
            digest=outcome.result_digest,
            settled_attempt=event.attempt.number,
            attempt_usage=task.attempt_usage._replace(cost_usd=cost_usd),
            activity="",
        )

    def _change(self, event: "_Change") -> None:
        """Fold an event of a running attempt; a late one changes nothing."""
        task = self.tasks.get(event.attempt.task)
        if task is None or task.status is not Status.RUNNING:
            return
        if task.attempt == event.attempt.number:
            self.tasks[task.task] = _changed(task, event)


def _total(parts: Sequence[UsageView]) -> UsageView:
    # A pass for each number; adding value to value takes several times as long.
    return UsageView(
        sum(part.turns for part in parts),
        sum(part.tool_calls for part in parts),
        sum(part.input_tokens for part in parts),
        sum(part.output_tokens for part in parts),
        sum((part.cost_usd for part in parts), 0.0),
        any(part.cost_is_partial for part in parts),
    )


def _changed(task: TaskView, event: "_Change") -> TaskView:
    match event:
        case AttemptStopping(stop=stop):
            return task if task.stop is not None else task._replace(stop=stop)
        case CheckStarted(check=check):
            return task._replace(checks=(*task.checks, CheckView(check)), activity=f"check {check}")
        case CheckEnded():
            return task._replace(checks=_ended(task.checks, event), activity="")
        case CheckoutChanged():
            return task._replace(checkout_changed=True)
        case SteerDelivered():
            steer = SteerView(event.text, event.follow_up, event.sender)
            return task._replace(steers=(*task.steers, steer))
        case UsageReported() | TelemetryReported():
            return _used(task, event)
        case ModelThrottled(wait_s=wait_s):
            return task._replace(activity=f"waits {wait_s:.1f} s for its provider")
        case ToolStarted(tool=tool, summary=summary):
            return task._replace(activity=f"{tool} {summary}".rstrip())
        case (
            TextDelta()
            | ThinkingDelta()
            | ToolUpdated()
            | ToolEnded()
            | MessageEnded()
            | TurnStarted()
            | ContextCompacted()
            | RepairStarted()
        ):
            goes_on = isinstance(event, ToolUpdated)
            activity = task.activity if goes_on else _ACTIVITIES.get(type(event), "")
            return task if task.activity == activity else task._replace(activity=activity)
        case _:
            assert_never(event)


_ACTIVITIES = {TurnStarted: "waits for its model", TextDelta: "writes", ThinkingDelta: "thinks"}


def _ended(checks: tuple[CheckView, ...], event: CheckEnded) -> tuple[CheckView, ...]:
    ended = CheckView(event.check, event.passed, event.duration_ms, event.reason)
    return tuple(ended if each.check == event.check else each for each in checks)


def _used(task: TaskView, event: UsageReported | TelemetryReported) -> TaskView:
    if isinstance(event, UsageReported):
        return task._replace(attempt_usage=_usage(event))
    return task._replace(resources=_resources(event))


def _usage(event: UsageReported) -> UsageView:
    return UsageView(
        event.turns,
        event.tool_calls,
        event.input_tokens,
        event.output_tokens,
        event.cost_usd or 0.0,
        event.cost_usd is None,
    )


def _resources(event: TelemetryReported) -> ResourcesView:
    return ResourcesView(
        event.cpu_s,
        event.memory_bytes,
        event.peak_memory_bytes,
        event.processes,
        event.read_bytes,
        event.written_bytes,
    )


_Change = (
    AttemptStopping
    | CheckStarted
    | CheckEnded
    | CheckoutChanged
    | RepairStarted
    | SteerDelivered
    | Trace
)
