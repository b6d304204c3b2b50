"""The ls tool: what is in a directory."""

import os
from pathlib import Path

import trio

from agents.filetools.answer import BYTE_LIMIT, keep_first, with_notes
from agents.filetools.arguments import LsArguments
from agents.filetools.resolve import resolve, unquote
from agents.filetools.source import is_directory
from agents.filetools.tool import ToolAnswer, ToolContext, ToolFaultError, build
from engine.core.changes import quote_path
from engine.core.quote import quote_value

DEFAULT_LIMIT = 500


async def _ls(context: ToolContext, arguments: LsArguments) -> ToolAnswer:
    given = arguments.path or "."
    path = resolve(unquote(given), context.root, context.home)
    return await trio.to_thread.run_sync(
        _answer, path, quote_value(given), arguments.limit or DEFAULT_LIMIT
    )


def _answer(path: Path, shown: str, limit: int) -> ToolAnswer:
    if not is_directory(path, shown):
        raise ToolFaultError(f"{shown} is a file; read shows it")
    with os.scandir(path) as entries:
        names = sorted((entry.name, entry.is_dir()) for entry in entries)
    kept = keep_first(
        quote_path(os.fsencode(name)) + ("/" if folder else "") for name, folder in names[:limit]
    )
    notes = []
    if len(kept.lines) < len(names):
        notes.append(
            f"the first {len(kept.lines)} of {len(names)} entries are shown; raise limit, or use "
            f"find (answers end at {BYTE_LIMIT // 1024} KB)"
        )
    return ToolAnswer(with_notes(kept.text or "the directory is empty", notes))


LS = build(
    _ls,
    "ls",
    description="List a directory, sorted, hidden and ignored entries included. Directories have a "
    "slash at their end.",
    arguments=LsArguments,
)
