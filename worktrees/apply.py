"""Put a set of changes into the user's checkout under a journal, or take it back.

Only named paths and the folders around them are touched: never the index, HEAD, a branch or an
unrelated file. Each file is staged outside the checkout and moved in by one step of the kernel,
and what it replaces is kept until the integration is rolled back, so a crash at any moment leaves
something that can be completed or undone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from engine.core.changes import Change
from engine.core.errors import ConflictError
from worktrees import apply_recovery
from worktrees.apply_layers import chains
from worktrees.apply_making import Order, make_plan
from worktrees.apply_plan import check_changes
from worktrees.apply_recovery import FileAnswer
from worktrees.apply_renewal import plan_renewal
from worktrees.apply_stage import StoredFile
from worktrees.apply_state import machine_failures
from worktrees.exchange import MOVERS, Mover, mover_for
from worktrees.hygiene import Repository
from worktrees.journal import Journal, JournalState
from worktrees.journal_store import advance, read_journal
from worktrees.state import StateTriple, measure

Answer = TypeVar("Answer")


async def prepare(
    repo: Repository,
    changes: Sequence[Change],
    *,
    evidence_digest: str,
    triple: StateTriple,
    folder: Path,
    movers: tuple[Mover, ...] = MOVERS,
) -> Journal:
    """Check that `changes` fit the checkout, stage their results and store the plan, durably.

    The checkout is only read. When it refuses or is cancelled, no journal and no staged file is
    left, and an earlier one stays on record.

    Args:
        repo: the checkout.
        changes: the net effect, one change per path; each path must now be as its old side says.
        evidence_digest: kept in the journal, to tell later whether it is the same integration.
        triple: the state of the checkout just now.
        folder: where the run keeps its integration; made if need be.
        movers: the ways in which files can change places; the first that works is taken.

    Raises:
        ConflictsError: paths are not as they were when the changes were begun, or are in the way.
        ConflictError: an integration of this run is in force, or the file system cannot do it.
        UsageError: the changes cannot be put into any checkout.
        ExternalError: Git or the machine failed.
    """
    order = Order(evidence_digest, triple, folder, movers)
    return await make_plan(repo, check_changes(changes), order)


async def renew(
    repo: Repository,
    changes: Sequence[Change],
    *,
    evidence_digest: str,
    triple: StateTriple,
    upon: Journal,
    movers: tuple[Mover, ...] = MOVERS,
) -> Journal:
    """Plan that `changes` take the place of the integration in force; see `prepare`.

    Each path goes straight to its new result. A rollback of the new plan leads back to what stood
    there before all of it. Until `execute` is through, the old one can come into force again.

    Args:
        repo: the checkout.
        changes: the net effect from what stood there before all of it, one change per path.
        evidence_digest: of the new changes.
        triple: the state of the checkout just now.
        upon: the integration in force, which may have been interrupted.
        movers: the ways in which files can change places.

    Raises:
        ConflictsError: a path is neither as `upon` left it nor as it was before, or is in the way.
        ConflictError: HEAD or the index moved since `upon` was planned.
        CorruptionError: the originals that `upon` saved are gone.
        ExternalError: Git or the machine failed.
    """
    await _check_unmoved(repo, upon)
    ordered = check_changes(changes)
    renewal = await trio.to_thread.run_sync(plan_renewal, upon, ordered, _mover_of(upon))
    order = Order(evidence_digest, triple, upon.folder, movers, upon, renewal)
    return await make_plan(repo, check_changes(renewal.moves), order)


async def execute(journal: Journal, *, mover: Mover | None = None) -> Journal:
    """Carry out a journal that `prepare` has just returned; return it as `verifying`.

    Runs to its end even when cancelled. When anything goes wrong, all that was moved is put back
    in the same call and the journal becomes `rolled_back`.

    Raises:
        ConflictsError: somebody wrote to a path meanwhile; their file is where they wrote it.
        ApplyFailedError: the machine failed; everything is as it was.
        IncompleteError: and not all of it could be put back.
    """
    return await _uninterrupted(
        partial(apply_recovery.carry_out, journal, mover or _mover_of(journal))
    )


async def resume(repo: Repository, journal: Journal, *, mover: Mover | None = None) -> Journal:
    """Complete `journal`, whose process died or which is asked for again; return it `verifying`.

    Nothing is written when it refuses. Runs to its end even when cancelled.

    Raises:
        ConflictsError: a path is neither as before nor as after; all of them are named.
        ConflictError: HEAD or the index moved, or a rollback was begun.
        ApplyFailedError: the machine failed; what this call moved was put back.
        IncompleteError: and not all of it could be put back.
    """
    await _check_unmoved(repo, journal)
    return await _uninterrupted(
        partial(apply_recovery.complete, journal, mover or _mover_of(journal))
    )


async def rollback(
    repo: Repository, journal: Journal, *, mover: Mover | None = None
) -> tuple[FileAnswer, ...]:
    """Return every path of `journal` to exactly what it was, or do nothing at all.

    Runs to its end even when cancelled.

    Returns:
        One answer per path, sorted: RESTORED or REMOVED, or ALREADY as it was.

    Raises:
        RollbackRefusedError: a path was edited since; it carries the answers.
        ConflictError: HEAD or the index moved, or it has been rolled back.
        CorruptionError: a saved original is gone or damaged.
        IncompleteError: the machine failed half-way; calling it again goes on.
    """
    await _check_unmoved(repo, journal)
    return await _uninterrupted(
        partial(apply_recovery.put_back, journal, mover or _mover_of(journal))
    )


def results_of(journal: Journal) -> dict[bytes, StoredFile | None]:
    """Return what each path of `journal` holds once it is applied; None where nothing does."""
    newest = {path: chain[0].entry.after for path, chain in chains(journal.layers).items()}
    return {
        path: None if after is None else StoredFile(path, after.mode, after.blob)
        for path, after in newest.items()
    }


async def load_journal(folder: Path) -> Journal | None:
    """Return the journal in force in a run's integration folder, or None.

    Raises:
        CorruptionError: it cannot be read.
    """
    return await trio.to_thread.run_sync(read_journal, folder)


async def settle(journal: Journal, state: JournalState) -> Journal:
    """Store how the verification of an applied `journal` ended, durably, and return it so."""
    return await _uninterrupted(partial(_advance, journal, state))


def _advance(journal: Journal, state: JournalState) -> Journal:
    with machine_failures("the journal could not be written"):
        return advance(journal, state)


async def _check_unmoved(repo: Repository, journal: Journal) -> None:
    if repo.root != journal.root:
        raise ConflictError(
            f"the integration was made in {journal.root} and not in {repo.root}; move the "
            "checkout back, or reconcile the files by hand"
        )
    now = await measure(repo, journal.folder)
    moved = "HEAD" if now.head != journal.head else "the index"
    if (now.head, now.index_digest) != (journal.head, journal.index_digest):
        remedy = "undo the commit" if moved == "HEAD" else "unstage what was staged (git reset)"
        raise ConflictError(
            f"{moved} has changed since the integration was begun, so it can be neither completed "
            f"nor rolled back; {remedy}, then call again, or reconcile the files by hand"
        )


def _mover_of(journal: Journal) -> Mover:
    return mover_for(in_one_step=journal.in_one_step)


async def _uninterrupted(work: Callable[[], Answer]) -> Answer:
    await trio.lowlevel.checkpoint_if_cancelled()
    # A thread that has begun is waited for, whatever happens to the scopes around.
    return await trio.to_thread.run_sync(work)
