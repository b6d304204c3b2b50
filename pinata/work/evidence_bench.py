"""Where evidence is verified: one place per repository, so that what a crash leaves is found."""

import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.ids import CommitId, RunId, TaskId
from engine.system import files, locks, strays
from pinata.work.context import Context
from pinata.work.places import Places
from worktrees.hygiene import Repository
from worktrees.lease import create_worktree, remove_worktree
from worktrees.machine import in_thread


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder and a mark for one verification; both are gone when it is over.

    Attributes:
        mark: what every process of the verification carries.
    """

    repository: Repository
    places: Places
    mark: str

    @property
    def worktree(self) -> Path:
        """Where a commit is checked out."""
        return self.places.worktree(RunId("verification"), TaskId("commit"))

    @property
    def seed(self) -> Path:
        """The index of that worktree as it was made; its intent lies beside it."""
        return self.places.verification / "seed"

    async def folder(self, name: str) -> Path:
        """Return a new folder of the verification."""
        made = self.places.verification / name
        await in_thread(made.mkdir)
        return made

    @asynccontextmanager
    async def open_place(
        self, context: Context, subject: CommitId | None
    ) -> AsyncIterator[Repository]:
        """Yield where checks run: a worktree of `subject`, or the checkout when that is None."""
        repository, lock = self.repository, self.places.worktree_lock
        if subject is None:
            what = f"the checkout {repository.root}"
            async with locks.claim(self.places.checkout_lock, what=what, holder=context.holder):
                yield repository
            return
        try:
            yield await create_worktree(
                repository, self.worktree, subject, self.seed, lock, f"verifying {subject}"
            )
        finally:
            with trio.CancelScope(shield=True):
                await remove_worktree(repository, self.worktree, self.seed, lock)


@asynccontextmanager
async def open_bench(context: Context, repository: Repository) -> AsyncIterator[Bench]:
    """Wait for the repository's bench and hold it inside the block.

    What a verification left whose process was killed, its processes and its worktree, is ended and
    removed first.

    Raises:
        ExternalError: the machine failed.
    """
    places = Places.of(repository, context.environment)
    await in_thread(lambda: files.make_private_dir(places.locks))
    what = "the verification of a commit"
    async with locks.hold(places.verification_lock, what=what, holder=context.holder):
        await _clear(repository, places)
        bench = Bench(repository, places, secrets.token_hex(16))
        try:
            await in_thread(lambda: _announce(bench))
            yield bench
        finally:
            with trio.CancelScope(shield=True):
                await _clear(repository, places)


def is_left_behind(places: Places) -> bool:
    """Return whether there is anything of a verification, be it one at work; blocks."""
    return os.path.lexists(places.verification)


async def clear_bench(context: Context, repository: Repository) -> None:
    """Remove what a verification left whose process was killed.

    Raises:
        HeldElsewhereError: a verification is at work.
        ExternalError: the machine failed.
    """
    places = Places.of(repository, context.environment)
    what = "the verification of a commit"
    async with locks.claim(places.verification_lock, what=what, holder=context.holder):
        await _clear(repository, places)


def _announce(bench: Bench) -> None:
    folder = bench.places.verification
    files.make_private_dir(folder)
    files.replace_file(folder / "mark", bench.mark.encode(), fault="verification.mark")


async def _clear(repository: Repository, places: Places) -> None:
    mark = await in_thread(lambda: _read_mark(places))
    if mark is None:
        return
    await strays.end_marked(f"{mark}/")
    bench = Bench(repository, places, mark)
    await remove_worktree(repository, bench.worktree, bench.seed, places.worktree_lock)
    await in_thread(lambda: shutil.rmtree(places.verification))


def _read_mark(places: Places) -> str | None:
    """Return the mark of the verification that was begun here, None when there was none."""
    try:
        return (places.verification / "mark").read_text()
    except FileNotFoundError:
        shutil.rmtree(places.verification, ignore_errors=True)
        return None
