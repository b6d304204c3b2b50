"""What is shown of a run: read as far as somebody asks, and remembered while it stays the same.

Whoever shows a run must be quick with a thousand tasks, must show the same as anybody else, and
must still show the rest where the saved result of one task is damaged. Whoever carries a run on, or
lets it into a checkout, reads all of it with `pinata.work.history`: there any damage is an error.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import CorruptionError, reason_of
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import Status
from engine.core.spec import RunSpec
from engine.core.view import RunView
from engine.logreader import LogReader
from engine.records.run import RunRecordV1
from engine.store import RunFolder, result_name
from pinata.work.history import announced_results, facts_of, find_run, read_record, started_at_ms
from pinata.work.result import SavedResult, decode_result
from pinata.work.summary import TaskFacts

_MOST_RUNS = 16
_MOST_RESULT_BYTES = 8 << 20
_Mark = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class ShownRun:
    """What can be shown of a run, at the moment it was looked at.

    Attributes:
        facts: of every task, in input order; one whose saved result is missing or damaged is
            `uncertain`, with a reason that says what to inspect.
        results: of the newest attempt of each task that has one; each is read, which blocks, when
            it is first looked up.
    """

    folder: RunFolder
    record: RunRecordV1
    spec: RunSpec
    view: RunView
    facts: Mapping[TaskId, TaskFacts]
    results: Mapping[TaskId, SavedResult]


class RunCache:
    """What one process remembers of the runs that it showed; any thread may ask it.

    What it gives is what somebody would find who reads everything afresh: a log is read on from
    where it was left, and a file that is not the very one that was read before is read again.
    """

    def __init__(
        self, *, most_runs: int = _MOST_RUNS, most_result_bytes: int = _MOST_RESULT_BYTES
    ) -> None:
        """Begin with nothing; what was asked for longest ago is forgotten first.

        Args:
            most_runs: how many runs are remembered.
            most_result_bytes: how long the files of all results are together that are remembered.
        """
        self._most_runs = most_runs
        self._room_bytes = most_result_bytes
        self._lock = threading.Lock()
        self._runs: OrderedDict[Path, _Followed] = OrderedDict()
        self._results: OrderedDict[tuple[Path, AttemptId, str], tuple[int, SavedResult]] = (
            OrderedDict()
        )
        self._started_at: dict[Path, tuple[_Mark, int]] = {}

    def find(self, common_dir: Path, prefix: str | None) -> RunFolder | None:
        """Return the run that `find_run` does, for the same errors; blocks."""
        return find_run(common_dir, prefix, self._started)

    def _started(self, folder: RunFolder) -> int:
        mark, known = _mark(folder.run_file), self._started_at.get(folder.path)
        if known is None or known[0] != mark:
            known = mark, started_at_ms(folder)
            self._started_at[folder.path] = known
        return known[1]

    def read(self, folder: RunFolder) -> ShownRun:
        """Return what can be shown of the run in `folder`; blocks.

        Raises:
            CorruptionError: its record or its log is damaged; names the file.
        """
        with self._lock:
            followed = self._runs.setdefault(folder.path, _Followed(folder))
            self._runs.move_to_end(folder.path)
            if len(self._runs) > self._most_runs:
                self._runs.popitem(last=False)
        with followed.lock:
            record, spec = followed.read_record()
            view, announced, damaged = followed.look(spec)
        facts = facts_of(spec, view)
        for task, says in damaged.items():
            facts[task] = TaskFacts(Status.UNCERTAIN, says, facts[task].usage)
        return ShownRun(folder, record, spec, view, facts, _Results(self, folder, announced))

    def result(self, folder: RunFolder, attempt: AttemptId, digest: str) -> SavedResult:
        """Return the result of `attempt` that the log announced with `digest`; blocks.

        Raises:
            CorruptionError: it is missing or damaged.
        """
        key = folder.path, attempt, digest
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key][1]
        data = folder.read_result(attempt, digest)
        result = decode_result(data, str(folder.attempt_result_file(attempt)))
        with self._lock:
            # Another thread may have been as quick.
            self._room_bytes += self._results.pop(key, (0, result))[0] - len(data)
            self._results[key] = len(data), result
            while self._room_bytes < 0:
                _, (freed, _) = self._results.popitem(last=False)
                self._room_bytes += freed
        return result


class _Results(Mapping[TaskId, SavedResult]):
    """The results of a run, each read when it is first looked up."""

    def __init__(
        self, cache: RunCache, folder: RunFolder, announced: Mapping[TaskId, tuple[AttemptId, str]]
    ) -> None:
        self._cache = cache
        self._folder = folder
        self._announced = announced

    def __getitem__(self, task: TaskId) -> SavedResult:
        return self._cache.result(self._folder, *self._announced[task])

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self._announced)

    def __len__(self) -> int:
        return len(self._announced)


class _Followed:
    """How far one run was read; whoever holds `lock` may go on."""

    def __init__(self, folder: RunFolder) -> None:
        self.lock = threading.Lock()
        self._folder = folder
        self._log = LogReader(folder.events_file, folder.run)
        self._view = RunView()
        self._record: tuple[tuple[_Mark, _Mark], RunRecordV1, RunSpec] | None = None
        self._intact: dict[AttemptId, tuple[str, _Mark | None]] = {}

    def read_record(self) -> tuple[RunRecordV1, RunSpec]:
        # The folder's own mark tells of files beside the record that say what it is worth.
        try:
            marks = _mark(self._folder.run_file), _mark(self._folder.path)
        except FileNotFoundError as error:
            raise CorruptionError(f"{self._folder.run_file} is missing") from error
        if self._record is None or self._record[0] != marks:
            record = read_record(self._folder)
            self._record = marks, record, record.request()
        return self._record[1:]

    def look(
        self, spec: RunSpec
    ) -> tuple[RunView, dict[TaskId, tuple[AttemptId, str]], dict[TaskId, str]]:
        """Return the view, the results that are as announced, and what is wrong with the others."""
        announced, damaged = self._look(spec)
        if damaged:
            # A task that was never started may have been tried since the log was read: then its
            # file holds the result of that, and the log says so by now.
            announced, damaged = self._look(spec)
        whole = {task: each for task, each in announced.items() if task not in damaged}
        return self._view.copy(), whole, damaged

    def _look(self, spec: RunSpec) -> tuple[dict[TaskId, tuple[AttemptId, str]], dict[TaskId, str]]:
        new = self._log.read()
        if new.is_afresh:
            self._view = RunView()
        for logged in new.events:
            self._view.apply(*logged)
        announced, files = announced_results(spec, self._view), _listed(self._folder.results)
        found = ((task, self._damage(files, *each)) for task, each in announced.items())
        return announced, {task: says for task, says in found if says is not None}

    def _damage(
        self, files: Mapping[str, os.DirEntry[str]], attempt: AttemptId, digest: str
    ) -> str | None:
        """Return what is wrong with a saved result; one is read once, until its file changes."""
        file = files.get(result_name(attempt))
        try:
            mark = None if file is None else _mark_of(file.stat(follow_symlinks=False))
            if mark is None or self._intact.get(attempt) != (digest, mark):
                self._folder.read_result(attempt, digest)
                self._intact[attempt] = digest, mark
        except CorruptionError as error:
            says = str(error)
        except OSError as error:
            says = f"{self._folder.attempt_result_file(attempt)} cannot be read: {reason_of(error)}"
        else:
            return None
        return f"what it came to is not known for certain: {says}; inspect that file"


def _listed(folder: Path) -> dict[str, os.DirEntry[str]]:
    """Return the entries of a folder by name; a thousand of them cost less than as many paths."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry for entry in entries}
    except FileNotFoundError:
        return {}


def _mark(path: Path) -> _Mark:
    """Return what is another when something else stands at `path`, or was written there."""
    return _mark_of(path.lstat())


def _mark_of(found: os.stat_result) -> _Mark:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
