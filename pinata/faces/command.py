"""What the commands have in common: their shape, where they stand, and how answers are printed."""

import json
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from engine.core.errors import UsageError
from engine.core.quote import escape_json
from engine.records.json_text import decode_json
from engine.system.files import read_input
from pinata.faces import output, text
from pinata.tools.registry import Answer

CANCELLED = 3
_FILE_LIMIT_BYTES = 16 << 20


class Command(Protocol):
    """Carries out one command."""

    async def __call__(self, given: Namespace, environment: Mapping[str, str]) -> int:
        """Return the exit code.

        Raises:
            PinataError: the command was refused, or failed.
        """
        ...


def here() -> Path:
    """Return the folder that the caller stands in.

    Raises:
        UsageError: it has been removed.
    """
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the folder you stand in is gone: go to another one") from error


def read_json(path: Path) -> object:
    """Return what the JSON file at `path` holds; blocks.

    Raises:
        UsageError: it cannot be read, is too large, or is not JSON.
    """
    return decode_json(read_input(path, _FILE_LIMIT_BYTES), str(path))


def width() -> int:
    """Return where prose is wrapped: at the terminal's edge, or where most terminals have it."""
    return max(text.NARROWEST, shutil.get_terminal_size((text.WIDTH, 0)).columns)


def show(given: Namespace, answer: Answer, lines: Callable[[Answer], Iterable[str]]) -> None:
    """Print an answer as JSON when that was asked for, else as `lines` shows it."""
    output.write(as_text(given, answer, lines))


def as_text(given: Namespace, answer: Answer, lines: Callable[[Answer], Iterable[str]]) -> str:
    """Return an answer as JSON when that was asked for, else as `lines` shows it."""
    return as_json(answer) if given.json else as_lines(lines(answer))


def show_json(answer: object) -> None:
    """Print an answer as JSON that a terminal shows and does not obey."""
    output.write(as_json(answer))


def as_json(answer: object) -> str:
    """Return an answer as JSON that a terminal shows and does not obey."""
    return escape_json(json.dumps(answer, indent=1, ensure_ascii=False)) + "\n"


def show_lines(lines: Iterable[str]) -> None:
    """Print lines."""
    output.write(as_lines(lines))


def as_lines(lines: Iterable[str]) -> str:
    """Return lines as one text."""
    return "".join(f"{line}\n" for line in lines)
