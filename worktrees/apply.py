"""Put a set of changes into the user's checkout under a journal, or take it back.

Only named paths and the folders around them are touched: never the index, HEAD, a branch or an
unrelated file. Each file is staged outside the checkout and moved in by one step of the kernel,
and what it replaces is kept until the integration is rolled back, so a crash at any moment leaves
something that can be completed or undone.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from engine.core.changes import ABSENT_MODE, Change
from engine.core.errors import ConflictError, PinataError
from engine.system import faults, files
from worktrees import apply_recovery
from worktrees.apply_ground import Ground, survey
from worktrees.apply_plan import ConflictsError, PathConflict, check_changes
from worktrees.apply_recovery import FileAnswer
from worktrees.apply_slots import check_unchanged, fill_slots, make_slots, remove_slots, staging
from worktrees.apply_stage import StoredFile, changed_files, check_out
from worktrees.apply_state import machine_failures
from worktrees.exchange import MOVERS, Mover, choose_mover, mover_for
from worktrees.folders import Folders
from worktrees.hygiene import Repository
from worktrees.journal import Journal, JournalState
from worktrees.journal_store import (
    advance,
    archive_journal,
    next_number,
    read_journal,
    write_journal,
)
from worktrees.presence import differing_paths
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
    ordered = check_changes(changes)
    begun = await trio.to_thread.run_sync(_begin, folder, repo.root, movers)
    try:
        ground = await _examine_and_stage(repo, ordered, triple, begun.slots)
        journal = Journal(
            folder=folder,
            number=begun.number,
            state=JournalState.APPLYING,
            evidence_digest=evidence_digest,
            root=repo.root,
            head=triple.head,
            index_digest=triple.index_digest,
            slots=begun.slots,
            entries=(),
            removed_folders=ground.removed_folders,
            made_folders=ground.made_folders,
            in_one_step=begun.in_one_step,
        )
        return await trio.to_thread.run_sync(_seal, begun, journal, ordered, ground)
    except BaseException:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_clear, begun)
        raise


@dataclass(frozen=True, slots=True)
class _Begun:
    folder: Path
    earlier: Journal | None
    number: int
    slots: Path
    in_one_step: bool


def _begin(folder: Path, root: Path, movers: tuple[Mover, ...]) -> _Begun:
    with machine_failures("the integration could not be prepared"):
        files.make_private_dir(folder)
        earlier = read_journal(folder)
        if earlier is not None and earlier.state is not JournalState.ROLLED_BACK:
            raise ConflictError(
                f"an integration of this run is {earlier.state.value.replace('_', ' ')}; "
                "complete it or roll it back first"
            )
        if earlier is not None:
            remove_slots(folder, earlier.slots)
        number = next_number(folder, earlier)
        slots = make_slots(folder, root, number)
        try:
            mover = choose_mover(slots, movers)
            staging(slots).mkdir()
        except BaseException:
            remove_slots(folder, slots)
            raise
        return _Begun(folder, earlier, number, slots, mover.in_one_step)


def _survey(root: Path, slots: Path, changes: Sequence[Change]) -> Ground:
    with machine_failures("the checkout could not be looked at"), Folders(root) as folders:
        facts = slots.stat()
        return survey(folders, changes, facts.st_dev, facts.st_mtime_ns)


async def _examine_and_stage(
    repo: Repository, changes: Sequence[Change], triple: StateTriple, slots: Path
) -> Ground:
    """Return the ground for `changes`, whose results lie staged in `slots` then.

    Both take a call of git, so they are done side by side.
    """
    ground = await trio.to_thread.run_sync(_survey, repo.root, slots, changes)
    conflicts = list(ground.conflicts)
    failures: list[PinataError] = []

    async def compare() -> None:
        conflicts.extend(await _content_conflicts(repo, changes, ground, slots))

    async def stage() -> None:
        target, index = staging(slots), slots / "results.index"
        await check_out(repo, changes, triple.content_tree, target, index)

    async def attempt(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except PinataError as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, compare)
        if not conflicts:
            nursery.start_soon(attempt, stage)
    if conflicts:
        raise ConflictsError("the checkout is in the way; nothing was written", conflicts)
    if failures:
        raise failures[0]
    return ground


async def _content_conflicts(
    repo: Repository, changes: Sequence[Change], ground: Ground, slots: Path
) -> list[PathConflict]:
    expected = [
        StoredFile(change.path, change.old_mode, change.old_blob)
        for change in changes
        if change.old_mode != ABSENT_MODE and ground.states.get(change.path) is not None
    ]
    changed = await changed_files(repo, expected, slots / "expected.index")
    return [PathConflict(path, "has changed since the run started") for path in changed]


def _seal(begun: _Begun, journal: Journal, changes: Sequence[Change], ground: Ground) -> Journal:
    with machine_failures("the integration could not be prepared"):
        planned = replace(journal, entries=fill_slots(begun.slots, changes, ground.states))
        check_unchanged(planned, ground)
        if begun.earlier is not None:
            archive_journal(begun.earlier)
            faults.point("apply.prepare.archived")
        write_journal(planned)
        return planned


def _clear(begun: _Begun) -> None:
    """Remove what a refused or failed preparation left, unless its journal is in force.

    Writing the journal may have failed after it took its place.
    """
    journal = read_journal(begun.folder)
    if journal is not None and journal.number == begun.number:
        journal.file.unlink()
        files.sync_dir(begun.folder)
    remove_slots(begun.folder, begun.slots)


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
        One answer per path, sorted: RESTORED, or ALREADY as it was.

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


async def verify_applied(repo: Repository, journal: Journal) -> tuple[bytes, ...]:
    """Return the paths, sorted, that are not now what `journal` leads to, as Git stores it."""
    return await differing_paths(repo, results_of(journal), journal.folder / "verify.index")


def results_of(journal: Journal) -> dict[bytes, StoredFile | None]:
    """Return what each path of `journal` holds once it is applied; None where nothing does."""
    return {
        entry.path: None
        if entry.after is None
        else StoredFile(entry.path, entry.after.mode, entry.after.blob)
        for entry in journal.entries
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


async def discard_originals(folder: Path) -> None:
    """Remove what the journal in force in `folder` keeps outside of it, if anything.

    For whoever is about to remove the folder: a rollback is no longer possible afterwards.
    """
    journal = await load_journal(folder)
    if journal is not None:
        await trio.to_thread.run_sync(remove_slots, folder, journal.slots)


async def _check_unmoved(repo: Repository, journal: Journal) -> None:
    if repo.root != journal.root:
        raise ConflictError(
            f"the integration was made in {journal.root} and not in {repo.root}; move the "
            "checkout back, or reconcile the files by hand"
        )
    now = await measure(repo, journal.folder)
    moved = "HEAD" if now.head != journal.head else "the index"
    if (now.head, now.index_digest) != (journal.head, journal.index_digest):
        raise ConflictError(
            f"{moved} has changed since the integration was begun, so it can be neither completed "
            "nor rolled back; put that back as it was, or reconcile the files by hand"
        )


def _mover_of(journal: Journal) -> Mover:
    return mover_for(in_one_step=journal.in_one_step)


async def _uninterrupted(work: Callable[[], Answer]) -> Answer:
    await trio.lowlevel.checkpoint_if_cancelled()
    # A thread that has begun is waited for, whatever happens to the scopes around.
    return await trio.to_thread.run_sync(work)
