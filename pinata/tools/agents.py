"""The tool that tells which definitions of agents there are, and what each can be used for."""

from pathlib import Path
from typing import Annotated, Any

import trio
from pydantic import Field
from pydantic.alias_generators import to_camel

from agents.definition import Definition, Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import HerdError
from agents.herdsman.policy import launchable
from agents.loadout import DEFAULT_TOOLS
from agents.roster import DISABLED, HERD_ONLY, Roster, Unavailable
from engine.core.errors import PinataError, UsageError
from engine.core.quote import name_list, quote_value
from engine.core.spec import Kind
from engine.records.fields import NotNull
from engine.records.request import Request
from pinata.tools.registry import Answer, Tool, by_name, with_notices
from pinata.work.context import Context
from pinata.work.definitions import read_roster
from pinata.work.trust import judge_project
from worktrees.discovery import discover

_WORKSPACES = {
    Kind.READER: "live checkout",
    Kind.WRITER: "own worktree",
    Kind.REVIEWER: "reviewed target",
}

_OWNERS_FOLDER = "its owner's folder"
# Settings that only some definitions state, and that nothing else of an answer tells.
_MORE = (
    "exclude_tools",
    "no_tools",
    "no_builtin_tools",
    "system_prompt_mode",
    "permission",
    "skills",
    "inherit_skills",
    "no_skills",
    "extensions",
    "no_extensions",
    "inherit_project_context",
    "inherit_global_context",
)


class AgentsRequest(Request):
    """Which definition to tell about."""

    name: Annotated[
        str | None, NotNull(), Field(description="a definition's name; all of them without it")
    ] = None


async def agents(context: Context, request: AgentsRequest) -> Answer:
    """Return the definitions that there are, or all about one; nothing is written."""
    notices: list[str] = []
    root: Path | None = None
    try:
        root = (await discover(context.cwd, context.environment)).root
    except PinataError as error:
        notices.append(f"no project's definitions: {error}")
    roster = await trio.to_thread.run_sync(_roster, context, root)
    if request.name is None:
        answer: Answer = {"agents": _listed(roster)}
        notices += roster.notices_on(roster.overlays)
    else:
        answer = _shown(roster, request.name)
        notices += roster.notices_on([request.name])
    return with_notices(answer, notices)


def _roster(context: Context, root: Path | None) -> Roster:
    agent_dir = context.agent_dir
    if root is None:
        return read_roster(agent_dir, None)
    return read_roster(agent_dir, judge_project(root, agent_dir, stated=context.project_trust))


def _listed(roster: Roster) -> list[Answer]:
    """Return an entry for each definition, by name."""
    return [_entry(roster, name) for name in _names(roster)]


def _names(roster: Roster) -> list[str]:
    faulty = (each.name for each in roster.unavailable)
    return sorted({*roster.definitions, *roster.herd, *faulty})


def _shown(roster: Roster, name: str) -> Answer:
    """Return all about one definition, as far as a fault of it lets that be told.

    Raises:
        UsageError: there is none of that name.
    """
    names = _names(roster)
    if name not in names:
        known = name_list(names, last="or")
        raise UsageError(f"name: {quote_value(name)} is not an installed definition; use {known}")
    entry = _entry(roster, name)
    stated = roster.herd.get(name)
    return entry if stated is None else entry | _whole(roster, stated)


def _entry(roster: Roster, name: str) -> Answer:
    """Return what a definition is, what it is for, and why not for the rest."""
    entry = _for_runs(roster, name)
    try:
        launchable(roster, name, launched_by_lead=True)
    except HerdError as error:
        why = {"managedReason": str(error)} if entry["available"] else {}
        return entry | {"managed": False} | why
    return entry | {"managed": True}


def _for_runs(roster: Roster, name: str) -> Answer:
    definition = roster.definitions.get(name)
    if definition is not None:
        return _usable(definition)
    for each in roster.unavailable:
        if each.name == name:
            return _unavailable(each, each.source, each.reason)
    stated = roster.herd[name]
    entry = _unavailable(stated, stated.sources[-1], HERD_ONLY if stated.enabled else DISABLED)
    return entry if stated.model is None else entry | {"model": _model(stated)}


def _usable(definition: Definition) -> Answer:
    entry: Answer = {
        "name": definition.name,
        "kind": definition.kind.value,
        "description": definition.description,
        "source": definition.source.value,
        "digest": definition.digest,
        "available": True,
    }
    model = _model(definition)
    return entry if model is None else entry | {"model": model}


def _unavailable(each: Unavailable | HerdDefinition, source: Source, reason: str) -> Answer:
    return {
        "name": each.name,
        "kind": each.kind and each.kind.value,
        "description": each.description,
        "source": source.value,
        "digest": None,
        "available": False,
        "reason": reason,
        "file": each.file,
    }


def _whole(roster: Roster, stated: HerdDefinition) -> Answer:
    """Return what is told of one definition beyond its entry."""
    try:
        holding = launchable(roster, stated.name, launched_by_lead=True).definition
    except HerdError:
        holding = stated
    in_runs, tools = roster.definitions.get(stated.name), holding.tools
    if stated.kind is not None:
        tools = DEFAULT_TOOLS[stated.kind] if in_runs is None else in_runs.tools
    defaults: dict[str, Any] = {
        "model": _model(stated),
        "thinking": stated.thinking and stated.thinking.value,
        "backend": stated.backend and stated.backend.value,
        "codemode": stated.codemode,
    }
    more = {to_camel(name): getattr(stated, name) for name in _MORE}
    if in_runs is not None and in_runs.require_sources:
        more["requireSources"] = True
    return {
        "file": stated.file,
        "enabled": stated.enabled,
        "tools": None if tools is None else list(tools),
        "workspace": _OWNERS_FOLDER if stated.kind is None else _WORKSPACES[stated.kind],
        "delegatesTo": list(holding.agents or ()),
        "defaults": defaults,
        "settings": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in more.items()
            if value is not None
        },
        "persona": stated.persona,
    }


def _model(definition: Definition | HerdDefinition) -> str | None:
    return None if definition.model is None else "/".join(definition.model)


_AGENTS = Tool(
    name="pinata_agents",
    description=(
        "List the definitions of agents with what each is for. Tasks can name in `agent` those "
        "that are `available`; managed agents can be started from those that are `managed`. With "
        "`name`, tell all about one: its tools, where it works, its defaults and its whole text; "
        "a default that is null is left to the configuration. Changes nothing."
    ),
    request=AgentsRequest,
    handler=agents,
    changes_state=False,
)
TOOLS = by_name(_AGENTS)
