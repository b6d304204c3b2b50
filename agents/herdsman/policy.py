"""Who may launch what, what it is then, and how definitions are shown to those who may.

The word `agent` among a definition's tools is a switch, and no tool: it says whether an agent that
lists `agents` gets the tools to delegate to them. No definition can take the herd's own tools away.
"""

from dataclasses import dataclass, replace
from typing import Any

from agents.herd_definition import HerdDefinition
from agents.herdsman.caller import Caller
from agents.herdsman.errors import HerdError, invalid
from agents.herdsman.loadout import DELEGATES, refuse_to_take
from agents.herdsman.tool_names import ASK_OWNER, HERD_TOOL_NAMES
from agents.roster import Roster, Unavailable
from engine.core.quote import name_list, quote_value

_OWN_TOOLS = frozenset({ASK_OWNER, *HERD_TOOL_NAMES})
# What an entry of the roster tells besides, each only where the definition states it.
_SHOWN = (
    "backend",
    "codemode",
    "tools",
    "exclude_tools",
    "no_tools",
    "no_builtin_tools",
    "skills",
    "no_skills",
    "inherit_skills",
    "extensions",
    "no_extensions",
)


@dataclass(frozen=True, slots=True)
class Effective:
    """A definition as it holds for one agent.

    Attributes:
        definition: without the switch and the herd's own tools among its tools; `agents` are what
            the agent may delegate to, None where it may not.
    """

    definition: HerdDefinition
    is_delegating: bool


def effective(definition: HerdDefinition, *, launched_by_lead: bool) -> Effective:
    """Return what a definition is for an agent that is launched now.

    An agent that another agent launches never delegates.

    Raises:
        HerdError: INVALID_REQUEST: it excludes a tool that no agent can be without.
    """
    delegates = launched_by_lead and _wants_to_delegate(definition)
    mandatory = (ASK_OWNER, *HERD_TOOL_NAMES) if delegates else (ASK_OWNER,)
    refuse_to_take(definition, mandatory)
    return Effective(
        replace(
            definition,
            tools=_own(definition.tools),
            exclude_tools=_own(definition.exclude_tools),
            agents=definition.agents if delegates else None,
        ),
        delegates,
    )


def authorised(roster: Roster, name: str, caller: Caller) -> Effective:
    """Return what the definition `name` is for an agent that `caller` launches now.

    Raises:
        HerdError: INVALID_REQUEST: it is not for this caller, or see `launchable`.
    """
    if caller.allowed is not None and name not in caller.allowed:
        usable = name_list(sorted(caller.allowed), last="or") or "none"
        raise invalid(
            f"the definition {quote_value(name)} is not one that this agent may use",
            next_action=f"use {usable}",
        )
    return launchable(roster, name, launched_by_lead=caller.is_lead)


def launchable(roster: Roster, name: str, *, launched_by_lead: bool) -> Effective:
    """Return what the definition `name` is for an agent that is launched now, by whomever.

    Raises:
        HerdError: INVALID_REQUEST: it is not there, has a fault, is disabled, or wants to delegate
            to one that is disabled.
    """
    shown = quote_value(name)
    definition = roster.herd.get(name)
    if definition is None:
        raise _not_usable(roster, name)
    if not definition.enabled:
        raise invalid(
            f"the definition {shown} is disabled",
            next_action=f"set enabled: true in {definition.file}, or use another definition",
        )
    found = effective(definition, launched_by_lead=launched_by_lead)
    for other in found.definition.agents or ():
        resting = roster.herd[other]
        if not resting.enabled:
            raise invalid(
                f"the definition {shown} delegates to {quote_value(other)}, which is disabled",
                next_action=f"set enabled: true in {resting.file}, or take {other} out of agents "
                f"in {definition.file}",
            )
    return found


def show_roster(roster: Roster, caller: Caller) -> list[dict[str, Any]]:
    """Return the definitions that `caller` is told of, sorted by name.

    A lead is told of all, also of those that cannot be used now, and why. An agent that may
    delegate is told of those that it can use, as they are when an agent launches them.
    """
    if not caller.is_lead:
        return [
            _shown(replace(each, agents=None))
            for name, each in roster.herd.items()
            if each.enabled and name in (caller.allowed or ())
        ]
    faulty = [_shown_faulty(each) for each in roster.unavailable if each.name not in roster.herd]
    shown = [*map(_shown, roster.herd.values()), *faulty]
    return sorted(shown, key=lambda entry: str(entry["name"]))


def _wants_to_delegate(definition: HerdDefinition) -> bool:
    tools = definition.tools
    if not definition.agents or DELEGATES in (definition.exclude_tools or ()) or tools == ():
        return False
    return not definition.no_tools or DELEGATES in (tools or ())


def _own(tools: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return a list of tools without those that are not the definition's to list."""
    if tools is None:
        return None
    return tuple(tool for tool in tools if tool != DELEGATES and tool not in _OWN_TOOLS)


def _not_usable(roster: Roster, name: str) -> HerdError:
    """Return that no agent can be started from what is called so, and what helps."""
    shown = quote_value(name)
    found = next((each for each in roster.unavailable if each.name == name), None)
    if found is not None:
        return invalid(
            f"the definition {shown} cannot be used: {found.reason}",
            next_action=f"correct {found.fault}",
        )
    usable = [other for other, each in roster.herd.items() if each.enabled]
    return invalid(
        f"the definition {shown} is not there",
        next_action=f"the definitions are {name_list(usable) or 'none'}",
    )


def _shown(definition: HerdDefinition) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": definition.name, "description": definition.description}
    if not definition.enabled:
        shown["enabled"] = False
    shown["sources"] = [source.value for source in definition.sources]
    if definition.model is not None:
        shown["model"] = "/".join(definition.model)
    if definition.thinking is not None:
        shown["thinking"] = definition.thinking.value
    for name in (*_SHOWN, "agents"):
        value = getattr(definition, name)
        if value is not None:
            shown[name] = _as_json(value)
    return shown


def _as_json(value: Any) -> Any:  # noqa: ANN401 - a setting, of whatever type
    return list(value) if isinstance(value, tuple) else getattr(value, "value", value)


def _shown_faulty(each: Unavailable) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": each.name}
    if each.description is not None:
        shown["description"] = each.description
    return shown | {"sources": [each.source.value], "unavailable": each.reason}
