"""Whether what a writer is to own can be owned in this checkout."""

import stat
from collections.abc import Sequence
from pathlib import Path

import trio

from engine.core.changes import quote_path
from engine.core.errors import UsageError
from engine.core.ids import TaskId
from worktrees.hygiene import Repository


class UnownableEntryError(UsageError):
    """An ownership entry leads out of what a writer's worktree holds."""

    def __init__(self, task: TaskId, entry: str, obstacle: str) -> None:
        self.task = task
        self.entry = entry
        super().__init__(
            f"task {task}: ownership: '{entry}' passes through {obstacle}: "
            f"name a path that does not"
        )


async def check_entries(
    repo: Repository, submodules: Sequence[bytes], owned: Sequence[tuple[TaskId, Sequence[str]]]
) -> tuple[str, ...]:
    """Refuse entries that pass through a symbolic link or a submodule; return notices.

    A notice warns of an entry that looks like a pattern and matches no path: entries are literal.

    Raises:
        UnownableEntryError: names the task, the entry and what is in the way.
    """
    return await trio.to_thread.run_sync(_check_all, repo.root, frozenset(submodules), owned)


def _check_all(
    root: Path, submodules: frozenset[bytes], owned: Sequence[tuple[TaskId, Sequence[str]]]
) -> tuple[str, ...]:
    notices: list[str] = []
    for task, entries in owned:
        for entry in entries:
            _check(root, submodules, task, entry)
            if any(c in entry for c in "*?") and not (root / entry).exists():
                notices.append(
                    f"task {task}: ownership: '{entry}' matches no path: entries are literal "
                    f"paths, patterns are not supported"
                )
    return tuple(notices)


def _check(root: Path, submodules: frozenset[bytes], task: TaskId, entry: str) -> None:
    parts = entry.split("/")
    for count in range(1, len(parts) + 1):
        prefix = "/".join(parts[:count])
        if prefix.encode("utf-8") in submodules:
            raise UnownableEntryError(task, entry, f"the submodule {prefix}")
        try:
            mode = (root / prefix).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISLNK(mode):
            shown = quote_path(prefix.encode("utf-8"))
            raise UnownableEntryError(task, entry, f"the symbolic link {shown}")
