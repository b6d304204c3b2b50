"""What an owner can look at: all its agents, what one shows now, what one has said.

Nothing of an agent changes by it, and nothing is told of one that took another's place meanwhile.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from agents.herdsman.controller import Controller
from agents.herdsman.conversation_text import ConversationText, conversation_text
from agents.herdsman.errors import ambiguous, not_found
from agents.herdsman.excerpt import first_bytes, last_bytes
from agents.herdsman.identity import Identity
from agents.herdsman.listing import agent_records
from agents.herdsman.mailbox import check_same
from agents.herdsman.policy import show_roster
from agents.herdsman.preflight import check_inspect, check_transcript
from agents.herdsman.projection import Evidence
from agents.herdsman.record import State
from agents.herdsman.runtime import ForegroundProcess
from engine.core.errors import CorruptionError, PinataError, reason_of
from engine.system.files import read_regular

RECENT_LINES: Final = 80
RECENT_OUTPUT_LIMIT_BYTES: Final = 16 << 10
_MOST_PROCESSES: Final = 8
_NAME_LIMIT_BYTES: Final = 256
_COMMAND_LIMIT_BYTES: Final = 4 << 10
# No conversation comes near it, and a host that reads one of them at a time can hold it.
_SESSION_FILE_LIMIT_BYTES: Final = 512 << 20


async def list_agents(controller: Controller) -> dict[str, Any]:
    """Return the caller's agents, and the definitions that it can use.

    Definitions that cannot be read hide no agent.

    Raises:
        HerdError: it cannot be told which agents there are (INTERNAL_FAILURE).
    """
    caller = controller.caller
    seen = await controller.look()
    records = agent_records(seen, caller, controller.endings.left_over)
    answer: dict[str, Any] = {"agents": records, "agent_definitions": []}
    try:
        answer["agent_definitions"] = show_roster(await controller.roster(), caller)
    except PinataError as error:
        answer["definition_error"] = str(error)
    return answer


async def inspect(controller: Controller, *, agent: str) -> dict[str, Any]:
    """Return the last lines that an agent's terminal would show, and the programs that it runs.

    Raises:
        HerdError: it is not there, or that cannot be told, or it changed meanwhile.
    """
    found = (await controller.look()).find(controller.caller, agent)
    check_inspect(found)
    identity = found.contents.state.identity
    lines = await controller.runtime.capture(identity)
    captured_ms = controller.premises.clock.now_ms()
    processes = await _processes(controller, identity)
    again = await _again(controller, agent, identity)
    check_inspect(again)
    output, was_longer = last_bytes("\n".join(lines[-RECENT_LINES:]), RECENT_OUTPUT_LIMIT_BYTES)
    answer = {
        "agent": agent,
        "session_id": identity.session,
        "pane_id": identity.of.handle,
        "captured_at": captured_ms,
        "recent_output": output,
        "recent_output_truncated": was_longer,
    }
    return answer if processes is None else {**answer, "process": processes}


def inspection_text(answer: Mapping[str, Any]) -> str:
    """Return what `inspect` found as a model reads it."""
    output = answer["recent_output"]
    was_cut = ", without what came before" if answer["recent_output_truncated"] else ""
    commands = (each["command"] for each in answer.get("process", {}).get("foreground", ()))
    return "\n".join(
        (
            f"Agent: {answer['agent']}",
            f"Session: {answer['session_id']}",
            f"Pane: {answer['pane_id']}",
            *(f"Runs: {command}" for command in commands),
            f"Recent output{was_cut}:" if output.strip() else "Recent output: none",
            *([output] if output.strip() else []),
        )
    )


async def transcript(controller: Controller, *, agent: str) -> dict[str, Any]:
    """Return the end of what an agent has been told, has said and has done.

    Raises:
        HerdError: nothing is saved yet (AGENT_BUSY), the file is not its session's
            (TARGET_NOT_FOUND), or it is not there, or changed meanwhile (TARGET_AMBIGUOUS).
    """
    seen = await controller.look()
    found = seen.find(controller.caller, agent)
    state = found.contents.state
    check_transcript(found, transcript_ready=seen.is_saved(state))
    told = await trio.to_thread.run_sync(_read_conversation, state)
    again = (await controller.look()).find(controller.caller, agent)
    if again.contents.state.identity != state.identity or again.is_unknown:
        raise ambiguous(f"agent {agent!r} is not the one it was, or that cannot be told any more")
    return {
        "agent": agent,
        "session_id": state.session,
        "transcript": told.text,
        "transcript_truncated": told.was_cut,
    }


async def _again(controller: Controller, agent: str, identity: Identity) -> Evidence:
    """Return what is known of an agent now, which must be the one it was.

    Raises:
        HerdError: it is not (TARGET_NOT_FOUND).
    """
    again = (await controller.look()).find(controller.caller, agent)
    check_same(identity, again.contents)
    return again


async def _processes(controller: Controller, identity: Identity) -> dict[str, Any] | None:
    """Return the programs that an agent runs; None where nobody can tell, which proves nothing."""
    try:
        found = await controller.runtime.processes(identity)
    except PinataError:
        return None
    return {"foreground": _shown(found)}


def _shown(processes: Sequence[ForegroundProcess]) -> list[dict[str, Any]]:
    return [
        {
            "pid": process.pid,
            "name": first_bytes(process.name, _NAME_LIMIT_BYTES),
            "command": first_bytes(process.command, _COMMAND_LIMIT_BYTES),
        }
        for process in processes[:_MOST_PROCESSES]
    ]


def _read_conversation(state: State) -> ConversationText:
    """Return a saved conversation as text; blocks.

    Raises:
        HerdError: TARGET_NOT_FOUND.
    """
    path = Path(state.session_file)
    try:
        data = read_regular(path, _SESSION_FILE_LIMIT_BYTES)
        return conversation_text(data, state.session)
    except CorruptionError as error:
        raise not_found(
            f"the session of agent {state.of.label!r} cannot be read: {error}"
        ) from error
    except OSError as error:
        reason = f"{path}: {reason_of(error)}"
        raise not_found(
            f"the session of agent {state.of.label!r} cannot be read: {reason}"
        ) from error
