"""When an assignment is over, and what it came to: pure.

An assignment is over when its agent has come to rest with nothing left to wait for; what it said
last is the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from agents.herdsman.identity import Label
from agents.herdsman.record import (
    Failure,
    FailureCode,
    Result,
    ResultError,
    State,
)
from agents.herdsman.runtime import Ended

# Of what somebody else says about a failure.
_MOST_REASON_CHARS: Final = 2_000
_SAID_NOTHING: Final = "the agent ended without saying anything"
_NEXT_ACTION: Final = (
    "read what the agent did with agent_transcript, then close it; its assignment is over, and "
    "its result is lost"
)


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Agents of an agent's own whose work has not reached it.

    Attributes:
        asking: those that wait with a question that the agent can answer.
        others: those with an assignment, a result that the agent has not read, or a result that
            could not be written.
    """

    asking: tuple[Label, ...] = ()
    others: tuple[Label, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.asking or self.others)


def may_settle(state: State) -> bool:
    """Return whether the mailbox lets an agent's rest be the end of its assignment."""
    return state.active is not None and state.pending_ask is None and state.injection is None


def result_of(state: State, text: str, ended: Ended, now_ms: int) -> Result:
    """Return what the active assignment of `state` came to.

    Args:
        state: the agent's own.
        text: what the agent said last, since the last thing that it was told.
        ended: how it came to rest.
        now_ms: the end.
    """
    assert state.active is not None
    text = _storable(text)
    if text.strip():
        return Result(state.of, state.active, "completed", now_ms, text=text, usage=ended.usage)
    message = _SAID_NOTHING
    if ended.fault is not None:
        message = f"{message}: {_storable(ended.fault)[:_MOST_REASON_CHARS]}"
    return _failed(state, FailureCode.EMPTY_RESULT, message, ended, now_ms)


def too_large(state: State, size_bytes: int, limit_bytes: int, ended: Ended, now_ms: int) -> Result:
    """Return what an assignment came to whose text no record can hold."""
    message = (
        f"the result makes a record of {size_bytes:,} bytes, and {limit_bytes:,} bytes are "
        "allowed; the agent's session holds the text"
    )
    return _failed(state, FailureCode.RESULT_TOO_LARGE, message, ended, now_ms)


def completed(state: State, now_ms: int) -> State:
    """Return the state in which the result of the active assignment is written.

    Nothing of the assignment is left open then, whatever an agent died in the midst of.
    """
    return replace(
        state,
        active=None,
        pending_ask=None,
        injection=None,
        completed=state.active,
        last_activity_ms=None,
        updated_ms=now_ms,
    )


def unwritten(state: State, result: Result, reason: str, attempts: int, now_ms: int) -> State:
    """Return the state in which the result of the active assignment is lost."""
    error = ResultError(
        of=state.of,
        request=result.request,
        message=f"the result could not be written: {_storable(reason)[:_MOST_REASON_CHARS]}",
        status=result.status,
        attempts=attempts,
        failed_ms=now_ms,
        next_action=_NEXT_ACTION,
    )
    return replace(state, active=None, last_activity_ms=None, result_error=error, updated_ms=now_ms)


def belongs(result: Result, state: State) -> bool:
    """Return whether a result is that of the active assignment, in every field."""
    return result.of == state.of and result.request == state.active


def why_not_ask(state: State, undelivered: Undelivered) -> str | None:
    """Return why an agent may not ask its owner now; None when it may."""
    if state.active is None:
        return "there is no assignment to ask about"
    if state.pending_ask is not None:
        return "the last question is not answered yet"
    if state.injection is not None:
        return "what the owner said last has not been read yet"
    if undelivered.others:
        return f"work of your agents has not reached you yet: {_listed(undelivered.others)}"
    return None


def _storable(text: str) -> str:
    """Return a text without halves of characters, which a model can send and no record can hold."""
    return text.encode("utf-8", "replace").decode()


def _listed(labels: Sequence[Label]) -> str:
    return ", ".join(sorted(labels))


def _failed(state: State, code: FailureCode, message: str, ended: Ended, now_ms: int) -> Result:
    assert state.active is not None
    failure = Failure(code, message)
    return Result(state.of, state.active, "failed", now_ms, error=failure, usage=ended.usage)
