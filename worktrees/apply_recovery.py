"""Going on with an integration, and taking it back, from what its journal and the disk say.

Both decide about every path before they move the first file, and read each file for it. All of it
blocks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum

from engine.core.changes import quote_path
from engine.core.errors import ConflictError, CorruptionError, ExternalError
from worktrees.apply_bench import Bench
from worktrees.apply_ground import Leaving, obstacle, unusable
from worktrees.apply_plan import (
    ConflictsError,
    PathConflict,
    Put,
    Replace,
    Step,
    Take,
    Where,
    steps_of,
)
from worktrees.apply_slots import remove_slots
from worktrees.apply_state import machine_failures
from worktrees.exchange import Mover
from worktrees.journal import Journal, JournalState
from worktrees.journal_store import advance

_INTERRUPTED = frozenset({JournalState.APPLYING, JournalState.ROLLING_BACK})
_TO_DO = frozenset({Where.BEFORE, Where.BETWEEN})
_TO_UNDO = frozenset({Where.AFTER, Where.BETWEEN, Where.DISPLACED})
_REASONS = {
    Where.PUT_BACK: "was put back by hand",
    Where.DISPLACED: "was edited while the changes were applied",
    Where.LOST: "was removed by hand, or its saved original was",
    Where.EDITED: "was edited since",
}


class FileOutcome(Enum):
    """What a rollback did with one file."""

    RESTORED = "restored"
    ALREADY = "already"
    EDITED = "edited"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """A path and what a rollback did there.

    Attributes:
        outcome: RESTORED to what stood there before; ALREADY as before. When the rollback is
            refused nothing is done: EDITED is a path in the way of it, KEPT one that still is as
            the integration left it.
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
        super().__init__(f"the changes could not be applied, and none is left: {error.strerror}")


def carry_out(journal: Journal, mover: Mover) -> Journal:
    """Carry a new journal out to its end, or leave everything as it was; see `apply.execute`."""
    assert journal.state is JournalState.APPLYING
    with Bench(journal, mover) as bench:
        done: list[Step] = []
        try:
            bench.carry_out(steps_of(journal), done)
            return advance(journal, JournalState.VERIFYING)
        except OSError as error:
            _take_all_back(bench, done)
            raise ApplyFailedError(error) from error
        except ConflictsError:
            _take_all_back(bench, done)
            raise


def _take_all_back(bench: Bench, done: list[Step]) -> None:
    """Undo what one call did, whether or not the journal can be written meanwhile.

    On a full disk it cannot. Moving files back needs no room, and a journal that still says
    `applying` beside a checkout as it was before is a true one.
    """
    journal = bench.journal
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


def _undo(bench: Bench, done: list[Step]) -> None:
    try:
        left = bench.take_back(done)
    except OSError as error:
        raise IncompleteError(str(error)) from error
    if left:
        shown = ", ".join(quote_path(path) for path in left)
        raise IncompleteError(f"{shown} was edited meanwhile", left)


def _end_rollback(journal: Journal) -> None:
    advance(journal, JournalState.ROLLED_BACK)
    remove_slots(journal.folder, journal.slots)


def complete(journal: Journal, mover: Mover) -> Journal:
    """Finish what `journal` plans; see `apply.resume`."""
    if journal.state in (JournalState.ROLLING_BACK, JournalState.ROLLED_BACK):
        raise ConflictError(
            f"the integration is {journal.state.value.replace('_', ' ')} and cannot be completed; "
            "finish the rollback, then integrate again"
        )
    with _open_bench(journal, mover) as bench:
        where = bench.locate()
        conflicts = [
            PathConflict(entry.path, _REASONS.get(place, "was put back by hand"))
            for entry, place in zip(journal.entries, where, strict=True)
            if place is not Where.AFTER
            and not (place in _TO_DO and journal.state is JournalState.APPLYING)
        ]
        conflicts.extend(_blocked(bench, where, _TO_DO, coming=True))
        if conflicts:
            raise ConflictsError("the integration cannot be completed", conflicts)
        bench.tidy()
        if journal.state is JournalState.APPLYING:
            _complete_steps(bench, where)
        return advance(journal, JournalState.VERIFYING)


@contextmanager
def _open_bench(journal: Journal, mover: Mover) -> Iterator[Bench]:
    """Open a bench for a journal that was written by an earlier call.

    Raises:
        CorruptionError: its slots are gone.
        ExternalError: from the block too, for whatever the machine refuses.
    """
    if not journal.slots.is_dir():
        raise CorruptionError(
            f"the saved originals of the integration are gone from {journal.slots}; nothing was "
            "done"
        )
    with machine_failures("the checkout could not be looked at"), Bench(journal, mover) as bench:
        yield bench


def _complete_steps(bench: Bench, where: tuple[Where, ...]) -> None:
    done: list[Step] = []
    try:
        bench.carry_out(_steps_at(bench.journal, where, _TO_DO), done)
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
    with _open_bench(journal, mover) as bench:
        where = bench.locate()
        _check_originals(journal, where)
        edited = {
            entry.path: _REASONS[place]
            for entry, place in zip(journal.entries, where, strict=True)
            if place in (Where.EDITED, Where.LOST)
        }
        for conflict in _blocked(bench, where, _TO_UNDO, coming=False):
            edited.setdefault(conflict.path, conflict.reason)
        if edited:
            raise RollbackRefusedError(
                [PathConflict(path, reason) for path, reason in edited.items()],
                _answers(journal, where, FileOutcome.KEPT, frozenset(edited)),
            )
        try:
            rolling_back = advance(journal, JournalState.ROLLING_BACK)
        except OSError as error:
            raise IncompleteError(str(error)) from error
        _undo(bench, list(_steps_at(journal, where, _TO_UNDO)))
    try:
        _end_rollback(rolling_back)
    except OSError as error:
        raise IncompleteError(str(error)) from error
    return _answers(journal, where, FileOutcome.RESTORED, frozenset())


def _check_originals(journal: Journal, where: tuple[Where, ...]) -> None:
    """Make sure that what was moved away is still there.

    Raises:
        CorruptionError: a saved original is gone or is not what was saved. In an interrupted
            integration it may differ: then somebody wrote to the path at that moment, and what was
            moved away is theirs.
    """
    for entry, place in zip(journal.entries, where, strict=True):
        interrupted = journal.state in _INTERRUPTED
        removed_by_hand = interrupted and entry.after is None
        if (place is Where.LOST and not removed_by_hand) or (
            place is Where.DISPLACED and not interrupted
        ):
            raise CorruptionError(
                f"the saved original of {quote_path(entry.path)} in {journal.slots} is not what "
                "was saved; nothing was done"
            )


def _steps_at(
    journal: Journal, where: tuple[Where, ...], wanted: frozenset[Where]
) -> tuple[Step, ...]:
    """Return the steps for entries that stand at `wanted`, and all steps for folders."""
    return tuple(
        step
        for step in steps_of(journal)
        if not isinstance(step, Take | Put | Replace) or where[step.slot] in wanted
    )


def _blocked(
    bench: Bench, where: tuple[Where, ...], wanted: frozenset[Where], *, coming: bool
) -> list[PathConflict]:
    """Return what keeps entries at `wanted` from being moved to their after state, or back."""
    journal = bench.journal
    places = {
        entry: place for entry, place in zip(journal.entries, where, strict=True) if place in wanted
    }
    removed = frozenset(gone.path for gone in journal.removed_folders)
    made = frozenset(journal.made_folders)
    vanishing, appearing = (removed, made) if coming else (made, removed)
    targets = [(entry, entry.after if coming else entry.before) for entry in places]
    leaving = Leaving(
        frozenset(entry.path for entry, target in targets if target is None), vanishing
    )
    arriving = [
        entry.path
        for entry, target in targets
        if target is not None
        and (entry.before is None or entry.after is None or places[entry] is Where.BETWEEN)
    ]
    conflicts = [
        PathConflict(path, reason)
        for path in arriving
        if (reason := obstacle(bench.folders, path, leaving, appearing))
    ]
    device = journal.slots.stat().st_dev
    moving = [*(entry.path for entry in places), *sorted(removed | made)] if places else []
    return conflicts or list(unusable(bench.folders, moving, device))


def _answers(
    journal: Journal, where: tuple[Where, ...], moved: FileOutcome, edited: frozenset[bytes]
) -> tuple[FileAnswer, ...]:
    answers: list[FileAnswer] = []
    for entry, place in zip(journal.entries, where, strict=True):
        if entry.path in edited:
            outcome = FileOutcome.EDITED
        elif place in (Where.BEFORE, Where.PUT_BACK):
            outcome = FileOutcome.ALREADY
        else:
            outcome = moved
        answers.append(FileAnswer(entry.path, outcome))
    return tuple(answers)
