import hashlib
import re
import stat
from pathlib import Path

import pytest

from engine.core.errors import ConflictError, CorruptionError
from engine.core.ids import AttemptId, RunId, TaskId
from engine.store import (
    RESULT_LIMIT_BYTES,
    AmbiguousRunError,
    ResultTooLargeError,
    RunFolder,
    UnknownRunError,
    list_runs,
    resolve_run,
    runs_dir,
)

A1, A2 = AttemptId(TaskId("a"), 1), AttemptId(TaskId("a"), 2)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path)


def stored(common_dir: Path, *runs: str) -> None:
    for run in runs:
        (runs_dir(common_dir) / run).mkdir(parents=True)
        (runs_dir(common_dir) / run / "run.json").touch()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_runs_folder_is_private_and_has_an_id_that_cannot_be_guessed(
    tmp_path: Path,
) -> None:
    first, second = RunFolder.create(tmp_path), RunFolder.create(tmp_path)
    assert first.path.parent == tmp_path / "pinata"
    assert re.fullmatch("[0-9a-f]{16}", first.run)
    assert first.run != second.run
    for path in (first.path, first.path.parent, first.results, first.transcripts):
        assert mode_of(path) == 0o700


def test_everything_of_a_run_has_its_place(folder: RunFolder) -> None:
    places = [
        folder.run_file,
        folder.events_file,
        folder.processes_file,
        folder.integration,
        folder.scratch,
        folder.result_file(A2.task),
        folder.attempt_result_file(A2),
        folder.transcript_file(A2),
        folder.checks_dir(A2),
        folder.setup_dir(A2),
        folder.review_file(A2),
        folder.setup_mark(A2.task),
        folder.patch_file(A2),
        folder.index_file(A2.task),
    ]
    assert [str(place.relative_to(folder.path)) for place in places] == [
        "run.json",
        "events.jsonl",
        "processes.jsonl",
        "integration",
        "scratch",
        "results/a.json",
        "results/a.2.json",
        "transcripts/a.2.jsonl",
        "checks/a/2",
        "setup/a/2",
        "reviews/a.2.diff",
        "setup/a/done",
        "patches/a.2.patch",
        "indexes/a",
    ]


def test_a_result_is_kept_for_its_attempt_and_as_the_newest(folder: RunFolder) -> None:
    digest = folder.save_result(A1, b"first")
    folder.save_result(A2, b"second")
    assert digest == hashlib.sha256(b"first").hexdigest()
    assert folder.read_result(A1, digest) == b"first"
    assert folder.result_file(A1.task).read_bytes() == b"second"
    assert mode_of(folder.attempt_result_file(A1)) == 0o600
    assert mode_of(folder.result_file(A1.task)) == 0o600


def test_a_task_that_never_started_has_its_result_until_it_is_tried(folder: RunFolder) -> None:
    digest = folder.save_result(AttemptId(TaskId("a"), 0), b"blocked")
    assert folder.read_result(AttemptId(TaskId("a"), 0), digest) == b"blocked"
    assert [path.name for path in folder.results.iterdir()] == ["a.json"]
    folder.save_result(A1, b"first")
    assert folder.result_file(A1.task).read_bytes() == b"first"


def test_many_results_are_saved_at_once(folder: RunFolder) -> None:
    results = [(AttemptId(TaskId(f"t-{n}"), 0), f"result {n}".encode()) for n in range(10)]
    digests = folder.save_results(results)
    for (attempt, data), digest in zip(results, digests, strict=True):
        assert folder.read_result(attempt, digest) == data
    assert folder.save_results([]) == []


def test_a_result_that_is_missing_or_altered_is_damage(folder: RunFolder) -> None:
    digest = folder.save_result(A1, b"first")
    with pytest.raises(CorruptionError, match="is missing"):
        folder.read_result(A2, digest)
    folder.attempt_result_file(A1).write_bytes(b"forged")
    with pytest.raises(CorruptionError, match="is not what the event log announced"):
        folder.read_result(A1, digest)


def test_a_result_is_not_read_through_a_link(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"first")
    folder.attempt_result_file(A1).symlink_to(tmp_path / "other")
    with pytest.raises(CorruptionError, match="not a regular file"):
        folder.read_result(A1, hashlib.sha256(b"first").hexdigest())


def test_a_result_beyond_the_limit_is_refused_before_anything_is_written(
    folder: RunFolder,
) -> None:
    large = bytes(RESULT_LIMIT_BYTES + 1)
    with pytest.raises(ResultTooLargeError, match="the result of task 'a' has 16777217 bytes"):
        folder.save_results([(A1, b"small"), (A2, large)])
    assert list(folder.results.iterdir()) == []


def test_only_runs_that_began_are_listed(tmp_path: Path) -> None:
    assert list_runs(tmp_path) == []
    stored(tmp_path, "b" * 16, "a" * 16, "locks", "c" * 15)
    (runs_dir(tmp_path) / ("d" * 16)).mkdir()
    (runs_dir(tmp_path) / ("e" * 16)).symlink_to(runs_dir(tmp_path) / ("a" * 16))
    assert list_runs(tmp_path) == ["a" * 16, "b" * 16]


def test_a_run_is_found_by_its_id_or_by_a_beginning_that_is_its_alone(tmp_path: Path) -> None:
    stored(tmp_path, "ab" + "0" * 14, "cd" + "0" * 14)
    assert resolve_run(tmp_path, "ab" + "0" * 14).run == "ab" + "0" * 14
    assert resolve_run(tmp_path, "c").run == "cd" + "0" * 14


@pytest.mark.parametrize("prefix", ["", "f", "f" * 16, "a" * 17, "..", "../pinata", "*"])
def test_an_unknown_run_is_refused(tmp_path: Path, prefix: str) -> None:
    stored(tmp_path, "a" * 16)
    with pytest.raises(UnknownRunError, match="unknown run"):
        resolve_run(tmp_path, prefix)


def test_a_name_that_is_no_run_id_is_not_opened(tmp_path: Path) -> None:
    stored(tmp_path, "locks")
    with pytest.raises(UnknownRunError):
        RunFolder.open(tmp_path, RunId("locks"))


def test_an_ambiguous_run_is_refused_naming_up_to_five(tmp_path: Path) -> None:
    stored(tmp_path, "ab" + "0" * 14, "ab" + "1" * 14)
    with pytest.raises(AmbiguousRunError, match=r"may be ab000000, ab111111$"):
        resolve_run(tmp_path, "ab")
    stored(tmp_path, *(f"ac{n}" + "0" * 13 for n in range(6)))
    with pytest.raises(AmbiguousRunError, match=r"ac000000, .*, ac400000, \.\.\.$"):
        resolve_run(tmp_path, "ac")


def test_a_run_folder_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, "a" * 16)
    (runs_dir(tmp_path) / ("e" * 16)).symlink_to(runs_dir(tmp_path) / ("a" * 16))
    (runs_dir(tmp_path) / ("f" * 16)).touch()
    for run in ("e" * 16, "f" * 16):
        with pytest.raises(ConflictError, match="not a folder of its own"):
            resolve_run(tmp_path, run)
