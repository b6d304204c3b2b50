"""The command that shows which agents tasks can name."""

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
    """Yield the lines that show all agents: name, kind, source and what each is for.

    Args:
        answer: of `pinata_agents` without a name.
        width: where prose is wrapped.
    """
    rows = [
        (visible(entry["name"]), entry["kind"] or "?", entry["source"], _purpose(entry))
        for entry in answer["agents"]
    ]
    rooms = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    for *cells, purpose in rows:
        yield from _row(cells, rooms, purpose, width)
    yield from notice_lines(answer, width)


def _row(cells: Sequence[str], rooms: Sequence[int], purpose: str, width: int) -> list[str]:
    """Return a row of the table, its last cell wrapped, or below the others if there is no room."""
    head = "".join(f"{cell:<{room}}  " for cell, room in zip(cells, rooms, strict=True))
    if len(head) > width // 2:
        indent = " " * 4
        return [head.rstrip(), *textwrap.wrap(purpose, width, **_both(indent))]
    indent = " " * len(head)
    return textwrap.wrap(purpose, width, initial_indent=head, subsequent_indent=indent)


def _both(indent: str) -> dict[str, Any]:
    return {"initial_indent": indent, "subsequent_indent": indent}


def _purpose(entry: Mapping[str, Any]) -> str:
    if entry["available"]:
        return visible(entry["description"])
    return f"not available: {visible(entry['reason'])}"


def agent_lines(answer: Mapping[str, Any], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show all about one agent.

    Args:
        answer: of `pinata_agents` with a name.
        width: where prose is wrapped.
    """
    yield f"{visible(answer['name'])} ({answer['kind'] or 'kind unknown'}, {answer['source']})"
    yield from textwrap.wrap(_purpose(answer), width, **_both("  "))
    if answer["available"]:
        yield f"  works in: {answer['workspace']}"
        yield f"  tools: {', '.join(answer['tools'])}"
        for key in _DEFAULTS:
            if (value := answer["defaults"][key]) is not None:
                yield f"  {key}: {visible(str(value).lower() if value in (True, False) else value)}"
        yield f"  digest: {answer['digest']}"
        yield ""
        yield from escape(answer["persona"]).rstrip("\n").split("\n")
    yield from notice_lines(answer, width)


COMMANDS: Mapping[str, Command] = {"agents": _agents}
