"""Tests of `agents.herdsman.record_form`."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import AskId, GenerationId, Handle, Label, RequestId, SessionId
from agents.herdsman.record import (
    Acknowledgement,
    Ask,
    Binding,
    ContextUsage,
    Failure,
    FailureCode,
    Injection,
    ProcessStamp,
    Proof,
    RejectionCode,
    Request,
    RequestKind,
    Result,
    State,
)
from agents.herdsman.record_form import (
    ASK,
    REQUEST,
    RESULT,
    STATE,
    Form,
    UnreadableRecordError,
    request_size,
)
from tests.support.herd_records import NOW_MS, TASK, ask_id, result_error, state_of, uid

OF = state_of("scout").of
BOUND = Binding("result:scout#1", f"result:{uid('result')}")
FULL_STATE = state_of(
    "scout",
    active=TASK,
    pending_ask=ask_id("which"),
    last_activity_ms=NOW_MS,
    acknowledgement=Acknowledgement(TASK, accepted=True, at_ms=NOW_MS),
    injection=Injection(TASK, RequestKind.TASK),
    proof=Proof("process", ProcessStamp(1, 0, "b"), ProcessStamp(2, 3, "b"), "mark"),
)
REFUSED = Acknowledgement(
    TASK, accepted=False, at_ms=NOW_MS, code=RejectionCode.BUSY, message="at work"
)
REPLY = Request(
    OF, RequestId(uid("r")), RequestKind.REPLY, "left", NOW_MS, ask_id("which"), (BOUND,)
)
STEER = Request(OF, RequestId(uid("r")), RequestKind.STEER, "go on", NOW_MS)
QUESTION = Ask(OF, ask_id("which"), TASK, state_of("scout").session, "Which?", NOW_MS, (BOUND,))
DONE = Result(OF, TASK, "completed", NOW_MS, "done", usage=ContextUsage(10, 200, 5.0))
FAILED = Result(
    OF, TASK, "failed", NOW_MS, error=Failure(FailureCode.EMPTY_RESULT, "it said nothing")
)
RECORDS: list[tuple[Form[Any], Any]] = [
    (STATE, state_of("scout")),
    (STATE, FULL_STATE),
    (STATE, replace(state_of("scout"), acknowledgement=REFUSED)),
    (STATE, replace(state_of("scout"), completed=TASK)),
    (STATE, result_error(state_of("scout"))),
    (REQUEST, REPLY),
    (REQUEST, STEER),
    (ASK, QUESTION),
    (RESULT, DONE),
    (RESULT, FAILED),
    (RESULT, replace(DONE, usage=ContextUsage())),
]
PARTS = ("of", "proof", "acknowledgement", "injection", "result_error", "usage", "error")


def fields_of(form: Form[Any], record: Any) -> dict[str, Any]:
    """Return a record's stored form, taken apart."""
    fields: dict[str, Any] = json.loads(form.encode(record))
    return fields


def read_fault(form: Form[Any], fields: object) -> str:
    with pytest.raises(UnreadableRecordError) as caught:
        form.decode(json.dumps(fields).encode())
    return str(caught.value)


def write_fault(form: Form[Any], record: Any) -> str:
    with pytest.raises(HerdError) as caught:
        form.encode(record)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    return str(caught.value)


@pytest.mark.parametrize(("form", "record"), RECORDS)
def test_what_was_written_is_read_back_the_same(form: Form[Any], record: Any) -> None:
    assert form.decode(form.encode(record)) == record


def test_size_of_a_request_is_that_of_what_is_written() -> None:
    assert request_size(REPLY) == len(REQUEST.encode(REPLY))


def test_ids_of_version_7_are_kept_as_they_are() -> None:
    one, two = "01936f2c-7b1e-7a4c-8f3d-5a6b7c8d9e0f", "01936f2c-7b1e-7fff-bfff-ffffffffffff"
    of = replace(OF, generation=GenerationId(one), owner=SessionId(two))
    state = replace(state_of("scout"), of=of, session=SessionId(one), active=RequestId(two))
    assert STATE.decode(STATE.encode(state)) == state
    reply = replace(REPLY, of=of, request=RequestId(one), ask=AskId(two))
    assert REQUEST.decode(REQUEST.encode(reply)) == reply


@pytest.mark.parametrize(("form", "record"), RECORDS)
def test_an_unknown_field_makes_a_record_unreadable(form: Form[Any], record: Any) -> None:
    fields = fields_of(form, record)
    assert "unknown" in read_fault(form, {**fields, "more": 1})
    for part in PARTS:
        if isinstance(fields.get(part), dict):
            read_fault(form, {**fields, part: {**fields[part], "more": 1}})


@pytest.mark.parametrize(("form", "record"), RECORDS)
@pytest.mark.parametrize("version", [3, 5, "4", True, None])
def test_a_record_of_another_protocol_is_rejected_and_not_migrated(
    form: Form[Any], record: Any, version: object
) -> None:
    read_fault(form, {**fields_of(form, record), "version": version})


@pytest.mark.parametrize(("form", "record"), RECORDS)
def test_a_record_that_lacks_a_field_is_unreadable(form: Form[Any], record: Any) -> None:
    fields = fields_of(form, record)
    for name in ("of", *(("updated_ms",) if form is STATE else ())):
        read_fault(form, {key: value for key, value in fields.items() if key != name})


STATE_FAULTS: list[tuple[str, State]] = [
    ("generation", replace(FULL_STATE, of=replace(OF, generation=GenerationId("one")))),
    ("owner", replace(FULL_STATE, of=replace(OF, owner=SessionId("")))),
    ("owner", replace(FULL_STATE, of=replace(OF, owner=SessionId("a\nb")))),
    ("owner", replace(FULL_STATE, of=replace(OF, owner=SessionId("x" * 513)))),
    ("workspace", replace(FULL_STATE, of=replace(OF, workspace="tree"))),
    ("workspace", replace(FULL_STATE, of=replace(OF, workspace="/a\0b"))),
    ("label", replace(FULL_STATE, of=replace(OF, label=Label("Scout")))),
    ("handle", replace(FULL_STATE, of=replace(OF, handle=Handle(" ")))),
    ("session", replace(FULL_STATE, session=SessionId(" "))),
    ("session file", replace(FULL_STATE, session_file="")),
    ("working directory", replace(FULL_STATE, cwd=".")),
    ("definition", replace(FULL_STATE, definition="")),
    ("active", replace(FULL_STATE, active=RequestId("7"))),
    ("pending ask", replace(FULL_STATE, pending_ask=AskId("7"))),
    ("completed", replace(state_of("scout"), completed=RequestId("../x"))),
    ("updated", replace(FULL_STATE, updated_ms=-1)),
    ("last activity", replace(FULL_STATE, last_activity_ms=-1)),
    ("number", replace(FULL_STATE, proof=Proof("process", ProcessStamp(0, 0, "b")))),
    ("machine", replace(FULL_STATE, proof=Proof("process", ProcessStamp(1, -1, "b")))),
    ("higher", replace(FULL_STATE, proof=Proof("process", ProcessStamp((1 << 22) + 1, 0, "b")))),
    ("all time", replace(FULL_STATE, proof=Proof("process", ProcessStamp(1, 1 << 63, "b")))),
    ("boot", replace(FULL_STATE, proof=Proof("process", ProcessStamp(1, 1, "")))),
    (
        "acknowledgement",
        replace(FULL_STATE, acknowledgement=replace(REFUSED, request=RequestId("x"))),
    ),
    ("acknowledgement", replace(FULL_STATE, acknowledgement=replace(REFUSED, at_ms=-1))),
    ("acknowledgement", replace(FULL_STATE, acknowledgement=replace(REFUSED, code=None))),
    ("injection", replace(FULL_STATE, injection=Injection(RequestId("x"), RequestKind.TASK))),
    ("without an assignment", replace(FULL_STATE, active=None)),
    ("both active and completed", replace(state_of("scout"), active=TASK, completed=TASK)),
]
ERROR_FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("another generation", {"of": replace(OF, handle=Handle("else"))}),
    ("no request", {"request": "x"}),
    ("no attempt", {"attempts": 0}),
    ("before 1970", {"failed_ms": -1}),
    ("next action", {"next_action": " "}),
]


@pytest.mark.parametrize(("told", "state"), STATE_FAULTS)
def test_a_state_that_cannot_be_true_is_neither_written_nor_read(told: str, state: State) -> None:
    assert told in write_fault(STATE, state)
    assert told in read_fault(STATE, json.loads(STATE.dump(state)))


@pytest.mark.parametrize(("told", "changes"), ERROR_FAULTS)
def test_a_result_error_says_all_that_its_owner_needs(told: str, changes: dict[str, Any]) -> None:
    state = result_error(state_of("scout"))
    assert state.result_error is not None
    wrong = replace(state, result_error=replace(state.result_error, **changes))
    assert told in write_fault(STATE, wrong)
    assert told in read_fault(STATE, json.loads(STATE.dump(wrong)))


REQUEST_FAULTS: list[tuple[str, Request]] = [
    ("names the question", replace(REPLY, ask=None)),
    ("names the question", replace(STEER, kind=RequestKind.TASK, ask=ask_id("which"))),
    ("question", replace(REPLY, ask=AskId("which"))),
    ("id", replace(STEER, request=RequestId("../../etc/passwd"))),
    ("id", replace(STEER, request=RequestId(uid("r").upper()))),
    ("blank", replace(STEER, text=" \n\t")),
    ("1970", replace(STEER, created_ms=-1)),
    ("handle", replace(STEER, of=replace(OF, handle=Handle("")))),
    ("semantic", replace(STEER, bindings=(Binding("result:scout#0", BOUND.canonical),))),
    ("canonical", replace(STEER, bindings=(Binding(BOUND.semantic, BOUND.semantic),))),
    ("twice", replace(STEER, bindings=(BOUND, BOUND))),
]


@pytest.mark.parametrize(("told", "request_"), REQUEST_FAULTS)
def test_a_request_with_a_slip_is_neither_written_nor_read(told: str, request_: Request) -> None:
    assert told in write_fault(REQUEST, request_)
    assert told in read_fault(REQUEST, json.loads(REQUEST.dump(request_)))


@pytest.mark.parametrize(
    ("told", "changes"),
    [
        ("id", {"ask": "x"}),
        ("assignment", {"request": "x"}),
        ("session", {"session": ""}),
        ("blank", {"question": ""}),
        ("1970", {"created_ms": -1}),
        ("twice", {"bindings": (BOUND, BOUND)}),
        ("workspace", {"of": replace(OF, workspace="")}),
    ],
)
def test_a_question_with_a_slip_is_neither_written_nor_read(
    told: str, changes: dict[str, Any]
) -> None:
    ask = replace(QUESTION, **changes)
    assert told in write_fault(ASK, ask)
    assert told in read_fault(ASK, json.loads(ASK.dump(ask)))


@pytest.mark.parametrize(
    ("told", "result"),
    [
        ("blank", replace(DONE, text=" \n")),
        ("has a text", replace(DONE, text=None)),
        ("has a text", replace(FAILED, text="done")),
        ("has an error", replace(FAILED, error=None)),
        ("has an error", replace(DONE, error=FAILED.error)),
        ("id", replace(DONE, request=RequestId("x"))),
        ("1970", replace(DONE, completed_ms=-1)),
        ("amount", replace(DONE, usage=ContextUsage(tokens=-1))),
        ("amount", replace(DONE, usage=ContextUsage(percent=-0.5))),
        ("label", replace(DONE, of=replace(OF, label=Label("")))),
    ],
)
def test_a_result_with_a_slip_is_neither_written_nor_read(told: str, result: Result) -> None:
    assert told in write_fault(RESULT, result)
    assert told in read_fault(RESULT, json.loads(RESULT.dump(result)))


@pytest.mark.parametrize("percent", [math.inf, math.nan])
def test_an_amount_without_bounds_is_neither_written_nor_read(percent: float) -> None:
    assert "amount" in write_fault(RESULT, replace(DONE, usage=ContextUsage(percent=percent)))
    fields = fields_of(RESULT, DONE)
    read_fault(RESULT, {**fields, "usage": {"percent": percent}})


def test_half_of_a_character_is_refused_before_anything_is_written() -> None:
    half = replace(STEER, text="\ud83d")
    assert "half of a character" in write_fault(REQUEST, half)
    with pytest.raises(HerdError, match="half of a character"):
        request_size(half)


def test_a_draft_is_measured_before_it_is_complete() -> None:
    draft = replace(STEER, text="")
    assert request_size(replace(draft, text="äöü")) == request_size(draft) + 6


def test_a_record_at_its_limit_is_fine_and_a_byte_more_is_not() -> None:
    room = REQUEST.limit_bytes - request_size(replace(STEER, text=""))
    REQUEST.check_length(REQUEST.encode(replace(STEER, text="x" * room)))
    with pytest.raises(HerdError, match=r"1,048,577 bytes .* 1,048,576 bytes") as caught:
        REQUEST.check_length(REQUEST.encode(replace(STEER, text="x" * (room + 1))))
    assert caught.value.trouble.category is Category.INVALID_REQUEST


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from((STATE, REQUEST, ASK, RESULT)), st.binary())
@example(STATE, b"[" * 100_000)
@example(STATE, b'{"updated_ms": ' + b"9" * 5000 + b"}")
@example(REQUEST, b"\xff\xfe{}")
@example(RESULT, b'{"text": "\\ud800"}')
@example(ASK, b"")
def test_any_bytes_are_a_record_or_unreadable(form: Form[Any], data: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        form.decode(data)


@given(st.sampled_from(RECORDS), st.data())
def test_a_record_with_any_field_replaced_is_the_record_it_says_or_unreadable(
    case: tuple[Form[Any], Any], data: st.DataObject
) -> None:
    form, record = case
    fields = fields_of(form, record)
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(_JSON)
    try:
        found = form.decode(json.dumps(fields).encode())
    except UnreadableRecordError:
        return
    assert form.decode(form.encode(found)) == found
