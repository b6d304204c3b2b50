"""Every event that is worth a line has one, safe on any terminal."""

import pytest

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
    RerunRequested,
    RunDeadlinePassed,
    RunResumed,
    RunSettled,
    RunStarted,
    SteerDelivered,
    TaskQueued,
    TelemetryReported,
    TextDelta,
    ToolStarted,
    ToolUpdated,
)
from engine.core.ids import AttemptId, CheckId, TaskId
from engine.core.outcome import AttemptOutcome, Status, Stop, StopCause
from engine.records.event import Logged
from pinata.faces.event_text import event_line, log_line

pytestmark = pytest.mark.smoke

FIX = TaskId("fix")
ONE, TWO = AttemptId(FIX, 1), AttemptId(FIX, 2)
AGENTS = {FIX: "builder"}
FAILED = AttemptOutcome(Status.FAILED, "no\nluck")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RunStarted(1), "run started, 1 task"),
        (RunStarted(2), "run started, 2 tasks"),
        (AttemptStarted(ONE), "fix: started (builder)"),
        (AttemptStarted(TWO), "fix: started (builder, attempt 2)"),
        (ToolStarted(ONE, "c", "bash", "ls\x1b"), "fix:   bash ls\\x1b"),
        (ToolStarted(ONE, "c", "ls", ""), "fix:   ls"),
        (CheckEnded(ONE, CheckId("t"), passed=True, duration_ms=5), "fix:   check t passed (5 ms)"),
        (
            CheckEnded(ONE, CheckId("t"), passed=False, duration_ms=5, reason="bad"),
            "fix:   check t failed: bad (5 ms)",
        ),
        (AttemptStopping(ONE, Stop(StopCause.CANCEL, "why")), "fix: stopping: why"),
        (AttemptSettled(ONE, AttemptOutcome(Status.SUCCEEDED)), "fix: succeeded"),
        (AttemptSettled(ONE, FAILED), "fix: failed: no luck"),
        (CheckoutChanged(ONE), "fix: the checkout changed while it was being read"),
        (SteerDelivered(ONE, "so\n\x1b", follow_up=False), "fix:   steered: so \\x1b"),
        (SteerDelivered(ONE, "é" * 201, follow_up=True), f"fix:   follow-up: {'é' * 200} …"),
        (ModelThrottled(ONE, 0.5), "fix:   throttled by its provider, waits 0.5 s"),
        (ContextCompacted(ONE, 9_000), "fix:   conversation of 9000 tokens compacted"),
        (RerunRequested((FIX,)), "rerun requested: fix"),
        (
            RerunRequested(tuple(TaskId(f"t-{n}") for n in range(12))),
            f"rerun requested: {', '.join(f't-{n}' for n in range(10))} and 2 more",
        ),
        (CancelRequested("why"), "run: cancel requested: why"),
        (CancelRequested("why", FIX), "fix: cancel requested: why"),
        (RunDeadlinePassed(7), "run deadline of 7 ms passed"),
        (CostLimitPassed(1.0, 1.5), "run cost limit of $1.0000 passed: $1.5000 spent"),
        (RunResumed("why"), "run resumed: why"),
        (RunSettled(Status.SUCCEEDED), "run succeeded"),
        (RunSettled(Status.FAILED, "why"), "run failed: why"),
        (TaskQueued(FIX), None),
        (TextDelta(ONE, "hello"), None),
        (ToolUpdated(ONE, "c", "bash", "1 of 2"), None),
        (TelemetryReported(ONE, 1.5, 1, 1, 1, None, None), None),
    ],
)
def test_event_has_a_line_when_it_is_worth_one(event: Event, line: str | None) -> None:
    assert event_line(event, AGENTS) == line


def test_lines_of_the_log_begin_with_the_seconds_in_one_column() -> None:
    late = log_line(Logged(9, 1_234_500, RunStarted(1)), 1_000, AGENTS)
    early = log_line(Logged(0, 1_000, RunStarted(1)), 1_000, AGENTS)
    assert (late, early) == (" 1233.50  run started, 1 task", "    0.00  run started, 1 task")
    assert log_line(Logged(1, 1_000, TaskQueued(FIX)), 1_000, AGENTS) is None


def test_a_log_tells_what_the_programs_of_a_task_use() -> None:
    some = TelemetryReported(ONE, 1.25, 2_000_000, 35_000_000, 1, 0, 0)
    assert log_line(Logged(1, 1_000, some), 1_000, AGENTS) == (
        "    0.00  fix:   1.2 s of CPU, 2.0 MB in 1 process, 35.0 MB at most"
    )
    none = TelemetryReported(ONE, 1.25, 0, 35_000_000, 0, None, None)
    assert log_line(Logged(1, 1_000, none), 1_000, AGENTS) == (
        "    0.00  fix:   1.2 s of CPU, 0.0 MB in 0 processes, 35.0 MB at most"
    )
