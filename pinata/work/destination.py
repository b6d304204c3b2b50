"""A run together with the checkout that it was started from, held by one process at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from engine.store import RunFolder
from engine.system import locks
from pinata.work.context import Context
from pinata.work.history import StoredRun
from pinata.work.places import Places
from pinata.work.takeover import taken_over
from worktrees.discovery import discover
from worktrees.hygiene import Repository


@dataclass(frozen=True, slots=True)
class Destination:
    """A run and its checkout, both held by this process."""

    context: Context
    stored: StoredRun
    repository: Repository

    @property
    def folder(self) -> Path:
        """Where the run keeps what concerns its destination."""
        return self.stored.folder.integration


@asynccontextmanager
async def open_destination(
    context: Context, folder: RunFolder, root: Path
) -> AsyncIterator[Destination]:
    """Own a run and its checkout inside the block.

    Args:
        context: the caller's.
        folder: the run's.
        root: any working tree of the repository.

    Raises:
        HeldElsewhereError: a live process owns the run, or is at work in the checkout.
        CorruptionError: what is stored of the run is damaged.
    """
    async with taken_over(context, folder, root) as stored:
        found = await discover(Path(stored.record.root), context.environment)
        places = Places.of(found, context.environment)
        what = f"the checkout {found.root}"
        async with locks.claim(places.checkout_lock, what=what, holder=context.holder):
            yield Destination(context, stored, replace(found, mark=f"{stored.record.mark}/git"))
