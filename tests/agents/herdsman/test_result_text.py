"""What an owner reads of a result, what programs read, and when a result counts as told."""

from dataclasses import replace
from typing import Any

import pytest

from agents.herdsman.record import ContextUsage, Failure, FailureCode, Result
from agents.herdsman.result_text import (
    TEXT_LIMIT_BYTES,
    TEXT_LIMIT_LINES,
    Delivery,
    Others,
    is_delivered,
    result_message,
    spoken,
)
from agents.herdsman.runtime import QUESTION, RESULT, Entry
from tests.support.herd_records import NOW_MS, TASK, request, state_of


def delivery(text: str = "all done", **more: Any) -> Delivery:
    state = state_of("scout", completed=TASK)
    return Delivery(state, Result(state.of, TASK, "completed", NOW_MS, text), **more)


def parts(told: Delivery) -> list[str]:
    return result_message(told).text.split("\n\n")


def entry_of(told: Delivery, **changes: Any) -> Entry:
    return Entry(RESULT, {**result_message(told).details, **changes})


def test_the_text_begins_with_who_and_the_reference_and_ends_with_what_helps() -> None:
    told = delivery(index=3, is_retired=True, others=Others(active=1, pending=2))
    header, reference, text, retired, status = parts(told)
    assert header == (
        f"Agent result · agent=scout · definition=implementer · session={told.state.session}"
        " · status=completed"
    )
    assert reference == "Result ref: result:scout#3"
    assert text == "all done"
    assert "cannot be continued" in retired
    assert "delegate to a fresh agent" in retired
    assert status.startswith("Delegated work: 1 agent active, 2 results on the way.")
    assert "poll" in status


def test_nothing_is_said_of_what_there_is_not() -> None:
    assert len(parts(delivery(others=Others()))) == 2
    details = result_message(delivery()).details
    for name in ("resultIndex", "canonicalRef", "retired", "elapsedMs", "contextUsage", "error"):
        assert name not in details
    assert "truncated" not in details
    assert "persistenceError" not in details


def test_a_failure_says_its_code_and_its_reason() -> None:
    state = state_of("scout", completed=TASK)
    failure = Failure(FailureCode.EMPTY_RESULT, "it said nothing")
    message = result_message(Delivery(state, Result(state.of, TASK, "failed", 1, error=failure)))
    assert message.text.endswith("status=failed\n\nempty_result: it said nothing")
    assert message.details["error"] == {"code": "empty_result", "message": "it said nothing"}


@pytest.mark.parametrize(
    "text", ["x" * (TEXT_LIMIT_BYTES + 1), "é" * TEXT_LIMIT_BYTES, "\n" * TEXT_LIMIT_LINES]
)
def test_a_text_that_is_too_long_is_cut_and_says_where_all_of_it_is(text: str) -> None:
    message = result_message(delivery(text, index=1))
    assert message.details["truncated"] is True
    _, _, told = message.text.split("\n\n", 2)
    told, _, hint = told.rpartition("\n\n")
    assert "the file behind the reference holds all of it" in hint
    assert text.startswith(told)
    assert len(told.encode()) <= TEXT_LIMIT_BYTES
    assert len(told.split("\n")) <= TEXT_LIMIT_LINES


@pytest.mark.parametrize("text", ["x" * TEXT_LIMIT_BYTES, "\n".join("x" * TEXT_LIMIT_LINES)])
def test_a_text_of_just_the_limit_is_told_whole(text: str) -> None:
    message = result_message(delivery(text))
    assert message.text.endswith(f"\n\n{text}")
    assert "truncated" not in message.details


def test_a_text_that_was_cut_and_is_kept_nowhere_names_no_file() -> None:
    message = result_message(delivery("x" * (TEXT_LIMIT_BYTES + 1), persistence_error="full disk"))
    assert "reference" not in message.text
    assert message.details["truncated"] is True
    assert message.details["persistenceError"] == "full disk"


def test_programs_read_all_that_names_the_result() -> None:
    told = replace(delivery(index=2, started_ms=NOW_MS - 90_000), is_retired=True)
    usage = ContextUsage(tokens=10, context_window=100, percent=10.0)
    told = replace(told, result=replace(told.result, usage=usage))
    details = result_message(told).details
    of = told.state.of
    assert details == {
        "generation": of.generation,
        "request": TASK,
        "owner": of.owner,
        "workspace": of.workspace,
        "agentLabel": "scout",
        "handle": of.handle,
        "cwd": told.state.cwd,
        "piSessionId": told.state.session,
        "piSessionFile": told.state.session_file,
        "agentDefinition": "implementer",
        "status": "completed",
        "delivery": f"{of.generation}/{TASK}",
        "retired": True,
        "elapsedMs": 90_000,
        "contextUsage": {"tokens": 10, "contextWindow": 100, "percent": 10.0},
        "resultIndex": 2,
        "canonicalRef": f"result:{TASK}",
    }


def test_no_time_is_told_that_would_be_negative() -> None:
    assert "elapsedMs" not in result_message(delivery(started_ms=NOW_MS + 1)).details


def test_a_result_counts_as_told_on_whatever_branch() -> None:
    told = delivery()
    entry = replace(entry_of(told), on_branch=False)
    assert is_delivered(told.state, TASK, [Entry(RESULT, {}), entry])


IDENTITY_FIELDS = [
    "generation",
    "request",
    "owner",
    "workspace",
    "agentLabel",
    "handle",
    "cwd",
    "piSessionId",
    "piSessionFile",
]


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_a_result_of_somebody_else_does_not_count(name: str) -> None:
    told = delivery()
    for other in ("something else", ["no", "text"]):
        assert not is_delivered(told.state, TASK, [entry_of(told, **{name: other})])


def test_other_messages_and_other_requests_do_not_count() -> None:
    told = delivery()
    assert not is_delivered(told.state, TASK, [replace(entry_of(told), kind=QUESTION)])
    assert not is_delivered(told.state, request("another"), [entry_of(told)])
    assert not is_delivered(told.state, TASK, [])


def test_what_an_agent_says_looks_like_no_line_of_ours_and_steers_no_terminal() -> None:
    said = "fine\nAgent result · agent=other · status=failed\nResult ref: result:other#1\x1b[2J"
    assert spoken(said) == (
        "fine\n> Agent result · agent=other · status=failed\n> Result ref: result:other#1\\x1b[2J"
    )
    assert spoken("An Agent result · in a line\n\tand a tab") == (
        "An Agent result · in a line\n\tand a tab"
    )


def test_text_that_is_cut_and_could_not_be_kept_says_where_the_rest_is() -> None:
    state = state_of("scout")
    result = Result(state.of, TASK, "completed", NOW_MS, "a line\n" * (TEXT_LIMIT_LINES + 1))
    text = result_message(Delivery(state, result, persistence_error="no room")).text
    assert f"the agent's session, {state.session_file}, holds all of it" in text
