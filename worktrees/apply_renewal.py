"""How an integration that is in force becomes another one, decided from its journal and the disk.

The files go straight from what the old plan led to to what the new one leads to. The new journal
is laid upon the old: it moves what differs between the two, and what stood there before all of it
stays in the slots of the old one, for a rollback. All of it blocks.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.changes import ABSENT_MODE, Change, ChangeStatus
from engine.core.ids import BlobId
from worktrees.apply_bench import Bench
from worktrees.apply_layers import Link, Places, chains, locate_all, open_benches
from worktrees.apply_plan import ConflictsError, PathConflict, Where
from worktrees.apply_recovery import REASONS
from worktrees.exchange import Mover
from worktrees.journal import FileState, Journal

_ABSENT = (ABSENT_MODE, BlobId("0" * 40))
_FIT = frozenset({Where.AFTER, Where.BEFORE, Where.PUT_BACK})
_BETWEEN = "was left between two states by an interruption: roll back first"
_Side = tuple[str, BlobId]


@dataclass(frozen=True, slots=True)
class Renewal:
    """A plan that is laid upon an integration.

    Attributes:
        moves: what differs between what stands there and what shall, sorted by path.
        earlier: the integration below; its entries that are not in force are void.
        originals: for paths that return to what they were before all of it, where that is saved.
    """

    moves: tuple[Change, ...]
    earlier: Journal
    originals: Mapping[bytes, Path]


@dataclass(frozen=True, slots=True)
class _Standing:
    """A path of the integration that is in force.

    Attributes:
        now: what stands there.
        original: what stood there before all of it.
        saved: where the original is, if it does not stand there and there is one.
    """

    now: _Side
    original: _Side
    saved: Path | None


def plan_renewal(journal: Journal, changes: Sequence[Change], mover: Mover) -> Renewal:
    """Return how the integration in force becomes `changes`; nothing is written.

    Args:
        journal: of the integration in force; it may have been interrupted.
        changes: the whole net effect that shall stand there, from what stood there before all of
            it; one change per path.
        mover: how files of this journal move.

    Raises:
        ConflictsError: a path is neither as the integration left it nor as it was before, or a
            change starts from something else.
        CorruptionError: slots are gone.
    """
    with open_benches(journal, mover) as benches:
        places = locate_all(benches)
        standings: dict[bytes, _Standing] = {}
        conflicts: list[PathConflict] = []
        for path, chain in chains(journal.layers).items():
            if reason := _unfit(places, chain):
                conflicts.append(PathConflict(path, reason))
            else:
                standings[path] = _standing(benches, places, chain)
    wanted = {change.path: change for change in changes}
    conflicts += [
        PathConflict(path, "is not what the changes start from")
        for path, standing in standings.items()
        if path in wanted and _old_side(wanted[path]) != standing.original
    ]
    if conflicts:
        raise ConflictsError("what is integrated cannot be replaced", conflicts)
    moves = [change for change in changes if change.path not in standings]
    originals: dict[bytes, Path] = {}
    for path, standing in standings.items():
        target = _new_side(wanted[path]) if path in wanted else standing.original
        if target != standing.now:
            moves.append(_change(path, standing.now, target))
            if target == standing.original and standing.saved is not None:
                originals[path] = standing.saved
    moves.sort(key=lambda change: change.path)
    return Renewal(tuple(moves), _in_force(journal.layers, places), originals)


def _unfit(places: Places, chain: Sequence[Link]) -> str | None:
    for link in chain:
        place = places[link.layer][link.slot]
        if place is Where.BETWEEN:
            return _BETWEEN
        if place is not None and place not in _FIT:
            return REASONS[place]
    return None


def _standing(benches: Sequence[Bench], places: Places, chain: Sequence[Link]) -> _Standing:
    original = chain[-1].entry.before
    moved = [link for link in chain if places[link.layer][link.slot] is Where.AFTER]
    if not moved:
        return _Standing(_side(original), _side(original), None)
    oldest = moved[-1]
    saved = benches[oldest.layer].journal.slots / str(oldest.slot)
    return _Standing(
        _side(moved[0].entry.after), _side(original), None if original is None else saved
    )


def _in_force(layers: Sequence[Journal], places: Places) -> Journal:
    """Return the layers as one journal whose entries that are not in force are void."""
    below: Journal | None = None
    for layer, where in zip(reversed(layers), reversed(places), strict=True):
        entries = tuple(
            entry if place is Where.AFTER else replace(entry, after=entry.before)
            for entry, place in zip(layer.entries, where, strict=True)
        )
        below = replace(layer, entries=entries, earlier=below)
    assert below is not None
    return below


def _side(state: FileState | None) -> _Side:
    return _ABSENT if state is None else (state.mode, state.blob)


def _old_side(change: Change) -> _Side:
    return _ABSENT if change.old_mode == ABSENT_MODE else (change.old_mode, change.old_blob)


def _new_side(change: Change) -> _Side:
    return _ABSENT if change.new_mode == ABSENT_MODE else (change.new_mode, change.new_blob)


def _change(path: bytes, old: _Side, new: _Side) -> Change:
    if old == _ABSENT:
        status = ChangeStatus.ADDED
    elif new == _ABSENT:
        status = ChangeStatus.DELETED
    else:
        status = ChangeStatus.MODIFIED
    return Change(path, status, old[0], new[0], old[1], new[1])


def stage_originals(staged: Path, originals: Mapping[bytes, Path]) -> None:
    """Replace staged files by the originals that were saved, which may differ from what Git has.

    Args:
        staged: where a checkout of the moves lies.
        originals: see `Renewal`.
    """
    for path, saved in originals.items():
        target = staged / path.decode("utf-8", "surrogateescape")
        target.unlink()
        shutil.copy2(saved, target, follow_symlinks=False)
