"""The command line: arguments in, lines and an exit code out."""

import importlib
import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial

import trio

from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    PinataError,
    UsageError,
)
from engine.core.quote import escape_json
from pinata.faces import output, text
from pinata.faces.arguments import parse
from pinata.faces.command import CANCELLED, Command

_EXIT_CODES: Sequence[tuple[type[PinataError], int]] = (
    (UsageError, 2),
    (ConflictError, 4),
    (CorruptionError, 5),
    (ExternalError, 1),
)
# Only the module of the command that is asked for is loaded.
_MODULES: Mapping[str, str] = {
    "run": "pinata.faces.running",
    "resume": "pinata.faces.running",
    "rerun": "pinata.faces.running",
    "repair": "pinata.faces.running",
    "steer": "pinata.faces.control",
    "cancel": "pinata.faces.control",
    "agents": "pinata.faces.agents",
    "status": "pinata.faces.reading",
    "transcript": "pinata.faces.reading",
    "logs": "pinata.faces.reading",
    "view": "pinata.faces.view",
    "tools": "pinata.faces.reading",
    "runs": "pinata.faces.reading",
    "changes": "pinata.faces.applying",
    "verify": "pinata.faces.applying",
    "integrate": "pinata.faces.applying",
    "rollback": "pinata.faces.applying",
    "gc": "pinata.faces.gc",
    "herd": "pinata.faces.herd",
    "doctor": "pinata.faces.doctor",
    "install": "pinata.faces.install",
    "uninstall": "pinata.faces.install",
    "mcp": "pinata.faces.mcp",
    "pi": "pinata.faces.pi",
    "host": "pinata.faces.host",
}


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Carry out a command and return its exit code."""
    try:
        return trio.run(partial(_carry_out, parse(arguments), environment))
    except PinataError as error:
        return _refuse(error, as_json="--json" in arguments)
    except KeyboardInterrupt:
        return CANCELLED


def exit_code(error: PinataError) -> int:
    """Return the exit code that stands for `error`."""
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


def _refuse(error: PinataError, *, as_json: bool) -> int:
    """Say why nothing came of a command, on stderr: stdout carries nothing but what was asked."""
    if as_json:
        output.note(escape_json(json.dumps({"error": str(error)})))
    else:
        output.note(f"pinata: {text.visible(str(error))}")
    return exit_code(error)


async def _carry_out(given: Namespace, environment: Mapping[str, str]) -> int:
    module = await trio.to_thread.run_sync(importlib.import_module, _MODULES[given.command])
    command: Command = module.COMMANDS[given.command]
    return await command(given, environment)
