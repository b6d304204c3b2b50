"""Going on with an integration, and taking it back, from what its journal and the disk say.

Both decide about every path before they move the first file, and read each file for it. All of it
blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from engine.core.changes import quote_path
from engine.core.errors import ConflictError, CorruptionError, ExternalError, reason_of
from worktrees.apply_bench import Bench
from worktrees.apply_ground import Leaving, obstacle, unusable
from worktrees.apply_layers import Places, chains, locate_all, open_benches
from worktrees.apply_plan import (
    ConflictsError,
    PathConflict,
    PlannedMove,
    Put,
    Replace,
    Take,
    Where,
    moves_of,
)
from worktrees.apply_slots import remove_slots
from worktrees.exchange import Mover
from worktrees.journal import FileState, Journal, JournalState
from worktrees.journal_store import advance, reinstate_journal

_INTERRUPTED = frozenset({JournalState.APPLYING, JournalState.ROLLING_BACK})
_TO_DO = frozenset({Where.BEFORE, Where.BETWEEN})
_TO_UNDO = frozenset({Where.AFTER, Where.BETWEEN, Where.DISPLACED})
_AS_PLANNED = frozenset({Where.AFTER})
_NOT_ASTRAY = frozenset(Where) - {Where.EDITED, Where.LOST}
REASONS = {
    Where.PUT_BACK: "was put back by hand",
    Where.DISPLACED: "was edited while the changes were applied",
    Where.LOST: "was removed by hand, or its saved original was",
    Where.EDITED: "was edited since",
}


class FileOutcome(Enum):
    """What a rollback did with one file."""

    RESTORED = "restored"
    REMOVED = "removed"
    ALREADY = "already"
    EDITED = "edited"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """A path and what a rollback did there.

    Attributes:
        outcome: RESTORED to what stood there before; REMOVED, since nothing did; ALREADY as
            before. When the rollback is refused nothing is done: EDITED is a path in the way of
            it, KEPT one that still is as the integration left it.
    """

    path: bytes
    outcome: FileOutcome


class RollbackRefusedError(ConflictsError):
    """Paths were edited since the integration; nothing was done.

    Attributes:
        answers: every path of the plan, sorted.
    """

    def __init__(self, conflicts: list[PathConflict], answers: tuple[FileAnswer, ...]) -> None:
        self.answers = answers
        super().__init__("nothing was rolled back", conflicts)


class IncompleteError(ExternalError):
    """Not everything could be put back; the journal says `rolling_back`, and rollback goes on.

    Attributes:
        paths: those that are known to be left, if it was for them.
    """

    def __init__(self, reason: str, paths: tuple[bytes, ...] = ()) -> None:
        self.paths = paths
        super().__init__(f"{reason}; not everything was put back: settle that and roll back again")


class ApplyFailedError(ExternalError):
    """The machine failed while changes were applied; what had been moved was put back."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the changes could not be applied, and none is left: {reason_of(error)}")


def carry_out(journal: Journal, mover: Mover) -> Journal:
    """Carry a new journal out to its end, or leave everything as it was; see `apply.execute`."""
    assert journal.state is JournalState.APPLYING
    with Bench(journal, mover) as bench:
        done: list[PlannedMove] = []
        try:
            bench.carry_out(moves_of(journal), done)
            return advance(journal, JournalState.VERIFYING)
        except OSError as error:
            _take_all_back(bench, done)
            raise ApplyFailedError(error) from error
        except ConflictsError:
            _take_all_back(bench, done)
            raise


def _take_all_back(bench: Bench, done: list[PlannedMove]) -> None:
    """Undo what one call did, whether or not the journal can be written meanwhile.

    On a full disk it cannot. Moving files back needs no room, and a journal that still says
    `applying` beside a checkout as it was before is a true one.
    """
    journal = bench.journal
    if journal.earlier is not None:
        _undo(bench, done)
        _return_to_earlier(journal, journal.earlier)
        return
    try:
        advance(journal, JournalState.ROLLING_BACK)
    except OSError:
        _undo(bench, done)
        return
    _undo(bench, done)
    try:
        _end_rollback(replace(journal, state=JournalState.ROLLING_BACK))
    except OSError:
        return


def _return_to_earlier(journal: Journal, earlier: Journal) -> None:
    """Put the integration that `journal` was planned upon in force again, if that can be written.

    If not, nothing is wrong: the plan stays one of which nothing was done yet.
    """
    try:
        reinstate_journal(earlier)
    except OSError:
        return
    remove_slots(journal.folder, journal.slots)


def _undo(bench: Bench, done: list[PlannedMove]) -> None:
    try:
        left = bench.take_back(done)
    except OSError as error:
        raise IncompleteError(str(error)) from error
    if left:
        shown = ", ".join(quote_path(path) for path in left)
        raise IncompleteError(f"{shown} was edited meanwhile", left)


def _end_rollback(journal: Journal) -> None:
    advance(journal, JournalState.ROLLED_BACK)
    for layer in journal.layers:
        remove_slots(layer.folder, layer.slots)


def complete(journal: Journal, mover: Mover) -> Journal:
    """Finish what `journal` plans; see `apply.resume`."""
    if journal.state in (JournalState.ROLLING_BACK, JournalState.ROLLED_BACK):
        raise ConflictError(
            f"the integration is {journal.state.value.replace('_', ' ')} and cannot be completed; "
            "finish the rollback, then integrate again"
        )
    with open_benches(journal, mover) as benches:
        places = locate_all(benches)
        bench, where = benches[0], places[0]
        allowed = _AS_PLANNED | (_TO_DO if journal.state is JournalState.APPLYING else set())
        conflicts = _astray(benches[:1], places[:1], allowed)
        conflicts.extend(_astray(benches[1:], places[1:], _AS_PLANNED))
        conflicts.extend(_blocked(benches[:1], _arrivals(bench, where)))
        if conflicts:
            raise ConflictsError("the integration cannot be completed", conflicts)
        bench.tidy()
        if journal.state is JournalState.APPLYING:
            _complete_moves(bench, where)
        return advance(journal, JournalState.VERIFYING)


def _astray(
    benches: Sequence[Bench], places: Places, allowed: frozenset[Where]
) -> list[PathConflict]:
    """Return the entries that do not stand where they may."""
    return [
        PathConflict(entry.path, REASONS.get(place, "was put back by hand"))
        for bench, where in zip(benches, places, strict=True)
        for entry, place in zip(bench.journal.entries, where, strict=True)
        if place is not None and place not in allowed
    ]


def _complete_moves(bench: Bench, where: tuple[Where | None, ...]) -> None:
    done: list[PlannedMove] = []
    try:
        bench.carry_out(_moves_at(bench.journal, where, _TO_DO), done)
    except (OSError, ConflictsError) as error:
        # Back to where the interruption left it: a rollback is a decision of the caller's.
        _undo(bench, done)
        if isinstance(error, OSError):
            raise ApplyFailedError(error) from error
        raise


def put_back(journal: Journal, mover: Mover) -> tuple[FileAnswer, ...]:
    """Return every path of `journal` to what it was; see `apply.rollback`."""
    if journal.state is JournalState.ROLLED_BACK:
        raise ConflictError("the integration has been rolled back already")
    with open_benches(journal, mover) as benches:
        places = locate_all(benches)
        for bench, where in zip(benches, places, strict=True):
            interrupted = bench is benches[0] and journal.state in _INTERRUPTED
            _check_originals(bench.journal, where, interrupted=interrupted)
        returns = _returns(benches, places)
        lost = [*_astray(benches, places, _NOT_ASTRAY), *_blocked(benches, returns)]
        if lost:
            kept = {each.path: FileOutcome.KEPT for each in returns}
            edited = {conflict.path: FileOutcome.EDITED for conflict in lost}
            raise RollbackRefusedError(lost, _answers(journal, kept | edited))
        try:
            rolling_back = advance(journal, JournalState.ROLLING_BACK)
        except OSError as error:
            raise IncompleteError(str(error)) from error
        for bench, where in zip(benches, places, strict=True):
            _undo(bench, list(_moves_at(bench.journal, where, _TO_UNDO)))
    try:
        _end_rollback(rolling_back)
    except OSError as error:
        raise IncompleteError(str(error)) from error
    return _answers(journal, {each.path: _outcome(each) for each in returns})


def _check_originals(
    journal: Journal, where: tuple[Where | None, ...], *, interrupted: bool
) -> None:
    """Make sure that what was moved away is still there.

    Raises:
        CorruptionError: a saved original is gone or is not what was saved. In an interrupted
            integration it may differ: then somebody wrote to the path at that moment, and what was
            moved away is theirs.
    """
    for entry, place in zip(journal.entries, where, strict=True):
        removed_by_hand = interrupted and entry.after is None
        if (place is Where.LOST and not removed_by_hand) or (
            place is Where.DISPLACED and not interrupted
        ):
            raise CorruptionError(
                f"the saved original of {quote_path(entry.path)} in {journal.slots} is not what "
                "was saved; nothing was done"
            )


def _moves_at(
    journal: Journal, where: tuple[Where | None, ...], wanted: frozenset[Where]
) -> tuple[PlannedMove, ...]:
    """Return the moves for entries that stand at `wanted`, and all moves for folders."""
    return tuple(
        move
        for move in moves_of(journal)
        if not isinstance(move, Take | Put | Replace) or where[move.slot] in wanted
    )


@dataclass(frozen=True, slots=True)
class _Journey:
    """A path on its way to another state.

    Attributes:
        is_there: whether anything stands at the path now.
        target: what will.
    """

    path: bytes
    is_there: bool
    target: FileState | None


def _arrivals(bench: Bench, where: tuple[Where | None, ...]) -> list[_Journey]:
    """Return the paths of a plan that are still on their way to what it leads to."""
    return [
        _Journey(entry.path, entry.before is not None and place is not Where.BETWEEN, entry.after)
        for entry, place in zip(bench.journal.entries, where, strict=True)
        if place in _TO_DO
    ]


def _returns(benches: Sequence[Bench], places: Places) -> list[_Journey]:
    """Return the paths that have to go back to what they were before all of it."""
    journeys = []
    for path, chain in chains([bench.journal for bench in benches]).items():
        moved = [link for link in chain if places[link.layer][link.slot] in _TO_UNDO]
        if moved:
            newest, oldest = moved[0], moved[-1].entry
            is_between = places[newest.layer][newest.slot] is Where.BETWEEN
            is_there = newest.entry.after is not None and not is_between
            journeys.append(_Journey(path, is_there, oldest.before))
    return journeys


def _blocked(benches: Sequence[Bench], journeys: Sequence[_Journey]) -> list[PathConflict]:
    """Return what keeps paths from reaching their targets.

    What the plans make and remove in the way of folders goes either way.
    """
    folders, slots = benches[0].folders, benches[0].journal.slots
    touched = {gone.path for bench in benches for gone in bench.journal.removed_folders}
    touched |= {made for bench in benches for made in bench.journal.made_folders}
    leaving = Leaving(
        frozenset(each.path for each in journeys if each.target is None), frozenset(touched)
    )
    conflicts = [
        PathConflict(each.path, reason)
        for each in journeys
        if each.target is not None
        and not each.is_there
        and (reason := obstacle(folders, each.path, leaving, frozenset(touched)))
    ]
    moving = [*(each.path for each in journeys), *sorted(touched)] if journeys else []
    return conflicts or list(unusable(folders, moving, slots.stat().st_dev))


def _outcome(journey: _Journey) -> FileOutcome:
    return FileOutcome.REMOVED if journey.target is None else FileOutcome.RESTORED


def _answers(journal: Journal, outcomes: Mapping[bytes, FileOutcome]) -> tuple[FileAnswer, ...]:
    """Return an answer for each path of the plan; one without an outcome was as before already."""
    return tuple(
        FileAnswer(path, outcomes.get(path, FileOutcome.ALREADY)) for path in chains(journal.layers)
    )
