"""Reads the arguments of a tool call, which a model writes as JSON text, piece by piece."""

import json
from typing import NoReturn

from agents.models.port import ToolCall

# As many as any budget allows; one more than that is enough to trip it.
MAX_CALLS = 10_000
# Of all calls of an answer together.
MAX_ARGUMENTS_CHARS = 8_000_000
LONG_ARGUMENTS = (
    f"the arguments are longer than {MAX_ARGUMENTS_CHARS:,} characters; send less at once"
)
CUT_ARGUMENTS = (
    "the answer reached its length limit inside this call, so it was not carried out; do less in"
    " one call"
)
_REMEDY = "call the tool again with all its arguments as one JSON object"


def read_call(call: str, name: str, text: str) -> ToolCall:
    """Return the call with the id `call` and the arguments that `text` holds.

    Blank text means no arguments. What cannot be understood becomes the call's fault, which the
    model is told.
    """
    if not text.strip():
        return ToolCall(call, name, {})
    try:
        arguments = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return ToolCall(call, name, {}, f"the arguments are not JSON: {_said(error)}; {_REMEDY}")
    if not isinstance(arguments, dict):
        return ToolCall(call, name, {}, f"the arguments are not a JSON object; {_REMEDY}")
    return ToolCall(call, name, arguments)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON knows")


def _said(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} at character {error.pos + 1}"
    if isinstance(error, RecursionError):
        return "arrays and objects are nested too deeply"
    return str(error)
