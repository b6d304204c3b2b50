import json

import pytest
from hypothesis import given, strategies as st

from engine.core.errors import CorruptionError
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
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, CheckId, RunId, TaskId
from engine.core.outcome import AttemptOutcome, FailureStage, Status, Stop, StopCause
from engine.records.event import Logged, UnknownVersionError, decode_event, encode_event

RUN = RunId("0123456789abcdef")
A1 = AttemptId(TaskId("a"), 1)
HEAD = {"v": 1, "seq": 7, "run": RUN, "at": 123}
LINES: list[tuple[Event, dict[str, object]]] = [
    (RunStarted(2), {"type": "run_started", "taskCount": 2}),
    (TaskQueued(A1.task), {"type": "agent_queued", "agent": "a"}),
    (AttemptStarted(A1), {"type": "agent_started", "agent": "a", "attempt": 1}),
    (
        AttemptStopping(A1, Stop(StopCause.COST, "too dear")),
        {
            "type": "agent_stopping",
            "agent": "a",
            "attempt": 1,
            "cause": "cost",
            "reason": "too dear",
        },
    ),
    (
        AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED)),
        {
            "type": "agent_settled",
            "agent": "a",
            "attempt": 1,
            "status": "succeeded",
            "costUsd": 0.0,
        },
    ),
    (
        AttemptSettled(A1, AttemptOutcome(Status.FAILED, "no", FailureStage.LAUNCH, "0f", 0.25)),
        {
            "type": "agent_settled",
            "agent": "a",
            "attempt": 1,
            "status": "failed",
            "reason": "no",
            "failureStage": "launch",
            "digest": "0f",
            "costUsd": 0.25,
        },
    ),
    (CancelRequested("enough"), {"type": "cancel_requested", "reason": "enough"}),
    (
        CancelRequested("enough", A1.task),
        {"type": "cancel_requested", "agent": "a", "reason": "enough"},
    ),
    (RunDeadlinePassed(30), {"type": "run_deadline", "limitMs": 30}),
    (CostLimitPassed(1, 1.5), {"type": "cost_limit", "limitUsd": 1.0, "spentUsd": 1.5}),
    (
        CheckStarted(A1, CheckId("lint")),
        {"type": "check_start", "agent": "a", "attempt": 1, "check": "lint"},
    ),
    (
        CheckEnded(A1, CheckId("lint"), passed=False, duration_ms=5, reason="exit code 1"),
        {
            "type": "check_end",
            "agent": "a",
            "attempt": 1,
            "check": "lint",
            "passed": False,
            "durationMs": 5,
            "reason": "exit code 1",
        },
    ),
    (CheckoutChanged(A1), {"type": "checkout_changed", "agent": "a", "attempt": 1}),
    (
        SteerDelivered(A1, "look at\nb.py", follow_up=True, sender=Sender.USER),
        {
            "type": "steer",
            "agent": "a",
            "attempt": 1,
            "text": "look at\nb.py",
            "followUp": True,
            "sender": "user",
        },
    ),
    (
        RepairRequested(A1.task, "mend it"),
        {"type": "repair_requested", "agent": "a", "feedback": "mend it"},
    ),
    (RerunRequested(()), {"type": "rerun_requested", "agents": []}),
    (
        RerunRequested((A1.task, TaskId('b"'))),
        {"type": "rerun_requested", "agents": ["a", 'b"']},
    ),
    (RepairStarted(A1), {"type": "repair_start", "agent": "a", "attempt": 1}),
    (RunResumed("crash"), {"type": "run_resumed", "reason": "crash"}),
    (RunSettled(Status.SUCCEEDED), {"type": "run_settled", "status": "succeeded"}),
    (
        RunSettled(Status.FAILED, "1 of 2"),
        {"type": "run_settled", "status": "failed", "reason": "1 of 2"},
    ),
    (TurnStarted(A1, 3), {"type": "turn_start", "agent": "a", "attempt": 1, "turn": 3}),
    (
        TextDelta(A1, 'é"\n\ud800'),
        {"type": "text_delta", "agent": "a", "attempt": 1, "text": 'é"\n\ud800'},
    ),
    (
        ThinkingDelta(A1, ""),
        {"type": "thinking_delta", "agent": "a", "attempt": 1, "text": ""},
    ),
    (
        MessageEnded(A1, "stop"),
        {"type": "message_end", "agent": "a", "attempt": 1, "stopReason": "stop"},
    ),
    (
        ToolStarted(A1, "1", "read", "src"),
        {
            "type": "tool_start",
            "agent": "a",
            "attempt": 1,
            "call": "1",
            "tool": "read",
            "summary": "src",
        },
    ),
    (
        ToolUpdated(A1, "1", "bash", "1 of 2\n"),
        {
            "type": "tool_update",
            "agent": "a",
            "attempt": 1,
            "call": "1",
            "tool": "bash",
            "text": "1 of 2\n",
        },
    ),
    (
        TelemetryReported(A1, 1.5, 2, 3, 4, None, None),
        {
            "type": "telemetry",
            "agent": "a",
            "attempt": 1,
            "cpuS": 1.5,
            "memoryBytes": 2,
            "peakMemoryBytes": 3,
            "processes": 4,
        },
    ),
    (
        TelemetryReported(A1, 1.5, 2, 3, 4, 0, 5),
        {
            "type": "telemetry",
            "agent": "a",
            "attempt": 1,
            "cpuS": 1.5,
            "memoryBytes": 2,
            "peakMemoryBytes": 3,
            "processes": 4,
            "readBytes": 0,
            "writtenBytes": 5,
        },
    ),
    (
        ToolEnded(A1, "1", "read", is_error=True),
        {
            "type": "tool_end",
            "agent": "a",
            "attempt": 1,
            "call": "1",
            "tool": "read",
            "isError": True,
        },
    ),
    (
        UsageReported(A1, 1, 2, 3, 4, None),
        {
            "type": "usage",
            "agent": "a",
            "attempt": 1,
            "turns": 1,
            "toolCalls": 2,
            "inputTokens": 3,
            "outputTokens": 4,
        },
    ),
    (
        UsageReported(A1, 1, 2, 3, 4, 0.1),
        {
            "type": "usage",
            "agent": "a",
            "attempt": 1,
            "turns": 1,
            "toolCalls": 2,
            "inputTokens": 3,
            "outputTokens": 4,
            "costUsd": 0.1,
        },
    ),
    (ModelThrottled(A1, 2.5), {"type": "retry", "agent": "a", "attempt": 1, "waitS": 2.5}),
    (
        ContextCompacted(A1, 150_000),
        {"type": "compaction", "agent": "a", "attempt": 1, "tokensBefore": 150_000},
    ),
]


def line(**changes: object) -> bytes:
    """Return a queued event's line with `changes`; a key set to `...` is left out."""
    data = {**HEAD, "type": "agent_queued", "agent": "a", **changes}
    return json.dumps({key: value for key, value in data.items() if value is not ...}).encode()


@pytest.mark.parametrize(("event", "body"), LINES)
def test_each_event_has_its_line_and_comes_back_from_it(
    event: Event, body: dict[str, object]
) -> None:
    encoded = encode_event(event, seq=7, run=RUN, at_ms=123)
    assert encoded.endswith(b"}\n")
    assert encoded.count(b"\n") == 1
    assert json.loads(encoded) == HEAD | body
    assert decode_event(encoded, run=RUN) == Logged(7, 123, event)


@given(st.text(st.characters(codec=None)), st.floats(0, 1e6))
def test_any_text_and_amount_survives(text: str, cost: float) -> None:
    event = AttemptSettled(A1, AttemptOutcome(Status.FAILED, text, cost_usd=cost))
    assert decode_event(encode_event(event, seq=0, run=RUN, at_ms=0), run=RUN).event == event


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (b"\x00\x00", "is not a line of JSON"),
        (b"[" * 100_000, "is not a line of JSON"),
        (b'{"v":1,\xff', "is not a line of JSON"),
        (line() + b" 1", "is not a line of JSON"),
        (b" " + line(), "is not a line of JSON"),
        (b"[1]", "is not an event"),
        (b"{}", "is not an event"),
        (line(run="ffff"), "does not belong to run"),
        (line(run=...), "does not belong to run"),
        (line(seq=...), "lacks 'seq'"),
        (line(seq=True), "'seq' is not a whole number"),
        (line(seq=-1), "'seq' is not a whole number"),
        (line(at="1"), "'at' is not a whole number"),
        (line(type=...), "lacks 'type'"),
        (line(type=5), "has the unknown type 5"),
        (line(type="agent_vanished"), "has the unknown type 'agent_vanished'"),
        (line(agent=...), "lacks 'agent'"),
        (line(agent=5), "'agent' is not text"),
        (line(extra=1), "has the unknown key 'extra'"),
        (line(type="run_settled", agent=..., status="gone"), "'status' is none of queued"),
        (line(type="run_settled", agent=..., status=1), "'status' is none of queued"),
        (line(type="rerun_requested", agent=..., agents="ab"), "'agents' is not a list of texts"),
        (line(type="rerun_requested", agent=..., agents=[1]), "'agents' is not a list of texts"),
        (line(type="usage", attempt=1, turns=1.0), "'turns' is not a whole number"),
        (
            line(type="cost_limit", agent=..., limitUsd=float("nan"), spentUsd=1),
            "'limitUsd' is not an amount",
        ),
        (
            line(type="cost_limit", agent=..., limitUsd=True, spentUsd=1),
            "'limitUsd' is not an amount",
        ),
        (
            line(type="cost_limit", agent=..., limitUsd="1", spentUsd=1),
            "'limitUsd' is not an amount",
        ),
        (line(type="retry", attempt=1, waitS=-1), "'waitS' is not a number of seconds"),
        (line(type="retry", attempt=1, waitS=True), "'waitS' is not a number of seconds"),
        (line(type="retry", attempt=1, waitS=float("inf")), "'waitS' is not a number of seconds"),
        (line(type="retry", attempt=1, waitS="1"), "'waitS' is not a number of seconds"),
        (
            line(type="tool_end", attempt=1, call="1", tool="read", isError=0),
            "'isError' is neither true nor false",
        ),
    ],
)
def test_a_line_that_was_not_written_so_is_refused(damaged: bytes, message: str) -> None:
    with pytest.raises(CorruptionError, match=message):
        decode_event(damaged, run=RUN)


@pytest.mark.parametrize("version", [2, True, "1"])
def test_a_line_of_another_version_is_refused_naming_both(version: object) -> None:
    with pytest.raises(UnknownVersionError, match=rf"version {version!r}.*reads version 1"):
        decode_event(line(v=version), run=RUN)
