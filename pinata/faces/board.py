"""What a live view shows, as values: one row per task, the ones that matter first. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.core.view import RunView, TaskView, UsageView
from pinata.faces.text import visible

Plan = Mapping[TaskId, Sequence[TaskId]]
# When there is not room for all: those at work, then those that went wrong, then what comes next.
_URGENCY = {Status.RUNNING: 0, Status.QUEUED: 2, Status.SUCCEEDED: 3}
_MOST_NAMED = 3
_THOUSAND = 1_000
_CENT_USD = 0.01


@dataclass(frozen=True, slots=True)
class Row:
    """One task; every field is printable text on one line."""

    status: Status
    task: str
    time: str
    turns: str
    calls: str
    tokens: str
    cost: str
    activity: str


@dataclass(frozen=True, slots=True)
class Board:
    """Everything that is shown at one moment.

    Attributes:
        title: how the run stands.
        rows: in input order.
        hidden: what there was no room for, None when there was room for all.
        total: what the run has used.
    """

    title: str
    rows: tuple[Row, ...]
    hidden: str | None
    total: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """The task that a person looks at.

    Attributes:
        has_moved: it was put there by hand, so that its neighbours are of interest.
    """

    task: TaskId
    has_moved: bool


def board(
    run: str,
    view: RunView,
    plan: Plan,
    now_ms: int,
    most_rows: int,
    cursor: Cursor | None = None,
) -> Board:
    """Return what to show of a run.

    Args:
        run: its id, as people read it.
        view: how it stands.
        plan: every task in input order, with the tasks that it waits for.
        now_ms: epoch milliseconds.
        most_rows: how many tasks there is room for; at least one.
        cursor: a task that is shown in any case.
    """
    shown = _chosen(view, plan, most_rows, cursor)
    rows = tuple(row(view, task, after, now_ms) for task, after in plan.items() if task in shown)
    left_out = [task for task in plan if task not in shown]
    return Board(
        title=f"run {run} {view.status.value}, {_counts(view, plan)}",
        rows=rows,
        hidden=f"and {_counts(view, left_out)}" if left_out else None,
        total=_total(view, now_ms),
    )


def _chosen(view: RunView, plan: Plan, most_rows: int, cursor: Cursor | None) -> frozenset[TaskId]:
    if len(plan) <= most_rows:
        return frozenset(plan)
    if cursor is not None and cursor.has_moved:
        tasks = list(plan)
        first = tasks.index(cursor.task) - most_rows // 2
        first = max(0, min(first, len(tasks) - most_rows))
        return frozenset(tasks[first : first + most_rows])
    kept = [] if cursor is None else [cursor.task]
    # The order of the plan decides between equals, since sorting keeps it.
    by_urgency = sorted(plan, key=lambda task: _URGENCY.get(_of(view, task).status, 1))
    others = [task for task in by_urgency if task not in kept]
    return frozenset((kept + others)[:most_rows])


def _of(view: RunView, task: TaskId) -> TaskView:
    return view.tasks.get(task, TaskView(task))


def _counts(view: RunView, tasks: Sequence[TaskId] | Plan) -> str:
    found = [_of(view, task).status for task in tasks]
    counts = ((found.count(status), status.value) for status in Status)
    return ", ".join(f"{count} {name}" for count, name in counts if count)


def row(view: RunView, name: TaskId, after: Sequence[TaskId], now_ms: int) -> Row:
    """Return what to show of one task.

    Args:
        view: how its run stands.
        name: the task's.
        after: what it waits for.
        now_ms: epoch milliseconds.
    """
    task = _of(view, name)
    usage = task.usage
    return Row(
        status=task.status,
        task=name,
        time=_time(task, now_ms),
        turns=str(usage.turns or ""),
        calls=str(usage.tool_calls or ""),
        tokens=amount(usage.input_tokens + usage.output_tokens),
        cost=price(usage),
        activity=_activity(view, task, after),
    )


def _activity(view: RunView, task: TaskView, after: Sequence[TaskId]) -> str:
    match task.status:
        case Status.RUNNING if task.stop is not None:
            return f"stopping: {visible(task.stop.reason)}"
        case Status.RUNNING:
            return visible(task.activity)
        case Status.QUEUED:
            return _waiting(view, after)
        case Status.SUCCEEDED:
            return ""
        case _:
            return visible(f"{task.status.value}: {task.reason or ''}")


def _waiting(view: RunView, after: Sequence[TaskId]) -> str:
    missing = [task for task in after if _of(view, task).status is not Status.SUCCEEDED]
    if not missing:
        return "waits for room"
    more = "" if len(missing) <= _MOST_NAMED else ", …"
    return f"waits for {', '.join(missing[:_MOST_NAMED])}{more}"


def _time(task: TaskView, now_ms: int) -> str:
    if task.started_at_ms is None:
        return ""
    return duration(_until(task.settled_at_ms, now_ms) - task.started_at_ms)


def _until(ended_at_ms: int | None, now_ms: int) -> int:
    return now_ms if ended_at_ms is None else ended_at_ms


def _total(view: RunView, now_ms: int) -> str:
    usage = view.usage
    since_ms = _until(view.started_at_ms, now_ms)
    parts = [duration(_until(view.settled_at_ms, now_ms) - since_ms)]
    if tokens := amount(usage.input_tokens + usage.output_tokens):
        parts.append(f"{tokens} tokens")
    if spent := price(usage):
        parts.append(spent)
    if view.stop_reason is not None:
        parts.append(visible(view.stop_reason))
    return ", ".join(parts)


def duration(ms: int) -> str:
    """Return a length of time as a clock would show it, to the second."""
    seconds = max(0, ms) // 1000
    minutes, hours = seconds // 60 % 60, seconds // 3600
    if hours:
        return f"{hours}:{minutes:02}:{seconds % 60:02}"
    return f"{minutes}:{seconds % 60:02}"


def amount(number: int) -> str:
    """Return a number in at most five characters; none at all for 0."""
    if number < _THOUSAND:
        return str(number or "")
    shown, units = float(number), iter("kMGTP")
    unit = ""
    while round(shown) >= _THOUSAND:
        shown, unit = shown / _THOUSAND, next(units)
    return f"{shown:.0f}{unit}" if round(shown, 1) >= _THOUSAND / 10 else f"{shown:.1f}{unit}"


def price(usage: UsageView) -> str:
    """Return dollars in a few characters; with a plus sign when a price is unknown."""
    if not usage.cost_usd and not usage.cost_is_partial:
        return ""
    is_tiny = 0 < usage.cost_usd < _CENT_USD
    shown = "<$.01" if is_tiny else f"${usage.cost_usd:.2f}"
    return shown + ("+" if usage.cost_is_partial else "")
