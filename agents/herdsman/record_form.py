"""The records of a mailbox as they are stored: JSON with exactly the fields of the values.

Nothing is written that could not be read again, and nothing is read that contradicts itself. What
is not understood is never taken for something that is not there.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from agents.herdsman.errors import invalid
from agents.herdsman.identity import Correlation, is_label, is_uuid
from agents.herdsman.record import (
    Ask,
    Binding,
    ContextUsage,
    ProcessStamp,
    Proof,
    Request,
    RequestKind,
    Result,
    ResultError,
    State,
)
from agents.herdsman.references import binding_fault
from engine.core.errors import CorruptionError
from engine.records.request import explain
from engine.system.identity import HIGHEST_PID, HIGHEST_TICKS

T = TypeVar("T")

STATE_LIMIT_BYTES: Final = 64 << 10
REQUEST_LIMIT_BYTES: Final = 1 << 20
RESULT_LIMIT_BYTES: Final = 4 << 20

_MOST_SESSION_CHARS: Final = 512
_Faults = Iterator[str]
_Rules = Iterable[tuple[bool, str]]


class UnreadableRecordError(CorruptionError):
    """A record is there and cannot be understood; nobody knows what it says."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How one kind of record is stored.

    Attributes:
        noun: what messages call it.
        limit_bytes: the most that one may be long.
    """

    noun: str
    limit_bytes: int
    _adapter: TypeAdapter[T]
    _faults: Callable[[T], _Faults]

    def encode(self, record: T) -> bytes:
        """Return the stored form, which can be too long.

        Raises:
            HerdError: INVALID_REQUEST: it could not be read back.
        """
        fault = next(self._faults(record), None)
        if fault is not None:
            raise invalid(f"the {self.noun} cannot be written: {fault}")
        return self.dump(record)

    def dump(self, record: T) -> bytes:
        """Return the stored form of a record that need not be complete.

        Raises:
            HerdError: INVALID_REQUEST: a text holds half of a character.
        """
        try:
            return self._adapter.dump_json(record, exclude_none=True)
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            what = f"the {self.noun} holds half of a character, which cannot be stored"
            raise invalid(what) from error

    def check_length(self, data: bytes) -> None:
        """Check that a stored form is not too long to be read back.

        Raises:
            HerdError: INVALID_REQUEST.
        """
        if len(data) > self.limit_bytes:
            raise invalid(
                f"the {self.noun} is {len(data):,} bytes long, and {self.limit_bytes:,} bytes are "
                "allowed"
            )

    def decode(self, data: bytes) -> T:
        """Return the record that a stored form holds.

        Raises:
            UnreadableRecordError: it holds none of this version.
        """
        try:
            record = self._adapter.validate_json(data)
        except ValidationError as error:
            raise UnreadableRecordError(f"the {self.noun} is damaged: {explain(error)}") from error
        fault = next(self._faults(record), None)
        if fault is not None:
            raise UnreadableRecordError(f"the {self.noun} is damaged: {fault}")
        return record


def _broken(rules: _Rules) -> _Faults:
    return (what for holds, what in rules if not holds)


def _is_session(text: str) -> bool:
    return 1 <= len(text) <= _MOST_SESSION_CHARS and text.isprintable() and not text.isspace()


def _is_path(text: str) -> bool:
    return text.startswith("/") and "\0" not in text


def _is_said(text: str) -> bool:
    return bool(text.strip())


def _is_time(value: int | None) -> bool:
    return value is None or value >= 0


def _is_amount(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and value >= 0)


def _is_id(text: str | None) -> bool:
    return text is None or is_uuid(text)


def _of_faults(of: Correlation) -> _Faults:
    return _broken(
        (
            (is_uuid(of.generation), "its generation is no UUID in lower case"),
            (_is_session(of.owner), "its owner is no id of a session"),
            (_is_path(of.workspace), "its workspace is no absolute path"),
            (is_label(of.label), "its label is none"),
            (_is_said(of.handle), "its handle is blank"),
        )
    )


def _state_faults(state: State) -> _Faults:
    yield from _of_faults(state.of)
    contradiction = state.fault()
    if contradiction is not None:
        yield f"it has {contradiction}"
    yield from _broken(
        (
            (_is_session(state.session), "its session has no id"),
            (_is_path(state.session_file), "its session file is no absolute path"),
            (_is_path(state.cwd), "its working directory is no absolute path"),
            (_is_said(state.definition), "its definition is blank"),
            (_is_id(state.active), "its active request is no UUID"),
            (_is_id(state.pending_ask), "its pending ask is no UUID"),
            (_is_id(state.completed), "its completed request is no UUID"),
            (_is_time(state.updated_ms), "it was updated before 1970"),
            (_is_time(state.last_activity_ms), "its last activity is before 1970"),
        )
    )
    yield from _proof_faults(state.proof)
    yield from _part_faults(state)


def _proof_faults(proof: Proof) -> _Faults:
    for process in (proof.host, proof.child):
        if process is not None:
            yield from process_faults(process)


def process_faults(process: ProcessStamp) -> _Faults:
    """Yield why a process that a record names can be none."""
    ticks = process.start_ticks
    return _broken(
        (
            (process.pid > 0, "a process has no number"),
            (process.pid <= HIGHEST_PID, "the number of a process is higher than any"),
            (ticks >= 0, "a process has started before the machine"),
            (ticks <= HIGHEST_TICKS, "a process has started after all time"),
            (_is_said(process.boot_id), "a process is of no boot"),
        )
    )


def _part_faults(state: State) -> _Faults:
    said, injection, error = state.acknowledgement, state.injection, state.result_error
    if said is not None:
        yield from _broken(
            (
                (is_uuid(said.request), "its acknowledgement is of no request"),
                (_is_time(said.at_ms), "its acknowledgement is from before 1970"),
            )
        )
    if injection is not None and not is_uuid(injection.request):
        yield "its injection is of no request"
    if error is not None:
        yield from _result_error_faults(error, state)


def _result_error_faults(error: ResultError, state: State) -> _Faults:
    return _broken(
        (
            (error.of == state.of, "its result error is another generation's"),
            (is_uuid(error.request), "its result error is of no request"),
            (error.attempts >= 1, "its result error is of no attempt"),
            (_is_time(error.failed_ms), "its result error is from before 1970"),
            (_is_said(error.next_action), "its result error has no next action"),
        )
    )


def _request_faults(request: Request) -> _Faults:
    yield from _of_faults(request.of)
    yield from _broken(
        (
            (is_uuid(request.request), "its id is no UUID in lower case"),
            (
                (request.ask is not None) == (request.kind is RequestKind.REPLY),
                "a reply, and nothing else, names the question that it answers",
            ),
            (_is_id(request.ask), "its question is no UUID"),
            (_is_said(request.text), "its text is blank"),
            (_is_time(request.created_ms), "it is from before 1970"),
        )
    )
    yield from _binding_faults(request.bindings)


def _ask_faults(ask: Ask) -> _Faults:
    yield from _of_faults(ask.of)
    yield from _broken(
        (
            (is_uuid(ask.ask), "its id is no UUID in lower case"),
            (is_uuid(ask.request), "its assignment is no UUID"),
            (_is_session(ask.session), "its session has no id"),
            (_is_said(ask.question), "its text is blank"),
            (_is_time(ask.created_ms), "it is from before 1970"),
        )
    )
    yield from _binding_faults(ask.bindings)


def _binding_faults(bindings: tuple[Binding, ...]) -> _Faults:
    for binding in bindings:
        fault = binding_fault(binding)
        if fault is not None:
            yield fault
    if len({binding.semantic for binding in bindings}) < len(bindings):
        yield "it binds one reference twice"


def _result_faults(result: Result) -> _Faults:
    is_completed = result.status == "completed"
    yield from _of_faults(result.of)
    yield from _broken(
        (
            (is_uuid(result.request), "its id is no UUID in lower case"),
            (
                (result.text is not None) is is_completed,
                "what is completed, and only that, has a text",
            ),
            (result.text is None or _is_said(result.text), "its text is blank"),
            ((result.error is None) is is_completed, "what failed, and only that, has an error"),
            (_is_time(result.completed_ms), "it is from before 1970"),
        )
    )
    if result.usage is not None:
        yield from _usage_faults(result.usage)


def _usage_faults(usage: ContextUsage) -> _Faults:
    amounts = (usage.tokens, usage.context_window, usage.percent)
    return _broken((_is_amount(one), "it tells no amount of its context") for one in amounts)


STATE: Final = Form("state", STATE_LIMIT_BYTES, TypeAdapter(State), _state_faults)
REQUEST: Final = Form("request", REQUEST_LIMIT_BYTES, TypeAdapter(Request), _request_faults)
ASK: Final = Form("question", REQUEST_LIMIT_BYTES, TypeAdapter(Ask), _ask_faults)
RESULT: Final = Form("result", RESULT_LIMIT_BYTES, TypeAdapter(Result), _result_faults)


def request_size(draft: Request) -> int:
    """Return how long a request is stored, in bytes; it need not be complete yet.

    Raises:
        HerdError: INVALID_REQUEST: its text holds half of a character.
    """
    return len(REQUEST.dump(draft))
