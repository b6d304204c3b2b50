"""What a Pi session shows of its managed agents: how many there are, and a row for each. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.herdsman.tool_names import REPLY
from pinata.faces.text import visible

MOST_ROWS: Final = 8
_GLYPHS: Final = {
    "working": "●",
    "blocked": "◐",
    "settling": "◌",
    "starting": "◌",
    "unknown": "?",
    "lost": "\N{MULTIPLICATION SIGN}",
}
_NEEDS_YOU: Final = "!"
_NAME_CHARS = 40

Agent = Mapping[str, Any]


def herd_status(agents: Sequence[Agent]) -> str | None:
    """Return how many agents there are in each state; None without any.

    Args:
        agents: the records of `agent_list`.
    """
    if not agents:
        return None
    states = [str(agent["state"]) for agent in agents]
    counts = [f"{states.count(state)} {state}" for state in _GLYPHS if state in states]
    return f"agents: {', '.join(counts)}"


def herd_lines(agents: Sequence[Agent]) -> tuple[str, ...]:
    """Return a row for each agent, by label, those of an agent below it.

    Args:
        agents: as for `herd_status`.
    """
    rows = [*_tree(agents, None, ""), *(_unreadable(one) for one in agents if "agent" not in one)]
    if len(rows) > MOST_ROWS:
        rows[MOST_ROWS - 1 :] = [f"  and {len(rows) - MOST_ROWS + 1} more"]
    return tuple(rows)


def _tree(agents: Sequence[Agent], parent: Agent | None, indent: str) -> list[str]:
    rows = []
    for agent in sorted(_below(agents, parent), key=lambda one: str(one["agent"])):
        rows.append(indent + _row(agent))
        rows += _tree(agents, agent, f"{indent}  ")
    return rows


def _below(agents: Sequence[Agent], parent: Agent | None) -> list[Agent]:
    named = [one for one in agents if "agent" in one]
    if parent is None:
        return [one for one in named if "parent_label" not in one]
    # A label means somebody only together with the workspace.
    meant = parent["agent"], parent.get("workspace_id")
    return [one for one in named if (one.get("parent_label"), one.get("workspace_id")) == meant]


def asks(agent: Agent) -> bool:
    """Return whether an agent waits for an answer of its owner."""
    return REPLY in agent["available_tools"]


def mark_of(agent: Agent) -> str:
    """Return what is in front of an agent: whether it needs its owner."""
    return _NEEDS_YOU if asks(agent) or "result_error" in agent else " "


def _row(agent: Agent) -> str:
    name = visible(str(agent["agent"]))[:_NAME_CHARS]
    definition = visible(str(agent["agent_definition"]))[:_NAME_CHARS]
    stale = ", stale" if agent.get("stale") else ""
    return f"{mark_of(agent)}{_GLYPHS[agent['state']]} {name} {definition} {agent['state']}{stale}"


def _unreadable(agent: Agent) -> str:
    return f" {_GLYPHS['unknown']} {visible(str(agent['diagnostic']))}"
