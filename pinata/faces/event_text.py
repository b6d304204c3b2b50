"""Events as lines of progress for a terminal. Pure: values in, text out."""

from collections.abc import Mapping

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    CancelRequested,
    CheckEnded,
    CheckoutChanged,
    ContextCompacted,
    CostLimitPassed,
    Event,
    ModelThrottled,
    RepairRequested,
    RerunRequested,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    RunStarted,
    SteerDelivered,
    TelemetryReported,
    ToolStarted,
)
from engine.core.ids import TaskId
from engine.core.quote import name_list
from engine.records.event import Logged
from pinata.faces.text import visible

_MOST_QUOTED = 200
_MEGABYTE = 1_000_000


def log_line(logged: Logged, started_at_ms: int, agents: Mapping[TaskId, str]) -> str | None:
    """Return the line of an event in the log, None for events that are not worth one.

    It begins with the seconds since the run was started, which makes columns of lines.
    """
    if isinstance(logged.event, TelemetryReported):
        shown: str | None = _telemetry_line(logged.event)
    else:
        shown = event_line(logged.event, agents)
    return None if shown is None else f"{(logged.at_ms - started_at_ms) / 1000:8.2f}  {shown}"


def event_line(event: Event, agents: Mapping[TaskId, str]) -> str | None:
    """Return the progress line of `event`, None for events that are not worth one.

    Args:
        event: what happened.
        agents: task to the name of the agent that works on it.
    """
    match event:
        case RunStarted(task_count=count):
            return f"run started, {count} task{'' if count == 1 else 's'}"
        case CancelRequested(reason=reason, task=task):
            return f"{task or 'run'}: cancel requested: {visible(reason)}"
        case RunDeadlinePassed(limit_ms=limit_ms):
            return f"run deadline of {limit_ms} ms passed"
        case CostLimitPassed(limit_usd=limit, spent_usd=spent):
            return f"run cost limit of ${limit:.4f} passed: ${spent:.4f} spent"
        case RepairRequested(task=task, feedback=feedback):
            return f"{task}: repair requested: {visible(feedback)}"
        case RerunRequested(tasks=tasks):
            return f"rerun requested: {name_list(tasks)}"
        case RunResumed(reason=reason):
            return f"run resumed: {visible(reason)}"
        case RunSettled(status=status, reason=reason):
            return f"run {status.value}" + (f": {visible(reason)}" if reason else "")
        case _:
            return _attempt_line(event, agents)


def _attempt_line(event: Event, agents: Mapping[TaskId, str]) -> str | None:
    match event:
        case AttemptStarted(attempt=attempt):
            again = f", attempt {attempt.number}" if attempt.number > 1 else ""
            return f"{attempt.task}: started ({agents.get(attempt.task, 'agent')}{again})"
        case ToolStarted(attempt=attempt, tool=tool, summary=summary):
            return f"{attempt.task}:   {visible(f'{tool} {summary}')}".rstrip()
        case CheckEnded(attempt=attempt, check=check, passed=passed, reason=reason):
            end = "passed" if passed else f"failed: {visible(reason or '')}"
            return f"{attempt.task}:   check {check} {end} ({event.duration_ms} ms)"
        case AttemptStopping(attempt=attempt, stop=stop):
            return f"{attempt.task}: stopping: {visible(stop.reason)}"
        case AttemptSettled(attempt=attempt, outcome=outcome):
            why = f": {visible(outcome.reason)}" if outcome.reason else ""
            return f"{attempt.task}: {outcome.status.value}{why}"
        case CheckoutChanged(attempt=attempt):
            return f"{attempt.task}: the checkout changed while it was being read"
        case _:
            return _conversation_line(event)


def _conversation_line(event: Event) -> str | None:
    match event:
        case SteerDelivered(attempt=attempt, text=text, follow_up=follow_up):
            return f"{attempt.task}:   {'follow-up' if follow_up else 'steered'}: {_quoted(text)}"
        case ModelThrottled(attempt=attempt, wait_s=wait_s):
            return f"{attempt.task}:   throttled by its provider, waits {wait_s:.1f} s"
        case ContextCompacted(attempt=attempt, tokens_before=tokens):
            return f"{attempt.task}:   conversation of {tokens} tokens compacted"
        case _:
            return None


def _telemetry_line(event: TelemetryReported) -> str:
    """Return a line for a log; where lines are shown as things happen it would come too often."""
    processes = f"{event.processes} process{'' if event.processes == 1 else 'es'}"
    now = f"{event.memory_bytes / _MEGABYTE:.1f} MB in {processes}"
    most = f"{event.peak_memory_bytes / _MEGABYTE:.1f} MB at most"
    return f"{event.attempt.task}:   {event.cpu_s:.1f} s of CPU, {now}, {most}"


def _quoted(text: str) -> str:
    """Return the beginning of what may be pages long, on one line."""
    cut = len(text) > _MOST_QUOTED
    return visible(text[:_MOST_QUOTED]) + (" …" if cut else "")
