"""Which run a viewer gets, and what it finds of a run that nobody works on."""

import json
from pathlib import Path

import pytest

from engine.core.errors import ConflictError, CorruptionError, UsageError
from engine.core.events import AttemptStarted, TaskQueued
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import Status
from engine.store import RunFolder
from pinata.work.session import Session
from pinata.work.viewed import find_viewed, read_source
from tests.support.ledgers import PaperRun
from tests.support.projects import Recorder

LOOK = TaskId("look")


def paper(common: Path, first: str, *, at_ms: int = 1) -> PaperRun:
    """Return a run whose id consists of one digit, and which started at a time."""
    session = Session.of("a session", {"XDG_STATE_HOME": str(common)})
    made = PaperRun(session, RunFolder(common / "pinata" / RunId(first * 16)))
    made.create()
    record = json.loads(made.folder.run_file.read_bytes())
    assert record["started_at_ms"] == 1
    made.folder.run_file.write_text(json.dumps(record | {"started_at_ms": at_ms}))
    return made


def found(common: Path, prefix: str | None = None) -> str | None:
    folder = find_viewed(common, prefix)
    return None if folder is None else folder.run[0]


def test_latest_run_that_has_not_settled_is_found_first(tmp_path: Path) -> None:
    assert found(tmp_path) is None
    runs = [paper(tmp_path, first, at_ms=at_ms) for first, at_ms in (("a", 3), ("b", 2), ("c", 1))]
    assert found(tmp_path) == "a"
    runs[0].settle()
    assert found(tmp_path) == "b"
    assert found(tmp_path, "aa") == "a"
    for run in runs[1:]:
        run.settle(Status.FAILED)
    assert found(tmp_path) == "a"


def test_damaged_run_hides_no_other(tmp_path: Path) -> None:
    paper(tmp_path, "a", at_ms=1).settle()
    log, record = paper(tmp_path, "b", at_ms=2), paper(tmp_path, "c", at_ms=3)
    log.folder.events_file.write_text("no event\n")
    record.folder.run_file.write_text("{}")
    assert found(tmp_path) == "b"
    for folder in (tmp_path / "pinata").iterdir():
        (folder / "run.json").write_text("{}")
    with pytest.raises(CorruptionError, match=r"run\.json"):
        find_viewed(tmp_path, None)
    with pytest.raises(UsageError, match="unknown run"):
        find_viewed(tmp_path, "d")


async def test_stored_run_is_told_once_and_takes_no_requests(tmp_path: Path) -> None:
    run = paper(tmp_path, "a")
    run.append(TaskQueued(LOOK))
    run.append(AttemptStarted(AttemptId(LOOK, 1)), at_ms=5_000)
    source = read_source(run.folder).because("nobody works on it")
    assert (source.has_settled, source.last_at_ms) == (False, 5_000)
    seen = Recorder()
    await source.watch(seen)
    assert seen.runs == [run.run]
    assert source.opened.view.tasks[LOOK].status is Status.RUNNING
    assert source.opened.agents == {LOOK: "scout"}
    with pytest.raises(ConflictError, match="nobody works on it"):
        await source.steer(LOOK, "hello", follow_up=False)
    with pytest.raises(ConflictError, match="nobody works on it"):
        await source.cancel()
    with pytest.raises(UsageError, match="its agent has not started"):
        await source.messages(LOOK, 1)
    with pytest.raises(ConflictError, match="only looked at"):
        source.opened.cancel("a test says so")
    with pytest.raises(ConflictError, match="only looked at"):
        await source.opened.record_cancel("a test says so")


def test_run_without_an_event_was_last_heard_of_when_it_started(tmp_path: Path) -> None:
    run = paper(tmp_path, "a", at_ms=7)
    run.folder.events_file.unlink()
    source = read_source(run.folder)
    assert (source.has_settled, source.last_at_ms) == (False, 7)


def test_settled_run_says_so(tmp_path: Path) -> None:
    run = paper(tmp_path, "a")
    run.settle()
    source = read_source(run.folder)
    assert source.has_settled
    assert source.reason == f"run {run.run} has settled"
