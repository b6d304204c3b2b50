"""Kills a run at each of its durable steps and lets the next process bring it to its end."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from engine.core.events import AttemptSettled, AttemptStarted, RunSettled
from engine.core.outcome import LOST_REASON, Status
from engine.core.state import RunState
from engine.logreader import replay
from engine.store import RunFolder
from tests.support.recorded_run import A, B, C, D, carry_out

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
ROOT = Path(__file__).resolve().parents[2]


def run_in_a_process(folder: RunFolder, plan: str) -> int:
    command = [sys.executable, "-m", "tests.support.recorded_run", str(folder.path), plan]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode


def assert_whole(folder: RunFolder, state: RunState) -> None:
    """Assert that log, results and state agree, and that nothing happened twice."""
    events = [each.event for each in replay(folder.events_file, folder.run)]
    starts = Counter(each.attempt for each in events if isinstance(each, AttemptStarted))
    ends = [each for each in events if isinstance(each, AttemptSettled)]
    assert set(starts.values()) <= {1}
    assert sorted(each.attempt.task for each in ends) == [A, B, C, D]
    for end in ends:
        assert end.outcome.result_digest is not None
        folder.read_result(end.attempt, end.outcome.result_digest)
    assert sum(isinstance(each, RunSettled) for each in events) == 1
    assert isinstance(events[-1], RunSettled)
    assert state.settled is Status.FAILED
    assert state.tasks[D].status is Status.BLOCKED
    lost = {end.attempt.task for end in ends if end.outcome.reason == LOST_REASON}
    assert lost <= {A, B, C}
    if not lost:
        assert state.tasks[B].status is Status.SUCCEEDED


def test_a_run_killed_at_any_durable_step_is_brought_to_its_end(tmp_path: Path) -> None:
    recording = tmp_path / "points"
    assert run_in_a_process(RunFolder.create(tmp_path), f"record:{recording}") == 0
    passes = Counter(recording.read_text().split())
    assert {name.split(".")[0] for name in passes} == {"eventlog", "store"}
    for name, count in passes.items():
        for occurrence in sorted({1, count}):
            folder = RunFolder.create(tmp_path)
            code = run_in_a_process(folder, f"kill:{name}:{occurrence}")
            # Which attempts share a turn differs from run to run, so the last pass may not come.
            assert code == -signal.SIGKILL or occurrence == count
            assert_whole(folder, trio.run(carry_out, folder))


def test_a_recovery_that_is_killed_too_is_brought_to_its_end(tmp_path: Path) -> None:
    for name in ("eventlog.append.written", "store.result.renamed"):
        folder = RunFolder.create(tmp_path)
        assert run_in_a_process(folder, "kill:eventlog.append.durable:1") == -signal.SIGKILL
        assert run_in_a_process(folder, f"kill:{name}:1") == -signal.SIGKILL
        assert_whole(folder, trio.run(carry_out, folder))
