"""Records of managed agents and what a look at them shows, built from the little that matters."""

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from agents.herdsman.caller import Caller
from agents.herdsman.identity import (
    AskId,
    Correlation,
    GenerationId,
    Handle,
    Label,
    RequestId,
    SessionId,
)
from agents.herdsman.presence import Observed, Presence
from agents.herdsman.record import (
    Ask,
    Contents,
    OnePending,
    ProcessStamp,
    Proof,
    Request,
    RequestKind,
    ResultError,
    State,
)
from agents.herdsman.runtime import Inventory, Lifecycle, LiveAgent, Slot

WORKSPACE = "/tree"
NOW_MS = 1_700_000_000_000
PROOF = Proof("in-process", ProcessStamp(4711, 99, "b6b1d5a2"))


def uid(name: str) -> str:
    """Return the UUID that stands for a name, the same each time."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def session(name: str) -> SessionId:
    return SessionId(uid(f"session {name}"))


def request(name: str) -> RequestId:
    return RequestId(uid(f"request {name}"))


def ask_id(name: str) -> AskId:
    return AskId(uid(f"ask {name}"))


LEAD = session("lead")
TASK = request("task")


def state_of(
    label: str, *, owner: SessionId = LEAD, workspace: str = WORKSPACE, **more: Any
) -> State:
    """Return the state of a generation that has been assigned nothing yet.

    Its own session is `session(label)`, unless `more` says otherwise.
    """
    of = Correlation(
        GenerationId(uid(f"generation {label}")),
        owner,
        workspace,
        Label(label),
        Handle(f"place-{label}"),
    )
    fields: dict[str, Any] = {
        "of": of,
        "session": session(label),
        "session_file": f"/sessions/{label}.jsonl",
        "cwd": workspace,
        "definition": "implementer",
        "proof": PROOF,
        "updated_ms": NOW_MS,
    }
    return State(**fields | more)


def mailbox(label: str, *, owner: SessionId = LEAD, **more: Any) -> Contents:
    """Return what a look finds in a generation's mailbox; `more` is of its state or beside it."""
    beside = {
        name: more.pop(name)
        for name in ("ask", "ask_fault", "pending", "results", "is_starting")
        if name in more
    }
    return Contents(state_of(label, owner=owner, **more), **beside)


def result_error(state: State, request_id: RequestId = TASK, failed_ms: int = NOW_MS) -> State:
    """Return the state after the result of a request could not be written."""
    error = ResultError(
        state.of,
        request_id,
        "no space left on device",
        "completed",
        8,
        failed_ms,
        "close the agent and delegate anew",
    )
    return replace(state, active=None, completed=None, result_error=error)


def waiting(
    state: State, name: str = "steer", kind: RequestKind = RequestKind.STEER, at_ms: int = NOW_MS
) -> OnePending:
    """Return a request that the agent has not answered."""
    return OnePending(Request(state.of, request(name), kind, "go on", at_ms))


def asking(contents: Contents, name: str = "which") -> Contents:
    """Return the mailbox of the same agent while it waits with a question."""
    state = replace(contents.state, pending_ask=ask_id(name))
    assert state.active is not None
    question = Ask(state.of, ask_id(name), state.active, state.session, "Which one?", NOW_MS)
    return replace(contents, state=state, ask=question)


def agent_of(state: State, lifecycle: Lifecycle = Lifecycle.WORKING, **more: Any) -> LiveAgent:
    """Return the agent as a backend sees it."""
    fields: dict[str, Any] = {
        "workspace": state.of.workspace,
        "handle": state.handle,
        "session": state.session,
        "session_file": state.session_file,
        "lifecycle": lifecycle,
        "cwd": state.cwd,
    }
    return LiveAgent(**fields | more)


def inventory_of(
    contents: Iterable[Contents], lifecycle: Lifecycle = Lifecycle.WORKING
) -> Inventory:
    """Return the inventory of a moment when all of them are there."""
    states = [one.state for one in contents]
    return Inventory(
        tuple(agent_of(state, lifecycle) for state in states),
        tuple(Slot(state.handle, state.session) for state in states),
    )


def live(contents: Contents, lifecycle: Lifecycle = Lifecycle.WORKING) -> Observed:
    """Return what is seen of an agent that is there."""
    return Observed(Presence.LIVE, agent_of(contents.state, lifecycle))


LOST = Observed(Presence.LOST)
UNKNOWN = Observed(Presence.UNKNOWN)


def caller_of(
    owner: SessionId = LEAD,
    *,
    kind: Literal["lead", "agent"] = "lead",
    workspace: str = WORKSPACE,
) -> Caller:
    """Return who calls."""
    return Caller(owner, workspace, workspace, kind == "lead")
