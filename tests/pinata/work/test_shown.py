"""What is shown of a run is what is stored of it, however often and by whomever it is read."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.core.errors import CorruptionError
from engine.core.events import AttemptSettled, AttemptStarted, Event, RunStarted, TaskQueued
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.setup import Setup, SetupSource
from engine.core.spec import RunSpec
from engine.core.view import RunView
from engine.records.event import encode_event
from engine.records.run import RunRecordV1, encode_run
from engine.records.spec import encode_spec
from engine.store import RunFolder
from engine.system import files
from pinata.work.history import announced_results, read_run
from pinata.work.result import SavedResult, decode_result, encode_result
from pinata.work.shown import RunCache, ShownRun
from tests.support.jobs import task_spec
from tests.support.results import saved

A, B, C = TaskId("a"), TaskId("b"), TaskId("c")


class Kept:
    """A run on disk that goes on event by event."""

    def __init__(self, common: Path, started_at_ms: int = 1) -> None:
        self.folder = RunFolder.create(common)
        self.seq = 0
        spec = RunSpec(tuple(task_spec(name) for name in (A, B, C)))
        record = RunRecordV1(
            run=self.folder.run,
            root="/repo",
            started_in="/repo",
            started_at_ms=started_at_ms,
            deadline_at_ms=started_at_ms + 1,
            head=None,
            base_commit=None,
            base_tree=None,
            uncommitted=[],
            fold_case=False,
            definitions={},
            setup=Setup(SetupSource.NOT_NEEDED),
            mark="d" * 32,
            notices=[],
            spec=encode_spec(spec),
        )
        self.folder.run_file.write_bytes(encode_run(record))
        self.happen(RunStarted(3), *map(TaskQueued, (A, B, C)))

    def happen(self, *events: Event) -> None:
        with self.folder.events_file.open("ab") as log:
            for event in events:
                log.write(encode_event(event, seq=self.seq, run=self.folder.run, at_ms=self.seq))
                self.seq += 1

    def succeed(self, task: TaskId, number: int = 1) -> None:
        attempt = AttemptId(task, number)
        result = saved(task, attempt=number, submission={"summary": f"{task} {number}"})
        digest = self.folder.save_result(attempt, encode_result(result))
        outcome = AttemptOutcome(Status.SUCCEEDED, result_digest=digest)
        self.happen(AttemptStarted(attempt), AttemptSettled(attempt, outcome))

    def result_file(self, task: TaskId) -> Path:
        return self.folder.attempt_result_file(AttemptId(task, 1))


@pytest.fixture
def run(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.fixture
def cache() -> RunCache:
    return RunCache()


@pytest.fixture
def read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of plain files, in the order in which they are read from now on."""
    names: list[str] = []
    original = files.read_regular

    def noted(path: Path, limit_bytes: int, *, start: int = 0) -> bytes:
        names.append(path.name)
        return original(path, limit_bytes, start=start)

    monkeypatch.setattr(files, "read_regular", noted)
    return names


def outline(shown: ShownRun) -> dict[str, str]:
    return {task: fact.status.value for task, fact in shown.facts.items()}


def assert_is_as_stored(shown: ShownRun) -> None:
    stored = read_run(shown.folder)
    assert (shown.record, shown.spec, shown.view) == (stored.record, stored.spec, stored.view)
    assert (shown.facts, dict(shown.results)) == (stored.facts, stored.results)


def test_run_is_shown_as_it_is_stored_while_it_goes_on(run: Kept, cache: RunCache) -> None:
    first = cache.read(run.folder)
    assert_is_as_stored(first)
    run.succeed(A)
    second = cache.read(run.folder)
    assert_is_as_stored(second)
    assert outline(first) == {"a": "queued", "b": "queued", "c": "queued"}
    assert outline(second) == {"a": "succeeded", "b": "queued", "c": "queued"}
    assert (len(second.results), list(second.results), B in second.results) == (1, [A], False)


def test_what_stayed_the_same_is_not_read_again(
    run: Kept, cache: RunCache, read_files: list[str]
) -> None:
    run.succeed(A)
    run.succeed(B)
    assert cache.read(run.folder).results[A].submission == {"summary": "a 1"}
    read_files.clear()
    assert cache.read(run.folder).results[A].submission == {"summary": "a 1"}
    assert read_files == ["events.jsonl"]
    run.succeed(C)
    read_files.clear()
    assert cache.read(run.folder).results[C].submission == {"summary": "c 1"}
    assert read_files == ["events.jsonl", "c.1.json", "c.1.json"]


def test_result_is_decoded_when_it_is_looked_up(
    run: Kept, cache: RunCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def noted(data: bytes, where: str) -> SavedResult:
        decoded.append(Path(where).name)
        return decode_result(data, where)

    monkeypatch.setattr("pinata.work.shown.decode_result", noted)
    run.succeed(A)
    run.succeed(B)
    shown = cache.read(run.folder)
    assert decoded == []
    assert shown.results[B] == cache.read(run.folder).results[B]
    assert decoded == ["b.1.json"]


def lose(path: Path) -> None:
    path.unlink()


def alter(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"a 1", b"a 2"))


def link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def bar(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: Sequence[tuple[Callable[[Path], None], str]] = [
    (lose, "is missing, but the event log announced it"),
    (alter, "is not what the event log announced"),
    (link, "is not a regular file"),
    (bar, "is not a regular file"),
]


@pytest.mark.parametrize("seen_before", [False, True], ids=["afresh", "seen before"])
@pytest.mark.parametrize(("damage", "says"), DAMAGE)
def test_task_with_a_damaged_result_is_uncertain_and_the_rest_is_shown(
    run: Kept, cache: RunCache, damage: Callable[[Path], None], says: str, *, seen_before: bool
) -> None:
    run.succeed(A)
    run.succeed(B)
    if seen_before:
        assert len(cache.read(run.folder).results) == 2
    path = run.result_file(A)
    before = path.read_bytes()
    damage(path)
    shown = cache.read(run.folder)
    assert outline(shown) == {"a": "uncertain", "b": "succeeded", "c": "queued"}
    reason = f"what it came to is not known for certain: {path} {says}; inspect that file"
    assert shown.facts[A].reason == reason
    assert list(shown.results) == [B]
    with pytest.raises(CorruptionError, match=says):
        read_run(run.folder)
    if path.is_dir():
        path.rmdir()
    files.replace_file(path, before, fault="test")
    assert outline(cache.read(run.folder))["a"] == "succeeded"


def test_result_that_may_not_be_read_is_uncertain(
    run: Kept, cache: RunCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.succeed(A)

    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(RunFolder, "read_result", refuse)
    reason = cache.read(run.folder).facts[A].reason
    assert reason is not None
    assert "a.1.json cannot be read: Permission denied" in reason


def test_folder_of_results_that_is_gone_makes_every_settled_task_uncertain(
    run: Kept, cache: RunCache
) -> None:
    run.succeed(A)
    run.folder.results.rename(run.folder.path / "elsewhere")
    assert outline(cache.read(run.folder)) == {"a": "uncertain", "b": "queued", "c": "queued"}


def test_task_that_was_tried_since_the_log_was_read_is_not_taken_for_damaged(
    run: Kept, cache: RunCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = AttemptId(A, 0)
    data = encode_result(saved(A, Status.BLOCKED, reason="b failed", attempt=0))
    digest = run.folder.save_result(blocked, data)
    run.happen(AttemptSettled(blocked, AttemptOutcome(Status.BLOCKED, "b failed", None, digest)))
    pending = [True]

    def meanwhile(spec: RunSpec, view: RunView) -> object:
        if pending:
            pending.clear()
            run.happen(TaskQueued(A))
            run.succeed(A)
        return announced_results(spec, view)

    monkeypatch.setattr("pinata.work.shown.announced_results", meanwhile)
    assert outline(cache.read(run.folder))["a"] == "succeeded"


def test_record_is_read_again_when_something_changed_beside_it(run: Kept, cache: RunCache) -> None:
    shown = cache.read(run.folder)
    assert cache.read(run.folder).record is shown.record
    (run.folder.path / "new").touch()
    again = cache.read(run.folder).record
    assert (again == shown.record, again is shown.record) == (True, False)
    run.folder.run_file.unlink()
    with pytest.raises(CorruptionError, match=r"run\.json is missing"):
        cache.read(run.folder)


def test_damaged_log_is_told_by_its_line_until_it_is_mended(run: Kept, cache: RunCache) -> None:
    cache.read(run.folder)
    whole = run.folder.events_file.read_bytes()
    run.folder.events_file.write_bytes(whole + b"{}\n")
    for _ in range(2):
        with pytest.raises(CorruptionError, match="line 5 is not an event"):
            cache.read(run.folder)
    run.folder.events_file.write_bytes(whole)
    assert_is_as_stored(cache.read(run.folder))


def test_run_that_was_asked_for_longest_ago_is_forgotten_first(
    tmp_path: Path, read_files: list[str]
) -> None:
    cache = RunCache(most_runs=2)
    one, two, three = (Kept(tmp_path) for _ in range(3))
    for run in (one, two, one, three):
        cache.read(run.folder)
    read_files.clear()
    cache.read(one.folder)
    assert "run.json" not in read_files
    cache.read(two.folder)
    assert "run.json" in read_files


def test_results_are_remembered_up_to_so_many_bytes(run: Kept, read_files: list[str]) -> None:
    run.succeed(A)
    run.succeed(B)
    cache = RunCache(most_result_bytes=run.result_file(A).stat().st_size)
    results = cache.read(run.folder).results
    read_files.clear()
    for task in (A, A, B, B, A):
        assert results[task].id == task
    assert read_files == ["a.1.json", "b.1.json", "a.1.json"]


def test_run_that_started_last_is_found_without_reading_records_twice(
    tmp_path: Path, cache: RunCache, read_files: list[str]
) -> None:
    assert cache.find(tmp_path, None) is None
    only = Kept(tmp_path, started_at_ms=5)
    assert cache.find(tmp_path, None) == only.folder
    Kept(tmp_path, started_at_ms=4)
    read_files.clear()
    assert cache.find(tmp_path, None) == only.folder
    assert read_files.count("run.json") == 2
    last = Kept(tmp_path, started_at_ms=6)
    read_files.clear()
    assert cache.find(tmp_path, None) == last.folder
    assert read_files.count("run.json") == 1
    assert cache.find(tmp_path, only.folder.run) == only.folder
