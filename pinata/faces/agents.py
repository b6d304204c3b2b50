"""The command that shows which definitions of agents there are, and what each is for."""

import json
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from engine.core.quote import escape
from pinata import app
from pinata.faces.command import Command, here, show, width
from pinata.faces.text import WIDTH, notice_lines, visible
from pinata.work.observer import Silence

_BOTH = "for runs and managed agents"
_RUNS = "for runs only"
_MANAGED = "for managed agents only"
_NOTHING = "not available"
_ORDER = (_BOTH, _RUNS, _MANAGED, _NOTHING)
_ALL_TOOLS = "all that its process has"
_DEFAULTS = ("model", "thinking", "backend", "codemode")


async def _agents(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(
        environment, here(), Silence(), project_trust=True if given.trust_project else None
    )
    arguments = {} if given.name is None else {"name": given.name}
    answer = await app.call_tool(context, "pinata_agents", arguments)
    if given.name is None:
        show(given, answer, partial(roster_lines, width=width()))
    else:
        show(given, answer, partial(agent_lines, width=width()))
    return 0


def roster_lines(answer: Mapping[str, Any], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show all agents by what they are for: name, kind, source, description.

    Args:
        answer: of `pinata_agents` without a name.
        width: where prose is wrapped.
    """
    entries = answer["agents"]
    cells = [_cells(entry) for entry in entries]
    rooms = [max((len(row[at]) for row in cells), default=0) for at in range(3)]
    for purpose in _ORDER:
        rows = [pair for pair in zip(cells, entries, strict=True) if _purpose(pair[1]) == purpose]
        if rows:
            yield f"{purpose}:"
        for row, entry in rows:
            yield from _row(row, rooms, _told(entry), width)
    yield from notice_lines(answer, width)


def _cells(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return visible(entry["name"]), entry["kind"] or "-", entry["source"]


def _row(cells: Sequence[str], rooms: Sequence[int], told: str, width: int) -> list[str]:
    """Return a row of the table, its last cell wrapped, or below the others if there is no room."""
    head = "  " + "".join(f"{cell:<{room}}  " for cell, room in zip(cells, rooms, strict=True))
    if len(head) > width // 2:
        return [head.rstrip(), *textwrap.wrap(told, width, **_both(" " * 6))]
    return textwrap.wrap(told, width, initial_indent=head, subsequent_indent=" " * len(head))


def _both(indent: str) -> dict[str, Any]:
    return {"initial_indent": indent, "subsequent_indent": indent}


def _purpose(entry: Mapping[str, Any]) -> str:
    match entry["available"], entry["managed"]:
        case True, True:
            return _BOTH
        case True, False:
            return _RUNS
        case False, True:
            return _MANAGED
        case _:
            return _NOTHING


def _told(entry: Mapping[str, Any]) -> str:
    """Return what an agent is for, or why it cannot be used."""
    if entry["available"] or entry["managed"]:
        return visible(entry["description"])
    return visible(entry["reason"])


def agent_lines(answer: Mapping[str, Any], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show all about one agent.

    Args:
        answer: of `pinata_agents` with a name.
        width: where prose is wrapped.
    """
    yield f"{visible(answer['name'])} ({answer['kind'] or 'no kind'}, {answer['source']})"
    if answer["description"] is not None:
        yield from textwrap.wrap(visible(answer["description"]), width, **_both("  "))
    yield f"  {_purpose(answer)}"
    for reason in (
        answer.get("managedReason"),
        None if answer["managed"] else answer.get("reason"),
    ):
        if reason is not None:
            yield from textwrap.wrap(visible(reason), width, **_both("    "))
    if "persona" in answer:
        yield from _settings(answer)
    yield f"  file: {visible(answer['file'])}"
    if "persona" in answer:
        yield ""
        yield from escape(answer["persona"]).rstrip("\n").split("\n")
    yield from notice_lines(answer, width)


def _settings(answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"  works in: {answer['workspace']}"
    tools = answer["tools"]
    yield f"  tools: {_ALL_TOOLS if tools is None else visible(', '.join(tools)) or 'none'}"
    for key in _DEFAULTS:
        if (value := answer["defaults"][key]) is not None:
            yield f"  {key}: {_setting(value)}"
    if answer["delegatesTo"]:
        yield f"  delegates to: {visible(', '.join(answer['delegatesTo']))}"
    for key, value in answer["settings"].items():
        yield f"  {key}: {_setting(value)}"
    if answer["digest"] is not None:
        yield f"  digest: {answer['digest']}"


def _setting(value: object) -> str:
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


COMMANDS: Mapping[str, Command] = {"agents": _agents}
