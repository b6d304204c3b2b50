"""The tool that tells which agents tasks can name; quick to load, since people wait for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import trio
from pydantic import Field

from agents.definition import Definition, Source
from agents.roster import Roster, Unavailable
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

_NO_KIND = "for managed agents only; runs need a kind: add reader, writer or reviewer"


class AgentsRequest(Request):
    """Which definition to tell about."""

    name: Annotated[
        str | None, NotNull(), Field(description="a definition's name; all of them without it")
    ] = None


async def agents(context: Context, request: AgentsRequest) -> Answer:
    """Return the definitions that tasks can name, or all about one; nothing is written."""
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
    """Return an entry for each definition that is meant for runs, or may be, by name."""
    entries = [_entry(definition) for definition in roster.definitions.values()]
    entries += [_unavailable(each) for each in _out_of_use(roster)]
    return sorted(entries, key=lambda entry: str(entry["name"]))


def _out_of_use(roster: Roster) -> Iterator[Unavailable]:
    """Yield what runs cannot use although it may be meant for them.

    A kind is easily forgotten, so everybody's own definitions without one are among it; that those
    that come with pinata have none is no mistake.
    """
    yield from (each for each in roster.unavailable if not each.herd_only)
    for name, each in roster.herd.items():
        if each.kind is None and each.sources[-1] is not Source.PRESET:
            description = each.description
            yield Unavailable(name, each.sources[-1], _NO_KIND, each.file, description=description)


def _shown(roster: Roster, name: str) -> Answer:
    """Return all about one definition, or why it cannot be used.

    Raises:
        UsageError: there is none of that name that runs could ever use.
    """
    definition = roster.definitions.get(name)
    if definition is not None:
        return _whole(definition)
    for each in _out_of_use(roster):
        if each.name == name:
            return _unavailable(each)
    fault = roster.reasons.get(name, "is not an installed definition")
    names = name_list(sorted(roster.definitions), last="or")
    raise UsageError(f"name: {quote_value(name)} {fault}; use {names}")


def _entry(definition: Definition) -> Answer:
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


def _unavailable(each: Unavailable) -> Answer:
    return {
        "name": each.name,
        "kind": each.kind and each.kind.value,
        "description": each.description,
        "source": each.source.value,
        "digest": None,
        "available": False,
        "reason": each.reason,
    }


def _whole(definition: Definition) -> Answer:
    defaults: dict[str, Any] = {
        "model": _model(definition),
        "thinking": definition.thinking and definition.thinking.value,
        "backend": definition.backend and definition.backend.value,
        "codemode": definition.codemode,
    }
    return _entry(definition) | {
        "tools": list(definition.tools),
        "workspace": _WORKSPACES[definition.kind],
        "defaults": defaults,
        "persona": definition.persona,
    }


def _model(definition: Definition) -> str | None:
    return None if definition.model is None else "/".join(definition.model)


_AGENTS = Tool(
    name="pinata_agents",
    description=(
        "List the agents that tasks can name in `agent`, with what each is for. With `name`, tell "
        "all about one: its tools, where it works, its defaults and its whole text; a default that "
        "is null is left to the configuration. Changes nothing."
    ),
    request=AgentsRequest,
    handler=agents,
    changes_state=False,
)
TOOLS = by_name(_AGENTS)
