"""A run as it lies on disk: anyone may read it, at any time, and nothing is written."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import CorruptionError, PinataError
from engine.core.events import AttemptSettled, Event
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import Status
from engine.core.spec import RunSpec
from engine.core.view import RunView, TaskView
from engine.logreader import replay
from engine.records.event import Logged
from engine.records.run import RunRecordV1, decode_run
from engine.store import JOURNAL_NAME, RunFolder, list_runs, resolve_run
from engine.system import files
from pinata.work.result import SavedResult, decode_result
from pinata.work.summary import TaskFacts

_RECORD_LIMIT_BYTES = 64 << 20
HANDOFF_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Everything that is stored of a run, at the moment it was read.

    Attributes:
        events: the whole log, without a torn last line.
        facts: of every task, in input order.
        results: of the newest attempt of each task that has one.
    """

    folder: RunFolder
    record: RunRecordV1
    spec: RunSpec
    events: tuple[Logged, ...]
    view: RunView
    facts: dict[TaskId, TaskFacts]
    results: dict[TaskId, SavedResult]

    @property
    def history(self) -> Iterator[Event]:
        """What happened, in order."""
        return (logged.event for logged in self.events)

    @property
    def timed_history(self) -> Iterator[tuple[int, Event]]:
        """What happened, in order, each with its time in epoch milliseconds."""
        return ((logged.at_ms, logged.event) for logged in self.events)


def read_record(folder: RunFolder) -> RunRecordV1:
    """Return the record of the run in `folder`; blocks.

    Raises:
        CorruptionError: it is missing or damaged, belongs to another run, or cannot be believed.
    """
    if (says := _distrust(folder)) is not None:
        raise CorruptionError(
            f"the records of run {folder.run} cannot be believed: {says}; start a new run"
        )
    try:
        data = files.read_regular(folder.run_file, _RECORD_LIMIT_BYTES)
    except FileNotFoundError as error:
        raise CorruptionError(f"{folder.run_file} is missing") from error
    record = decode_run(data, str(folder.run_file))
    if record.id != folder.run:
        raise CorruptionError(f"{folder.run_file} is the record of another run, {record.id}")
    return record


def _distrust(folder: RunFolder) -> str | None:
    try:
        data = files.read_regular(folder.distrust_file, _RECORD_LIMIT_BYTES)
    except FileNotFoundError:
        return None
    return data.decode("utf-8", "replace")


def read_run(folder: RunFolder) -> StoredRun:
    """Return all that is stored of the run in `folder`; blocks.

    Raises:
        CorruptionError: something is damaged; names the file.
    """
    record = read_record(folder)
    spec = record.request()
    events = tuple(replay(folder.events_file, folder.run))
    view = RunView()
    for logged in events:
        view.apply(*logged)
    announced = announced_results(spec, view)
    results = {task: read_result(folder, *each) for task, each in announced.items()}
    return StoredRun(folder, record, spec, events, view, facts_of(spec, view), results)


def started_at_ms(folder: RunFolder) -> int:
    """Return when the run in `folder` started, in epoch milliseconds; blocks.

    Raises:
        CorruptionError: its record is damaged.
    """
    return read_record(folder).started_at_ms


def find_run(
    common_dir: Path, prefix: str | None, started: Callable[[RunFolder], int] = started_at_ms
) -> RunFolder | None:
    """Return the run that `prefix` names, or without one the run that started last; blocks.

    Args:
        common_dir: Git's common folder of the repository.
        prefix: what the run's id starts with.
        started: tells when a run started, as `started_at_ms` does; asked where there are several.

    Raises:
        UsageError: no run has such an id, or several do.
        CorruptionError: a record that had to be read is damaged.
    """
    if prefix is not None:
        return resolve_run(common_dir, prefix)
    folders = [resolve_run(common_dir, run) for run in list_runs(common_dir)]
    return folders[0] if len(folders) == 1 else max(folders, key=started, default=None)


def facts_of(spec: RunSpec, view: RunView) -> dict[TaskId, TaskFacts]:
    """Return what the view of a run says of each of its tasks, in input order."""
    return {task.id: _fact(view.tasks.get(task.id)) for task in spec.tasks}


def _fact(seen: TaskView | None) -> TaskFacts:
    # A run that has just begun has tasks that were not even queued yet.
    if seen is None:
        return TaskFacts(Status.QUEUED, None)
    return TaskFacts(seen.status, seen.reason, seen.attempt_usage)


def announced_results(spec: RunSpec, view: RunView) -> dict[TaskId, tuple[AttemptId, str]]:
    """Return which attempt's result counts for each task that has one, with its digest."""
    return {
        task.id: (AttemptId(task.id, seen.settled_attempt or 0), seen.digest)
        for task in spec.tasks
        if (seen := view.tasks.get(task.id)) is not None
        and seen.status.is_final
        and seen.digest is not None
    }


def newest_results(stored: StoredRun) -> dict[TaskId, SavedResult]:
    """Return the newest result of each task that has one; blocks.

    That of a task which was opened once more does not count any more, but says what its last
    attempt came to.

    Raises:
        CorruptionError: one is missing or damaged.
    """
    found = dict(stored.results)
    for event in stored.history:
        if isinstance(event, AttemptSettled) and event.attempt.number:
            task, digest = event.attempt.task, event.outcome.result_digest
            if digest is not None and not stored.facts[task].status.is_final:
                found[task] = read_result(stored.folder, event.attempt, digest)
    return found


def set_back(
    folder: RunFolder, results: dict[TaskId, SavedResult], fresh: Mapping[TaskId, int]
) -> None:
    """Have tasks that begin afresh go on from what they go back to; blocks.

    Args:
        folder: the run's.
        results: the newest of each task that has one; it is changed.
        fresh: the tasks, with the attempt whose result they go back to, 0 for none.

    Raises:
        CorruptionError: such a result is damaged.
    """
    for task, number in fresh.items():
        before = unannounced(folder, AttemptId(task, number)) if number else None
        results.pop(task, None)
        if before is not None:
            results[task] = before


def all_results(stored: StoredRun) -> dict[AttemptId, SavedResult]:
    """Return the result of each attempt that the log says has one; blocks.

    Raises:
        CorruptionError: one is missing or damaged.
    """
    return {
        event.attempt: read_result(stored.folder, event.attempt, event.outcome.result_digest)
        for event in stored.history
        if isinstance(event, AttemptSettled)
        and event.attempt.number
        and event.outcome.result_digest is not None
    }


def read_result(folder: RunFolder, attempt: AttemptId, digest: str) -> SavedResult:
    """Return the result of `attempt` that the log announced with `digest`; blocks.

    Raises:
        CorruptionError: it is missing or damaged.
    """
    data = folder.read_result(attempt, digest)
    return decode_result(data, str(folder.attempt_result_file(attempt)))


def unannounced(folder: RunFolder, attempt: AttemptId) -> SavedResult | None:
    """Return the saved result of an attempt, whether or not the log announces it; blocks.

    Raises:
        CorruptionError: there is one and it is damaged.
    """
    path = folder.attempt_result_file(attempt)
    try:
        data = files.read_regular(path, _RECORD_LIMIT_BYTES)
    except FileNotFoundError:
        return None
    return decode_result(data, str(path))


def list_handoffs(folder: RunFolder, current: str | None) -> list[dict[str, str]]:
    """Return the hand-offs that were made of a run, the oldest first; blocks.

    Args:
        folder: the run's.
        current: the digest of the evidence that counts now, None when none does.
    """
    if not folder.handoffs.is_dir():
        return []
    made = [path for path in folder.handoffs.iterdir() if (path / HANDOFF_MANIFEST).is_file()]
    made.sort(key=lambda path: ((path / HANDOFF_MANIFEST).stat().st_mtime_ns, path.name))
    return [
        {"handoff": path.name, "freshness": "current" if path.name == current else "historical"}
        for path in made
    ]


def outlines(common_dir: Path) -> list[dict[str, Any]]:
    """Return each stored run in a few words, the latest first; blocks.

    A damaged one stands last, with what is wrong with it.
    """
    whole, damaged = [], []
    for run in list_runs(common_dir):
        try:
            whole.append(_outline(resolve_run(common_dir, run)))
        except PinataError as error:
            damaged.append({"run": run, "error": str(error)})
    return [*sorted(whole, key=lambda each: -each["startedAt"]), *damaged]


def integration_state(folder: RunFolder) -> str | None:
    """Return how far the integration of a run got, None when there was none; blocks.

    Raises:
        CorruptionError: its journal is damaged.
    """
    if not (folder.integration / JOURNAL_NAME).exists():
        return None
    from worktrees.journal_store import read_state  # noqa: PLC0415 - most runs need none of it

    state = read_state(folder.integration)
    return None if state is None else state.value


def _outline(folder: RunFolder) -> dict[str, Any]:
    record, view = read_record(folder), RunView()
    for logged in replay(folder.events_file, folder.run):
        view.apply(*logged)
    tasks = record.request().tasks
    out = {
        "run": folder.run,
        "status": Status.RUNNING.value if view.settled_at_ms is None else view.status.value,
        "startedAt": record.started_at_ms,
        "taskCount": len(tasks),
        "task": tasks[0].text,
    }
    if (state := integration_state(folder)) is not None:
        out["integration"] = state
    return out
