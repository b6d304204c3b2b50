"""Managed agents as `agent_list` shows them to a session, from one look.

A field without evidence is left out.
"""

from collections.abc import Mapping
from typing import Any, Final

from agents.herdsman.activity import inactive_ms
from agents.herdsman.caller import Caller
from agents.herdsman.findings import DIAGNOSTIC_LIMIT_CHARS
from agents.herdsman.identity import GenerationId
from agents.herdsman.look import Look
from agents.herdsman.ownership import Visible
from agents.herdsman.projection import AgentState
from agents.herdsman.record import Contents, ResultError, UnclearPending
from engine.core.quote import one_line

# As many unreadable mailboxes are told of at most, those that were touched last.
MOST_UNREADABLE: Final = 64


def agent_records(
    look: Look, caller: Caller, left_over: Mapping[GenerationId, str]
) -> list[dict[str, Any]]:
    """Return a record for each agent that a caller sees, its own first, by label.

    A lead is told of each mailbox that cannot be read as well; nothing is made up about those.

    Args:
        look: what is shown.
        caller: who looks.
        left_over: why generations that are over, or were closed, are still here.
    """
    records = [
        _record(look, caller, visible, left_over.get(visible.contents.state.of.generation))
        for visible in look.view(caller)
    ]
    if caller.is_lead:
        records += (
            {
                "state": AgentState.UNKNOWN.value,
                "available_tools": [],
                "diagnostic": one.diagnostic,
            }
            for one in look.scan.unreadable[:MOST_UNREADABLE]
        )
    return records


def _record(
    look: Look, caller: Caller, visible: Visible, cleanup_error: str | None
) -> dict[str, Any]:
    contents = visible.contents
    state = contents.state
    evidence = look.evidence(contents)
    agent = evidence.observed.agent
    idle_ms = inactive_ms(evidence, look.now_ms)
    record: dict[str, Any] = {
        "agent": state.of.label,
        "state": evidence.state.value,
        "available_tools": list(look.tools(caller, visible)),
        "workspace_id": state.of.workspace,
        "pane_id": state.handle,
        "cwd": state.cwd,
        "pi_session_id": state.session if agent is None else agent.session,
        "pi_session_path": state.session_file if agent is None else agent.session_file,
        "owner_session_id": state.of.owner,
        "agent_definition": state.definition,
    }
    more: dict[str, Any] = {
        "active_request_id": state.active,
        "last_activity_at": state.last_activity_ms,
        "stale": True if idle_ms is not None else None,
        "inactive_ms": idle_ms,
        "parent_label": visible.parent_label,
        "cleanup_error": cleanup_error,
        "result_error": None if state.result_error is None else error_fields(state.result_error),
        "diagnostic": _diagnostic(contents),
    }
    return record | {name: value for name, value in more.items() if value is not None}


def _diagnostic(contents: Contents) -> str | None:
    """Return what could not be read in a mailbox whose state could, on a line."""
    pending = contents.pending
    why = pending.why if isinstance(pending, UnclearPending) else contents.ask_fault
    return None if why is None else one_line(why, DIAGNOSTIC_LIMIT_CHARS)


def error_fields(error: ResultError) -> dict[str, Any]:
    """Return a result that was lost, as it is shown; times are milliseconds since 1970."""
    return {
        "code": error.code,
        "message": error.message,
        "request_id": error.request,
        "status": error.status,
        "attempts": error.attempts,
        "failed_at": error.failed_ms,
        "retry_safe": error.retry_safe,
        "cleanup_safe": error.cleanup_safe,
        "next_action": error.next_action,
    }
