"""Keeps Pi's own tools from the files with the user's keys; our own tools do so by themselves."""

from collections.abc import Mapping
from pathlib import Path

from agents.filetools.secrets import identify_secrets
from agents.filetools.tool import ToolContext

_READS_FILES = frozenset({"read", "grep", "find", "ls"})


def secret_refusal(tool: str, arguments: object, context: ToolContext) -> str | None:
    """Return why a call of one of Pi's tools is not made, or None; blocks.

    A file with keys is not read, and a folder that holds one, however deep, is not searched.
    """
    if tool not in _READS_FILES or not isinstance(arguments, Mapping):
        return None
    named = arguments.get("path")
    path = context.root / _expanded(named if isinstance(named, str) else ".", context.home)
    secrets = identify_secrets(context.secrets)
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None  # Pi says what is wrong with it
    if (found.st_dev, found.st_ino) in secrets or (
        tool in {"grep", "find"} and any(_is_below(each, path) for each in context.secrets)
    ):
        return f"{named} holds the user's keys for models, which no agent reads"
    return None


def _expanded(path: str, home: str | None) -> str:
    """Return a path as Pi takes it: with an at sign before it, or from the user's home."""
    path = path.removeprefix("@")
    if home is not None and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return path


def _is_below(secret: Path, folder: Path) -> bool:
    return secret.exists() and secret.resolve().is_relative_to(folder.resolve())
