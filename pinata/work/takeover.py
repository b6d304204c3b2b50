"""Owning a run that exists: whatever its dead owner left running is ended first."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from engine.store import RunFolder
from engine.system import locks, strays
from engine.system.ledger import keep_ledger, read_ledger
from pinata.work.context import Context
from pinata.work.history import StoredRun, read_record, read_run
from pinata.work.places import Places
from worktrees.discovery import discover


@asynccontextmanager
async def taken_over(context: Context, folder: RunFolder, root: Path) -> AsyncIterator[StoredRun]:
    """Own an existing run inside the block, after ending what its dead owner left running.

    Args:
        context: the caller's.
        folder: the run's.
        root: any working tree of the repository.

    Raises:
        HeldElsewhereError: a live process owns the run.
        CorruptionError: what is stored of the run is damaged.
    """
    repository = await discover(root, context.environment)
    places = Places.of(repository, context.environment)
    async with locks.claim(
        places.run_lock(folder.run), what=f"run {folder.run}", holder=context.holder
    ):
        # Before the log is read: also a run whose log is damaged leaves nothing running.
        record = await trio.to_thread.run_sync(read_record, folder)
        await strays.end_marked(f"{record.mark}/")
        await strays.end_recorded(await trio.to_thread.run_sync(read_ledger, folder.processes_file))
        stored = await trio.to_thread.run_sync(read_run, folder)
        with keep_ledger(record.mark, folder.processes_file):
            yield stored
