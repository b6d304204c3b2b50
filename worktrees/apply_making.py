"""The plan of an integration: checked against the checkout, its results staged, then stored.

Until the journal is stored the checkout is only read, and a plan that is refused leaves nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from engine.core.changes import ABSENT_MODE, Change
from engine.core.errors import ConflictError, PinataError
from engine.system import faults, files
from worktrees.apply_ground import Ground, survey
from worktrees.apply_plan import ConflictsError, PathConflict
from worktrees.apply_renewal import Renewal, stage_originals
from worktrees.apply_slots import check_unchanged, fill_slots, make_slots, remove_slots, staging
from worktrees.apply_stage import StoredFile, changed_files, check_out
from worktrees.apply_state import machine_failures
from worktrees.exchange import Mover, choose_mover
from worktrees.folders import Folders
from worktrees.hygiene import Repository
from worktrees.journal import Journal, JournalState
from worktrees.journal_store import (
    archive_journal,
    next_number,
    read_journal,
    reinstate_journal,
    supersede_journal,
    write_journal,
)
from worktrees.state import StateTriple


@dataclass(frozen=True, slots=True)
class Order:
    """What a plan is made of, apart from its changes.

    Attributes:
        upon: the integration that is in force and stays below.
        renewal: how this one is laid upon it.
    """

    evidence_digest: str
    triple: StateTriple
    folder: Path
    movers: tuple[Mover, ...]
    upon: Journal | None = None
    renewal: Renewal | None = None


async def make_plan(repo: Repository, ordered: Sequence[Change], order: Order) -> Journal:
    """Check, stage and store a plan; see `apply.prepare` and `apply.renew`.

    Args:
        repo: the checkout.
        ordered: what the plan changes, as `check_changes` returned it.
        order: the rest.
    """
    begun = await trio.to_thread.run_sync(_begin, repo.root, order)
    try:
        ground = await _examine_and_stage(repo, ordered, order, begun.slots)
        journal = Journal(
            folder=order.folder,
            number=begun.number,
            state=JournalState.APPLYING,
            evidence_digest=order.evidence_digest,
            root=repo.root,
            head=order.triple.head,
            index_digest=order.triple.index_digest,
            slots=begun.slots,
            entries=(),
            removed_folders=ground.removed_folders,
            made_folders=ground.made_folders,
            in_one_step=begun.in_one_step,
            earlier=None if order.renewal is None else order.renewal.earlier,
        )
        originals = {} if order.renewal is None else order.renewal.originals
        return await trio.to_thread.run_sync(_seal, begun, journal, ordered, ground, originals)
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


def _begin(root: Path, order: Order) -> _Begun:
    folder = order.folder
    with machine_failures("the integration could not be prepared"):
        files.make_private_dir(folder)
        earlier = read_journal(folder)
        in_force = earlier is not None and earlier.state is not JournalState.ROLLED_BACK
        if earlier is not None and in_force and earlier != order.upon:
            raise ConflictError(
                f"an integration of this run is {earlier.state.value.replace('_', ' ')}; "
                "complete it or roll it back first"
            )
        if earlier is not None and not in_force:
            for layer in earlier.layers:
                remove_slots(folder, layer.slots)
        number = next_number(folder, earlier)
        slots = make_slots(folder, root, number)
        try:
            mover = choose_mover(slots, order.movers)
            staging(slots).mkdir()
        except BaseException:
            remove_slots(folder, slots)
            raise
        return _Begun(folder, earlier, number, slots, mover.in_one_step)


def _survey(root: Path, slots: Path, changes: Sequence[Change], below: Journal | None) -> Ground:
    layers = () if below is None else below.layers
    made = [folder for layer in layers for folder in layer.made_folders]
    with machine_failures("the checkout could not be looked at"), Folders(root) as folders:
        facts = slots.stat()
        return survey(folders, changes, facts.st_dev, facts.st_mtime_ns, made)


async def _examine_and_stage(
    repo: Repository, changes: Sequence[Change], order: Order, slots: Path
) -> Ground:
    """Return the ground for `changes`, whose results lie staged in `slots` then.

    Both take a call of git, so they are done side by side.
    """
    ground = await trio.to_thread.run_sync(_survey, repo.root, slots, changes, order.upon)
    conflicts = list(ground.conflicts)
    failures: list[PinataError] = []

    async def compare() -> None:
        conflicts.extend(await _content_conflicts(repo, changes, ground, slots))

    async def stage() -> None:
        target, index = staging(slots), slots / "results.index"
        await check_out(repo, changes, order.triple.content_tree, target, index)

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


def _seal(
    begun: _Begun,
    journal: Journal,
    changes: Sequence[Change],
    ground: Ground,
    originals: Mapping[bytes, Path],
) -> Journal:
    with machine_failures("the integration could not be prepared"):
        stage_originals(staging(begun.slots), originals)
        planned = replace(
            journal, entries=fill_slots(begun.slots, changes, ground.states, originals)
        )
        check_unchanged(planned, ground)
        if journal.earlier is not None:
            assert begun.earlier is not None
            supersede_journal(begun.earlier)
        elif begun.earlier is not None:
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
        if journal.earlier is not None:
            reinstate_journal(journal.earlier)
        else:
            journal.file.unlink()
            files.sync_dir(begun.folder)
    remove_slots(begun.folder, begun.slots)
