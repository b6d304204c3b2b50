"""What a person at a terminal reads of managed agents, line by line. Pure."""

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pinata.faces.herd_board import asks, mark_of
from pinata.faces.text import visible

Answer = Mapping[str, Any]


def list_lines(answer: Answer) -> Iterable[str]:
    """Yield the lines that show the agents of all sessions.

    Args:
        answer: the `workspace` that the person stands in, the `sessions` with agents there, and the
            mailboxes that are `unreadable`.
    """
    sessions = answer["sessions"]
    if not any(_agents(one) or "error" in one for one in sessions):
        yield f"no agents work in {visible(answer['workspace'])}"
    for one in sessions:
        yield f"session {visible(one['session'])}"
        if "error" in one:
            yield f"  {visible(one['error'])}"
        for agent in _agents(one):
            yield visible(_agent(agent, answer["workspace"]))
    for one in answer["unreadable"]:
        yield visible(f"? {one['diagnostic']}")
        yield (
            "  it may keep agents from being closed; if it cannot be mended: "
            f"`pinata herd set-aside {one['folder']}`"
        )


def aside_lines(answer: Answer) -> Iterable[str]:
    """Yield where a mailbox is that was set aside."""
    yield visible(f"the mailbox {answer['folder']} is set aside, as it was: {answer['moved_to']}")


def _agents(session: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the agents that a session is told of; mailboxes without one are shown once for all."""
    return [one for one in session["agents"] if "agent" in one]


def _agent(agent: Mapping[str, Any], here: str) -> str:
    below = f" (of {agent['parent_label']})" if "parent_label" in agent else ""
    where = "" if agent["workspace_id"] == here else f"; started in {agent['workspace_id']}"
    tools = [name.removeprefix("agent_") for name in agent["available_tools"]]
    actions = [name for name in tools if name in ACTIONS]
    can = f"; can be told to {', '.join(actions)}" if actions else ""
    state = "asks" if asks(agent) else agent["state"]
    what = f"{agent['agent_definition']}, {state}{can}{where}"
    return f"{mark_of(agent)} {agent['agent']}{below}: {what}"


def settings_lines(answer: Answer) -> Iterable[str]:
    """Yield a line for each of the `settings`."""
    for key, value in answer["settings"].items():
        yield f"{key}: {value if isinstance(value, str) else json.dumps(value)}"


def _inspected(answer: Answer) -> Iterable[str]:
    programs = [one["command"] for one in answer.get("process", {}).get("foreground", ())]
    if programs:
        yield visible(f"programs: {', '.join(programs)}")
    for line in answer["recent_output"].splitlines():
        yield visible(line)


def _read(answer: Answer) -> Iterable[str]:
    if answer["transcript_truncated"]:
        yield "(shortened)"
    for line in answer["transcript"].splitlines():
        yield visible(line)


def _told(answer: Answer) -> Iterable[str]:
    yield f"{answer['agent']} has taken it"


def _closed(answer: Answer) -> Iterable[str]:
    yield f"{answer['agent']} is closed"
    if "cleanup_error" in answer:
        yield visible(f"its records are left for now: {answer['cleanup_error']}")
    for agent, reference in answer.get("kept_results", {}).items():
        yield visible(f"the result of {agent} is kept as {reference}")


# What a person can have done to an agent, each with the lines that show the answer.
ACTIONS: Final[Mapping[str, Callable[[Answer], Iterable[str]]]] = MappingProxyType(
    {
        "inspect": _inspected,
        "transcript": _read,
        "steer": _told,
        "reply": _told,
        "close": _closed,
    }
)
