"""Giving up a worktree in which nobody has anything, whatever is saved there in the meantime."""

import os
from pathlib import Path

import trio

from engine.system.locks import hold
from engine.system.occupants import find_occupants
from worktrees.aside import aside_of, condemn, put_back, set_aside
from worktrees.hygiene import Repository
from worktrees.lease import forget_worktree
from worktrees.machine import in_thread
from worktrees.registration import find_registration
from worktrees.untouched import Left, find_touch
from worktrees.witness import Witness, bear_witness, why_it_stays


async def give_up_worktree(repo: Repository, left: Left, lock: Path, scratch: Path) -> str | None:
    """Remove a worktree if nothing in it is anybody's; return why it stays, None when it is gone.

    It is looked at, moved to where nobody finds it, and looked at again there. Only what has not
    changed in between, and what no process can write to any more, is deleted. A call that was
    killed may simply be repeated; until then `put_back` makes good whatever it left.

    Args:
        repo: any working tree of the repository.
        left: what is to go.
        lock: the file that serialises creations and removals.
        scratch: an existing folder that belongs to the engine.

    Raises:
        CorruptionError: what the engine remembers of the worktree is damaged.
        ExternalError: Git failed there, or the machine did; the worktree is where it was then.
    """
    before = await in_thread(_witness, repo, left)
    if (reason := await find_touch(repo, left, scratch)) is not None:
        return reason
    if before is not None and (reason := await _condemn(repo, left, lock, before)) is not None:
        return reason
    await forget_worktree(repo, left.path, left.seed_index, lock)
    return None


def _witness(repo: Repository, left: Left) -> Witness | None:
    """Return what the worktree is, None where there is nothing to be lost."""
    if not os.path.lexists(left.path):
        return None
    return _bear_witness(repo, left, left.path)


def _bear_witness(repo: Repository, left: Left, folder: Path) -> Witness:
    found = find_registration(repo, left.path)
    # Without one there is nothing that could be told of it, and it stays.
    return bear_witness(folder, folder if found is None else found.git_dir)


async def _condemn(repo: Repository, left: Left, lock: Path, before: Witness) -> str | None:
    """Move the folder away for good if it still is what it was; return why it is not."""
    aside = aside_of(left.path)
    if await in_thread(os.path.lexists, aside):
        return f"{aside} is in the way: look whether anything in it is yours, and remove it"
    async with hold(lock, what="worktree removal", holder=f"pinata {os.getpid()}"):
        try:
            await in_thread(set_aside, left.path)
            occupants = await in_thread(find_occupants, aside)
            # Whoever had something open has closed it by now, or was seen.
            after = await in_thread(_bear_witness, repo, left, aside)
            reason = why_it_stays(before, after, occupants)
            if reason is None:
                await in_thread(condemn, left.path)
        finally:
            with trio.CancelScope(shield=True):
                is_back = await in_thread(put_back, left.path)
    if not is_back:
        return f"{reason}; it lies at {aside}, as something else stands at its place by now"
    return reason
