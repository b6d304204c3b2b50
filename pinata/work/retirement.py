"""Retired runs: their worktrees and keep-refs are given up, and what they reported stays.

What of a run must still be there to go on with it may be gone then, or go at any time, so whoever
needs it asks here first.
"""

import os

import trio

from engine.core.errors import ConflictError
from engine.core.ids import RunId
from engine.records.retirement import RetirementV1, encode_retirement
from engine.store import RunFolder
from engine.system import files
from worktrees.refs import evidence_ref


class RetiredRunError(ConflictError):
    """A run is retired, so it can neither go on nor be applied any more."""

    def __init__(self, run: RunId, remedy: str) -> None:
        self.run = run
        super().__init__(
            f"run {run} is retired: its worktrees and the objects of its changes were given up; "
            f"{remedy}"
        )


def is_retired(folder: RunFolder) -> bool:
    """Return whether a run is retired, also if that was cut short after the mark; blocks."""
    return os.path.lexists(folder.retirement_file)


def retire(folder: RunFolder, at_ms: int, *, discarded: bool) -> None:
    """Mark a run as retired, durably; what it needs to go on may be removed then. Blocks.

    Args:
        folder: of a run whose lock this process holds.
        at_ms: now, in epoch milliseconds.
        discarded: whether somebody named the run as one whose change is not wanted.

    Raises:
        OSError: it is not marked, or the mark may not be durable.
    """
    mark = RetirementV1(run=folder.run, at_ms=at_ms, discarded=discarded)
    files.replace_file(folder.retirement_file, encode_retirement(mark), fault="run.retired")


async def refuse_retired(folder: RunFolder, remedy: str) -> None:
    """Refuse what a retired run can no longer do.

    Args:
        folder: the run's.
        remedy: what to do instead.

    Raises:
        RetiredRunError: the run is retired.
    """
    if await trio.to_thread.run_sync(is_retired, folder):
        raise RetiredRunError(folder.run, remedy)


def where_changes_are(folder: RunFolder) -> str:
    """Return a phrase that says where to find what the writers of a retired run did."""
    return f"its patches lie in {folder.path / 'patches'} and in {evidence_ref(folder.run)}"
