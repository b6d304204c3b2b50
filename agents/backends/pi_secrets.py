"""Keeps the user's keys from agents that are a Pi, and out of what Pi saves of them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.filetools.secrets import identify_secrets
from agents.models.endpoint import Secret
from agents.models.trouble import strike_out
from engine.system import files

# What is shorter is a word that a server takes for a key because it must have one.
_SECRET_CHARS = 8
_SESSION_LIMIT_BYTES = 1 << 30
READS_FILES = frozenset({"read", "grep", "find", "ls"})


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """Where Pi's own tools read.

    Attributes:
        root: where relative paths start.
        home: what `~` stands for.
        secrets: files that none of them reads.
    """

    root: Path
    home: str | None
    secrets: tuple[Path, ...]


def secret_refusal(tool: str, arguments: object, place: ReadingPlace) -> str | None:
    """Return why a call of one of Pi's tools is not made, or None; blocks.

    A file with keys is not read, and a folder that holds one, however deep, is not searched.
    Our own tools keep to that by themselves.
    """
    if tool not in READS_FILES or not isinstance(arguments, Mapping):
        return None
    named = arguments.get("path")
    path = place.root / _expanded(named if isinstance(named, str) else ".", place.home)
    secrets = identify_secrets(place.secrets)
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None  # Pi says what is wrong with it
    if (found.st_dev, found.st_ino) in secrets or (
        tool in {"grep", "find"} and any(_is_below(each, path) for each in place.secrets)
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


def revealed(secrets: Iterable[Secret]) -> tuple[str, ...]:
    """Return the texts of those secrets that are long enough to be told from ordinary words."""
    return tuple(text for text in (each.reveal() for each in secrets) if len(text) >= _SECRET_CHARS)


def strike_out_saved(session: Path, secrets: Iterable[Secret]) -> None:
    """Take out of what Pi saved what its provider repeated of the user's secrets; blocks.

    Raises:
        ExternalError: the file cannot be written.
    """
    texts = revealed(secrets)
    try:
        saved = files.read_regular(session, _SESSION_LIMIT_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return
    if any(text in saved or json.dumps(text)[1:-1] in saved for text in texts):
        files.replace_file(session, strike_out(saved, texts).encode(), fault="pi.session")
