"""The find tool: files and directories by name."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice

import trio

from agents.filetools.answer import BYTE_LIMIT, LINE_LIMIT, keep_first, with_notes
from agents.filetools.arguments import FindArguments
from agents.filetools.glob import Glob
from agents.filetools.resolve import display
from agents.filetools.scope import Scope, choose_scope
from agents.filetools.tool import ToolAnswer, ToolContext, build

DEFAULT_LIMIT = 1_000


async def _find(context: ToolContext, arguments: FindArguments) -> ToolAnswer:
    glob = Glob(arguments.pattern)
    scope = await choose_scope(context, arguments.path or ".")
    limit = arguments.limit or DEFAULT_LIMIT
    return await trio.to_thread.run_sync(_answer, context, scope, glob, limit)


def _answer(context: ToolContext, scope: Scope, glob: Glob, limit: int) -> ToolAnswer:
    found = _fitting(scope, glob)
    shown = (_shown(context, scope, entry) for entry in islice(found, limit))
    kept = keep_first(shown)
    notes = list(scope.notes)
    if not kept.complete:
        notes.append(
            f"cut at {LINE_LIMIT} lines or {BYTE_LIMIT // 1024} KB; narrow the pattern or give path"
        )
    elif next(found, None) is not None:
        notes.append(f"the first {limit} are shown; narrow the pattern, or raise limit")
    return ToolAnswer(with_notes(kept.text or "nothing has such a name", notes))


def _fitting(scope: Scope, glob: Glob) -> Iterator[bytes]:
    """Yield what fits and is still there, sorted, directories with a slash at their end."""
    for entry in _entries(scope.files):
        is_directory = entry.endswith(b"/")
        if glob.directories_only and not is_directory:
            continue
        if glob.fits(entry.removesuffix(b"/")) and os.path.lexists(scope.path_of(entry)):
            yield entry


def _entries(files: Iterable[bytes]) -> list[bytes]:
    entries = set(files)
    for file in files:
        trio.from_thread.check_cancelled()
        slash = file.rfind(b"/")
        while slash >= 0 and file[: slash + 1] not in entries:
            entries.add(file[: slash + 1])
            slash = file.rfind(b"/", 0, slash)
    return sorted(entries)


def _shown(context: ToolContext, scope: Scope, entry: bytes) -> str:
    return display(scope.path_of(entry), context.root) + ("/" if entry.endswith(b"/") else "")


FIND = build(
    _find,
    "find",
    description="Find files and directories by a glob. One without a slash fits names at any "
    "depth, one with a slash fits from the searched directory on; ** crosses directories and {a,b} "
    "are alternatives. What Git ignores is left out, unless path names its directory. The paths in "
    "the answer can be given to read as they are.",
    arguments=FindArguments,
)
