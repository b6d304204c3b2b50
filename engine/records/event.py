"""The lines of a run's event log: the envelope and one flat JSON object per event.

The log is read by people and by other programs, so the names on disk are a promise: `agent` is the
task's id, and the numbers of the envelope (`v`, `seq`, `at`) are the same for every type.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields as dataclass_fields
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any, NamedTuple

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
from engine.core.ids import AttemptId, RunId
from engine.core.outcome import AttemptOutcome, FailureStage, Status, Stop, StopCause

VERSION = 1


class Logged(NamedTuple):
    """An event with its place in the log; `at_ms` is in epoch milliseconds."""

    seq: int
    at_ms: int
    event: Event


class UnknownVersionError(CorruptionError):
    """The line was written by another version of pinata."""

    def __init__(self, version: object) -> None:
        self.version = version
        super().__init__(f"event has version {version!r}, this pinata reads version {VERSION}")


@dataclass(frozen=True, slots=True)
class _Form:
    """How one kind of value is written and read; `read` raises ValueError on anything else."""

    write: Callable[[Any], str]
    read: Callable[[object], Any]


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not text")  # noqa: TRY004  (one class for every fault of a line)
    return value


def _read_int(value: object) -> int:
    if type(value) is not int or value < 0:  # True and False are numbers to isinstance
        raise ValueError("is not a whole number from 0 up")
    return value


def _read_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")  # noqa: TRY004  (one class for every fault)
    return value


def _write_float(value: float) -> str:
    assert math.isfinite(value)
    return repr(float(value))


def _read_dollars(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("is not an amount of money")
    return float(value)


def _read_seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError("is not a number of seconds")
    return float(value)


_Named = Status | StopCause | FailureStage | Sender


def _write_texts(values: Sequence[str]) -> str:
    return f"[{','.join(map(encode_basestring_ascii, values))}]"


def _read_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("is not a list of texts")
    return tuple(value)


def _choice(kind: type[_Named]) -> _Form:
    texts = {member.value: member for member in kind}

    def read(value: object) -> _Named:
        if not isinstance(value, str) or value not in texts:
            raise ValueError("is none of " + ", ".join(texts))
        return texts[value]

    return _Form(lambda member: f'"{member.value}"', read)


# Written in ASCII, so that half of a surrogate pair, which models do send, survives too.
_TEXT = _Form(encode_basestring_ascii, _read_text)
_TEXTS = _Form(_write_texts, _read_texts)
_INT = _Form(str, _read_int)
_BOOL = _Form(lambda value: "true" if value else "false", _read_bool)
_DOLLARS = _Form(_write_float, _read_dollars)
_SECONDS = _Form(_write_float, _read_seconds)
_STATUS = _choice(Status)


class _Field:
    """One key of a line and the attribute it holds, which may lie one level down."""

    __slots__ = ("form", "get", "head", "key", "optional", "parts")

    def __init__(self, path: str, form: _Form, key: str, *, optional: bool = False) -> None:
        self.parts = path.split(".")
        self.get = attrgetter(path)
        self.form = form
        self.key = key
        self.head = f',"{key}":'
        self.optional = optional


_TASK = _Field("task", _TEXT, "agent")
_MAYBE_TASK = _Field("task", _TEXT, "agent", optional=True)
_REASON = _Field("reason", _TEXT, "reason")
_MAYBE_REASON = _Field("reason", _TEXT, "reason", optional=True)
_ATTEMPT = (_Field("attempt.task", _TEXT, "agent"), _Field("attempt.number", _INT, "attempt"))
_CALL = (*_ATTEMPT, _Field("call", _TEXT, "call"), _Field("tool", _TEXT, "tool"))
_TEXT_FIELDS = (*_ATTEMPT, _Field("text", _TEXT, "text"))
_NESTED = {"attempt": AttemptId, "stop": Stop, "outcome": AttemptOutcome}

_SHAPES: Mapping[type[Event], tuple[str, tuple[_Field, ...]]] = {
    RunStarted: ("run_started", (_Field("task_count", _INT, "taskCount"),)),
    TaskQueued: ("agent_queued", (_TASK,)),
    AttemptStarted: ("agent_started", _ATTEMPT),
    AttemptStopping: (
        "agent_stopping",
        (
            *_ATTEMPT,
            _Field("stop.cause", _choice(StopCause), "cause"),
            _Field("stop.reason", _TEXT, "reason"),
        ),
    ),
    AttemptSettled: (
        "agent_settled",
        (
            *_ATTEMPT,
            _Field("outcome.status", _STATUS, "status"),
            _Field("outcome.reason", _TEXT, "reason", optional=True),
            _Field("outcome.stage", _choice(FailureStage), "failureStage", optional=True),
            _Field("outcome.result_digest", _TEXT, "digest", optional=True),
            _Field("outcome.cost_usd", _DOLLARS, "costUsd"),
        ),
    ),
    CancelRequested: ("cancel_requested", (_MAYBE_TASK, _REASON)),
    RunDeadlinePassed: ("run_deadline", (_Field("limit_ms", _INT, "limitMs"),)),
    CostLimitPassed: (
        "cost_limit",
        (_Field("limit_usd", _DOLLARS, "limitUsd"), _Field("spent_usd", _DOLLARS, "spentUsd")),
    ),
    CheckStarted: ("check_start", (*_ATTEMPT, _Field("check", _TEXT, "check"))),
    CheckEnded: (
        "check_end",
        (
            *_ATTEMPT,
            _Field("check", _TEXT, "check"),
            _Field("passed", _BOOL, "passed"),
            _Field("duration_ms", _INT, "durationMs"),
            _MAYBE_REASON,
        ),
    ),
    CheckoutChanged: ("checkout_changed", _ATTEMPT),
    SteerDelivered: (
        "steer",
        (
            *_TEXT_FIELDS,
            _Field("follow_up", _BOOL, "followUp"),
            _Field("sender", _choice(Sender), "sender"),
        ),
    ),
    RepairRequested: ("repair_requested", (_TASK, _Field("feedback", _TEXT, "feedback"))),
    RepairStarted: ("repair_start", _ATTEMPT),
    RerunRequested: ("rerun_requested", (_Field("tasks", _TEXTS, "agents"),)),
    RunResumed: ("run_resumed", (_REASON,)),
    RunSettled: ("run_settled", (_Field("status", _STATUS, "status"), _MAYBE_REASON)),
    TurnStarted: ("turn_start", (*_ATTEMPT, _Field("turn", _INT, "turn"))),
    TextDelta: ("text_delta", _TEXT_FIELDS),
    ThinkingDelta: ("thinking_delta", _TEXT_FIELDS),
    MessageEnded: ("message_end", (*_ATTEMPT, _Field("stop_reason", _TEXT, "stopReason"))),
    ToolStarted: ("tool_start", (*_CALL, _Field("summary", _TEXT, "summary"))),
    ToolUpdated: ("tool_update", (*_CALL, _Field("text", _TEXT, "text"))),
    ToolEnded: ("tool_end", (*_CALL, _Field("is_error", _BOOL, "isError"))),
    UsageReported: (
        "usage",
        (
            *_ATTEMPT,
            _Field("turns", _INT, "turns"),
            _Field("tool_calls", _INT, "toolCalls"),
            _Field("input_tokens", _INT, "inputTokens"),
            _Field("output_tokens", _INT, "outputTokens"),
            _Field("cost_usd", _DOLLARS, "costUsd", optional=True),
        ),
    ),
    TelemetryReported: (
        "telemetry",
        (
            *_ATTEMPT,
            _Field("cpu_s", _SECONDS, "cpuS"),
            _Field("memory_bytes", _INT, "memoryBytes"),
            _Field("peak_memory_bytes", _INT, "peakMemoryBytes"),
            _Field("processes", _INT, "processes"),
            _Field("read_bytes", _INT, "readBytes", optional=True),
            _Field("written_bytes", _INT, "writtenBytes", optional=True),
        ),
    ),
    ModelThrottled: ("retry", (*_ATTEMPT, _Field("wait_s", _SECONDS, "waitS"))),
    ContextCompacted: ("compaction", (*_ATTEMPT, _Field("tokens_before", _INT, "tokensBefore"))),
}


class _Part(NamedTuple):
    """A value that is made from several keys of a line.

    Attributes:
        make: takes what was read in the order in which its class declares it.
        places: of those values among all that were read of the line.
    """

    make: Callable[..., Any]
    places: tuple[int, ...]


class _Reader(NamedTuple):
    """How one type of event is made from its line; a log has many lines of few types.

    Attributes:
        keys: each key with what reads it and whether it may be absent.
        parts: made first; their values follow those of the keys.
        event: made last.
    """

    keys: tuple[tuple[str, Callable[[object], Any], bool], ...]
    parts: tuple[_Part, ...]
    event: _Part

    @classmethod
    def of(cls, kind: type[Event], fields: tuple[_Field, ...]) -> "_Reader":
        """Return the reader of one type of event."""
        places: dict[str, int] = {}
        nested: dict[str, dict[str, int]] = {}
        for place, field in enumerate(fields):
            *outer, leaf = field.parts
            (nested.setdefault(outer[0], {}) if outer else places)[leaf] = place
        places |= {name: place for place, name in enumerate(nested, len(fields))}
        return cls(
            tuple((field.key, field.form.read, field.optional) for field in fields),
            tuple(_part(_NESTED[name], inner) for name, inner in nested.items()),
            _part(kind, places),
        )


# Every line of an attempt names it, so that most lines need not make the id once more.
_REMEMBERED: Mapping[type, Callable[..., Any]] = {AttemptId: lru_cache(4096)(AttemptId)}


def _part(kind: type[Any], places: Mapping[str, int]) -> _Part:
    make = _REMEMBERED.get(kind, kind)
    return _Part(make, tuple(places[field.name] for field in dataclass_fields(kind)))


_READERS = {name: _Reader.of(kind, fields) for kind, (name, fields) in _SHAPES.items()}
_read_json = json.JSONDecoder().raw_decode


def encode_event(event: Event, *, seq: int, run: RunId, at_ms: int) -> bytes:
    """Return the line of `event`, its line feed included; absent values have no key."""
    name, fields = _SHAPES[type(event)]
    parts = [f'{{"v":{VERSION},"seq":{seq},"run":"{run}","at":{at_ms},"type":"{name}"']
    for field in fields:
        value = field.get(event)
        if value is not None:
            parts.append(field.head + field.form.write(value))
    parts.append("}\n")
    return "".join(parts).encode("ascii")


def decode_event(line: bytes, *, run: RunId) -> Logged:
    """Return the event in `line`, which belongs to `run`.

    Raises:
        UnknownVersionError: another version wrote it.
        CorruptionError: the line is not exactly what `encode_event` writes.
    """
    try:
        text = line.decode()
        data, end = _read_json(text)
    except (ValueError, RecursionError) as error:
        raise CorruptionError("is not a line of JSON") from error
    if text[end:] not in ("", "\n"):
        raise CorruptionError("is not a line of JSON")
    return decode_logged(data, run=run)


def decode_logged(data: object, *, run: RunId) -> Logged:
    """Return the event that JSON was read as, which belongs to `run`; `data` is used up.

    Raises:
        UnknownVersionError: another version wrote it.
        CorruptionError: it is not exactly what `encode_event` writes.
    """
    if not isinstance(data, dict) or "v" not in data:
        raise CorruptionError("is not an event")
    if data["v"] != VERSION or data["v"] is True:
        raise UnknownVersionError(data["v"])
    del data["v"]
    if data.pop("run", None) != run:
        raise CorruptionError(f"does not belong to run {run}")
    try:
        return Logged(
            _take(data, "seq", _INT), _take(data, "at", _INT), _decode_body(data.pop("type"), data)
        )
    except KeyError as error:
        raise CorruptionError(f"lacks {error.args[0]!r}") from error
    except ValueError as error:
        raise CorruptionError(str(error)) from error


def _take(data: dict[str, object], key: str, form: _Form) -> Any:  # noqa: ANN401  (per field)
    try:
        return form.read(data.pop(key))
    except ValueError as error:
        raise ValueError(f"{key!r} {error}") from error


def _decode_body(name: object, data: dict[str, object]) -> Event:
    reader = _READERS.get(name) if isinstance(name, str) else None
    if reader is None:
        raise ValueError(f"has the unknown type {name!r}")
    key, read = "", []
    try:
        for key, read_value, is_optional in reader.keys:
            absent = is_optional and key not in data
            read.append(None if absent else read_value(data.pop(key)))
    except ValueError as error:
        raise ValueError(f"{key!r} {error}") from error
    if data:
        raise ValueError(f"has the unknown key {min(data)!r}")
    for make, places in reader.parts:
        read.append(make(*[read[place] for place in places]))
    make, places = reader.event
    event: Event = make(*[read[place] for place in places])
    return event
