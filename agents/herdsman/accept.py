"""What an agent answers to a request: a table, pure, in which the first row that applies counts.

An accepted request changes the state in one step, acknowledgement included, so that no crash can
come between the two.
"""

from dataclasses import dataclass, replace
from typing import Final, assert_never

from agents.herdsman.identity import RequestId
from agents.herdsman.marker import is_marker
from agents.herdsman.record import (
    Acknowledgement,
    Ask,
    Injection,
    RejectionCode,
    Request,
    RequestKind,
    State,
)

_BUSY_INJECTING: Final = "what was accepted before is still being put into the conversation"
_BUSY_PUBLISHING: Final = "the result of the assignment is being written"
_NO_QUESTION: Final = "the agent does not wait for an answer to that question"


@dataclass(frozen=True, slots=True)
class Moment:
    """What an agent's side knows beside its mailbox.

    Attributes:
        is_idle: the conversation is at rest.
        is_publishing: a result is being written.
        waits_for_children: it rests because work of agents of its own has not reached it.
    """

    is_idle: bool
    is_publishing: bool = False
    waits_for_children: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is taken on."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The request is turned down; `message` is a sentence for the owner."""

    code: RejectionCode
    message: str


@dataclass(frozen=True, slots=True)
class Known:
    """The request was answered before; saying anything again would answer it twice."""


Verdict = Accepted | Refused | Known


def is_acknowledged(request: RequestId, state: State) -> bool:
    """Return whether a state shows that the request was answered."""
    answered = {state.active, state.completed}
    if state.acknowledgement is not None:
        answered.add(state.acknowledgement.request)
    if state.injection is not None:
        answered.add(state.injection.request)
    return request in answered


def judge(request: Request, state: State, ask: Ask | None, moment: Moment) -> Verdict:
    """Return what to answer.

    Args:
        request: a readable one.
        state: the agent's own.
        ask: the record of the question that it waits with; None also where that is unreadable.
        moment: what else is known.
    """
    if is_acknowledged(request.request, state):
        return Known()
    if request.of != state.of:
        return Refused(RejectionCode.IDENTITY, "the request is for another agent than this one")
    if is_marker(request.text):
        return Refused(RejectionCode.INVALID, "the text is a control marker and no message")
    match request.kind:
        case RequestKind.REPLY:
            return _judge_reply(request, state, ask)
        case RequestKind.TASK:
            return _judge_task(state, moment)
        case RequestKind.STEER | RequestKind.INTERRUPT:
            return _judge_control(request.kind, state, moment)
        case _:
            assert_never(request.kind)


def accepted(state: State, request: Request, now_ms: int) -> State:
    """Return the state in which a request is taken on.

    A steer is not remembered any further: it is put in once, or lost with the process. The text of
    all others must reach the conversation, whatever happens.
    """
    taken = replace(
        state,
        acknowledgement=Acknowledgement(request.request, accepted=True, at_ms=now_ms),
        updated_ms=now_ms,
    )
    if request.kind is RequestKind.STEER:
        return taken
    taken = replace(taken, injection=Injection(request.request, request.kind))
    match request.kind:
        case RequestKind.TASK:
            return replace(taken, active=request.request, last_activity_ms=now_ms)
        case RequestKind.REPLY:
            return replace(taken, pending_ask=None)
        case RequestKind.INTERRUPT:
            return taken
        case _:
            assert_never(request.kind)


def refused(state: State, request: RequestId, refusal: Refused, now_ms: int) -> State:
    """Return the state in which a request is turned down; nothing else of it changes."""
    said = Acknowledgement(
        request, accepted=False, at_ms=now_ms, code=refusal.code, message=refusal.message
    )
    return replace(state, acknowledgement=said, updated_ms=now_ms)


def _judge_reply(request: Request, state: State, ask: Ask | None) -> Verdict:
    if ask is None or not ask.belongs_to(state) or request.ask != ask.ask:
        return Refused(RejectionCode.IDENTITY, _NO_QUESTION)
    return Accepted()


def _judge_task(state: State, moment: Moment) -> Verdict:
    if state.result_error is not None:
        return _busy(f"the last result could not be written: {state.result_error.next_action}")
    if state.active is not None or state.completed is not None:
        return _busy("the agent has its one assignment")
    if moment.is_publishing:
        return _busy(_BUSY_PUBLISHING)
    if not moment.is_idle:
        return _busy("the agent is at work")
    return Accepted()


def _judge_control(kind: RequestKind, state: State, moment: Moment) -> Verdict:
    if state.pending_ask is not None:
        return _busy("the agent waits for the answer to its question")
    if state.injection is not None:
        return _busy(_BUSY_INJECTING)
    if moment.is_publishing:
        return _busy(_BUSY_PUBLISHING)
    if state.active is None:
        return Refused(RejectionCode.IDLE, "the agent has no assignment")
    if not moment.is_idle or (kind is RequestKind.STEER and moment.waits_for_children):
        return Accepted()
    return Refused(RejectionCode.IDLE, "the agent is not at work")


def _busy(message: str) -> Refused:
    return Refused(RejectionCode.BUSY, message)
