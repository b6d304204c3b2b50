"""What an owner reads, and what programs read, of the result of one of its agents. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agents.herdsman.identity import RequestId
from agents.herdsman.record import Result, State
from agents.herdsman.references import Semantic, result_details
from agents.herdsman.runtime import RESULT, Entry, Message
from engine.core.quote import escape

# Of the text in the message; an artifact holds all of it.
TEXT_LIMIT_BYTES: Final = 50_000
TEXT_LIMIT_LINES: Final = 2_000
# How our own lines begin.
_OURS: Final = re.compile(r"^(?=Agent (?:result|question|attention) ·|Result ref:)", re.MULTILINE)
_RETIRED: Final = (
    "The context of this agent's session is full, and the session is retired: it cannot be"
    " continued. For more work, delegate to a fresh agent, and give it this result and the files"
    " that matter."
)
_NO_POLLING: Final = "Their results arrive by themselves: do not wait, poll or do their work."


@dataclass(frozen=True, slots=True)
class Delivery:
    """A result on its way to its owner.

    Attributes:
        state: of the agent that produced it.
        is_retired: its session is not continued.
        started_ms: when its task was given to it; None when nobody knows.
        index: of the reusable result; None where there is none.
        persistence_error: why there is none though the assignment was completed.
        others: further agents of the same owner that work, or have a result on its way.
    """

    state: State
    result: Result
    is_retired: bool = False
    started_ms: int | None = None
    index: int | None = None
    persistence_error: str | None = None
    others: "Others | None" = None

    @property
    def key(self) -> str:
        """The same whenever it is told."""
        return delivery_key(self.state, self.result.request)


@dataclass(frozen=True, slots=True)
class Others:
    """How many more agents of an owner there are."""

    active: int = 0
    pending: int = 0


def delivery_key(state: State, request: RequestId) -> str:
    """Return what the delivery of a result is called."""
    return f"{state.of.generation}/{request}"


def is_delivered(state: State, request: RequestId, entries: Iterable[Entry]) -> bool:
    """Return whether an owner's history holds the result of exactly this agent's request.

    Args:
        state: of the agent.
        request: its task.
        entries: of the owner's session, on all branches.
    """
    wanted = _identity(state, request)
    return any(
        entry.kind == RESULT and wanted.items() <= _comparable(entry.details).items()
        for entry in entries
    )


def result_message(delivery: Delivery) -> Message:
    """Return the message that a result enters its owner's conversation as."""
    state, result = delivery.state, delivery.result
    text, was_cut = _bounded(_said(result))
    text = spoken(text)
    parts = [_header(state, result)]
    if delivery.index is not None:
        parts.append(f"Result ref: {Semantic(state.of.label, delivery.index)}")
    parts.append(text)
    if was_cut:
        where = (
            "the file behind the reference"
            if delivery.index is not None
            else f"the agent's session, {state.session_file},"
        )
        parts.append(f"The text is cut here; {where} holds all of it.")
    if delivery.is_retired:
        parts.append(_RETIRED)
    if delivery.others is not None and (delivery.others.active or delivery.others.pending):
        parts.append(_status(delivery.others))
    return Message(RESULT, "\n\n".join(parts), _details(delivery, was_cut=was_cut))


def spoken(text: str) -> str:
    """Return what an agent said, as it stands in a message to its owner.

    No line of it looks like one of ours, and nothing in it steers a terminal.
    """
    return _OURS.sub("> ", escape(text))


def _header(state: State, result: Result) -> str:
    return " · ".join(
        (
            "Agent result",
            f"agent={state.of.label}",
            f"definition={state.definition}",
            f"session={state.session}",
            f"status={result.status}",
        )
    )


def _said(result: Result) -> str:
    if result.text is not None:
        return result.text
    assert result.error is not None
    return f"{result.error.code.value}: {result.error.message}"


def _bounded(text: str) -> tuple[str, bool]:
    """Return the beginning of a text, and whether that is not all of it."""
    lines = text.split("\n")
    head = "\n".join(lines[:TEXT_LIMIT_LINES])
    data = head.encode()
    if len(data) > TEXT_LIMIT_BYTES:
        head = data[:TEXT_LIMIT_BYTES].decode("utf-8", "ignore")
    return head, head != text


def _status(others: Others) -> str:
    return (
        f"Delegated work: {_count(others.active, 'agent')} active,"
        f" {_count(others.pending, 'result')} on the way. {_NO_POLLING}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _identity(state: State, request: RequestId) -> dict[str, Any]:
    """Return what tells one result from every other, in details."""
    of = state.of
    return {
        "generation": of.generation,
        "request": request,
        "owner": of.owner,
        "workspace": of.workspace,
        "agentLabel": of.label,
        "handle": of.handle,
        "cwd": state.cwd,
        "piSessionId": state.session,
        "piSessionFile": state.session_file,
    }


def _comparable(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return those details that can be compared; a person may have edited the file."""
    return {name: value for name, value in details.items() if isinstance(value, str)}


def _details(delivery: Delivery, *, was_cut: bool) -> dict[str, Any]:
    state, result = delivery.state, delivery.result
    elapsed_ms = None
    if delivery.started_ms is not None and result.completed_ms >= delivery.started_ms:
        elapsed_ms = result.completed_ms - delivery.started_ms
    usage, error = result.usage, result.error
    more: dict[str, Any] = {
        "retired": True if delivery.is_retired else None,
        "elapsedMs": elapsed_ms,
        "contextUsage": None
        if usage is None
        else {
            "tokens": usage.tokens,
            "contextWindow": usage.context_window,
            "percent": usage.percent,
        },
        "truncated": True if was_cut else None,
        "persistenceError": delivery.persistence_error,
        "error": None if error is None else {"code": error.code.value, "message": error.message},
    }
    if delivery.index is not None:
        more |= result_details(result.request, state.of.label, delivery.index)
    return {
        **_identity(state, result.request),
        "agentDefinition": state.definition,
        "status": result.status,
        "delivery": delivery.key,
        **{name: value for name, value in more.items() if value is not None},
    }
