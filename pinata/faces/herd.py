"""The commands by which a person looks at managed agents and speaks for those that own them."""

import re
from argparse import Namespace
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from agents.herdsman.errors import HerdError
from engine.core.errors import ConflictError, ExternalError, PinataError, UsageError
from engine.records.json_text import decode_json
from pinata import app, visit
from pinata.faces.command import Command, here, show
from pinata.faces.herd_lines import ACTIONS, aside_lines, list_lines, settings_lines
from pinata.tools.registry import Answer
from pinata.work.observer import Silence


def refusal(error: Mapping[str, Any]) -> PinataError:
    """Return why an owner of agents did not do what it was asked for, as the tool tells it."""
    remedy = f"; {error['nextAction']}" if error.get("nextAction") else ""
    message = for_person(f"{error['message']}{remedy}")
    match error["category"]:
        case "invalid_request":
            return UsageError(message)
        case "internal_failure":
            return ExternalError(message)
        case _:
            return ConflictError(message)


def for_person(told: str) -> str:
    """Return what an owner of agents is told, with commands where it names tools.

    A tool that has no command keeps its name, as does whatever stands in quotes: a label may be
    spelt like a tool.
    """
    return _TOOL.sub(_command, told)


def _command(tool: re.Match[str]) -> str:
    action = tool["action"]
    if action != "list" and action not in ACTIONS:
        return tool[0]
    return f"{'use ' if tool['call'] else ''}`pinata herd {action}`"


async def _herd(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    if given.action == "list":
        show(given, await visit.list_herds(context), list_lines)
        return 0
    if given.action == "config":
        changes = _changes(given.key, given.value)
        show(given, await _told(visit.configure_herd(context, changes)), settings_lines)
        return 0
    if given.action == "set-aside":
        show(given, await _told(visit.set_mailbox_aside(context, given.folder)), aside_lines)
        return 0
    arguments: dict[str, Any] = {}
    if given.action in ("steer", "reply"):
        files = [str(here() / each) for each in given.file or ()]
        arguments = {"message": given.message, "files": files}
    tool = f"agent_{given.action}"
    answer = await visit.call_owner(
        context, given.agent, tool, arguments, workspace=given.workspace
    )
    if not answer["ok"]:
        raise refusal(answer["error"])
    show(given, answer, ACTIONS[given.action])
    return 0


async def _told(answer: Awaitable[Answer]) -> Answer:
    """Return an answer; a refusal names commands where the herd's own names tools."""
    try:
        return await answer
    except HerdError as error:
        raise refusal(error.trouble.as_fields()) from error


def _changes(key: str | None, value: str | None) -> Mapping[str, object]:
    """Return what is to be changed among the settings for managed agents."""
    if key is None:
        return {}
    if value is None:
        raise UsageError(f"{key} is given no value: add one, or leave it out to see all settings")
    return {key: _value(value)}


def _value(text: str) -> object:
    """Return what is meant by a word: what it is as JSON, or else the word; None for `default`."""
    if text == _DEFAULT:
        return None
    try:
        return decode_json(text.encode(errors="surrogateescape"), "the value")
    except UsageError:
        return text


_TOOL: Final = re.compile(r"(?P<call>\bcall )?(?<!['\"\w])agent_(?P<action>[a-z]+)(?![\w'\"])")
_DEFAULT: Final = "default"
COMMANDS: Mapping[str, Command] = {"herd": _herd}
