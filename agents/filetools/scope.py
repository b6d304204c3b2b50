"""Which files a search looks at: those that Git knows or would take, below one directory."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trio

from agents.filetools.resolve import locate, resolve, unquote
from agents.filetools.secrets import identify_secrets, refuse_secret
from agents.filetools.source import is_directory
from agents.filetools.tool import ToolContext
from engine.core.quote import quote_value

WALK_LIMIT_FILES = 50_000


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search.

    Attributes:
        base: absolute path of the directory that globs are read from.
        files: relative to `base`, sorted; they may have vanished meanwhile.
        notes: what the model should know about the choice.
    """

    base: Path
    files: tuple[bytes, ...]
    notes: tuple[str, ...] = ()

    def path_of(self, file: bytes) -> Path:
        """Return the absolute path of `file`."""
        return self.base / os.fsdecode(file)


async def choose_scope(context: ToolContext, given: str) -> Scope:
    """Return what to search when a model asks for the path `given`.

    A file is searched itself. A directory is searched without what Git ignores; but one that holds
    nothing else, or lies outside of the working directory, was asked for by name and is searched
    whole, without `.git` folders and without following links.

    Raises:
        ToolFaultError: there is no such path, or no agent reads it.
    """
    path = resolve(unquote(given), context.root, context.home)
    if not await trio.to_thread.run_sync(is_directory, path, quote_value(given)):
        await trio.to_thread.run_sync(_refuse_secret, context, path, quote_value(given))
        return Scope(path.parent, (os.fsencode(path.name),))
    place = await trio.to_thread.run_sync(locate, unquote(given), context.root, context.home)
    if place is not None:
        below = b"".join(part + b"/" for part in place.parts)
        files = sorted(
            file[len(below) :] for file in await context.list_files() if file.startswith(below)
        )
        if files or not place.parts:
            return Scope(path, tuple(files))
    return await trio.to_thread.run_sync(_walk, path)


def _refuse_secret(context: ToolContext, path: Path, shown: str) -> None:
    refuse_secret(path.stat(), identify_secrets(context.secrets), shown)


def _walk(base: Path) -> Scope:
    files: list[bytes] = []
    for file in _files_below(base):
        if len(files) == WALK_LIMIT_FILES:
            note = f"only the first {WALK_LIMIT_FILES} files were looked at; give a deeper path"
            return Scope(base, tuple(sorted(files)), (note,))
        files.append(file)
    return Scope(base, tuple(sorted(files)))


def _files_below(base: Path) -> Iterator[bytes]:
    for folder, folders, names in os.walk(base):
        trio.from_thread.check_cancelled()
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in names:
            yield os.fsencode(Path(folder, name).relative_to(base))
