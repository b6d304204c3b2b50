"""The commands that tell and change nothing."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial

import trio

from agents.transcript import whole
from pinata import app
from pinata.faces import output, text
from pinata.faces.command import (
    Command,
    as_json,
    as_text,
    here,
    show,
    show_json,
    show_lines,
    width,
)
from pinata.faces.logs import show_log
from pinata.work.context import Context
from pinata.work.lookup import look_up_conversation, outline_runs
from pinata.work.observer import Silence


async def _status(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    output.write(await status_text(context, given, width()))
    return 0


async def status_text(context: Context, given: Namespace, columns: int) -> str:
    """Return what `pinata status` prints.

    Args:
        context: the caller's.
        given: the arguments of the command.
        columns: where prose is wrapped.

    Raises:
        PinataError: there is no such run or task, or it is damaged.
    """
    arguments = {
        name: value
        for name in ("run", "task", "offset", "limit", "detail")
        if (value := getattr(given, name)) is not None
    }
    answer = await app.call_tool(context, "pinata_status", arguments)
    if given.task is None:
        return as_text(given, answer, partial(text.run_lines, width=columns))
    if given.detail in (None, "summary"):
        return as_text(given, answer, partial(text.task_lines, width=columns))
    if given.detail == "transcript":
        return as_text(given, answer, text.transcript_lines)
    return as_json(answer)


async def _runs(given: Namespace, environment: Mapping[str, str]) -> int:
    answer = await outline_runs(app.build_context(environment, here(), Silence()))
    show(given, answer, text.outline_lines)
    return 0


async def _transcript(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    said = await look_up_conversation(context, given.run, given.task, given.attempt)
    if given.json:
        show_json([{"role": message.role, "text": message.text} for message in said])
    else:
        output.write(whole(said))
    return 0


async def _logs(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    await show_log(context, given, output.write)
    return 0


async def _tools(given: Namespace, environment: Mapping[str, str]) -> int:  # noqa: ARG001 - one shape for all commands
    described = await trio.to_thread.run_sync(app.describe_all_tools)
    if given.json:
        show_json(described)
    else:
        show_lines(text.tool_lines(described, width()))
    return 0


COMMANDS: Mapping[str, Command] = {
    "status": _status,
    "runs": _runs,
    "transcript": _transcript,
    "logs": _logs,
    "tools": _tools,
}
