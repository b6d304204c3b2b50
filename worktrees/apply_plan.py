"""What an integration has to do, decided from its changes alone; nothing here touches the disk."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.core.changes import ABSENT_MODE, GITLINK_MODE, Change, quote_path
from engine.core.errors import ConflictError, UsageError
from engine.core.paths import has_git_segment
from worktrees.folders import ancestors
from worktrees.journal import FileState, Journal, JournalEntry, RemovedFolder

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class PathConflict:
    """A path that stands in the way, and how: the reason continues a sentence about the path."""

    path: bytes
    reason: str


class ConflictsError(ConflictError):
    """Paths are not as they must be; nothing was written.

    Attributes:
        conflicts: all of them, sorted by path, each path once. The message shows the first 20.
    """

    def __init__(self, what: str, conflicts: Iterable[PathConflict]) -> None:
        first: dict[bytes, PathConflict] = {}
        for conflict in conflicts:
            first.setdefault(conflict.path, conflict)
        self.conflicts = tuple(first[path] for path in sorted(first))
        shown = [f"{quote_path(one.path)} {one.reason}" for one in self.conflicts[:_SHOWN]]
        if more := len(self.conflicts) - len(shown):
            shown.append(f"and {more} more")
        super().__init__(f"{what}: " + "; ".join(shown))

    @property
    def paths(self) -> tuple[bytes, ...]:
        """The paths in conflict, sorted."""
        return tuple(conflict.path for conflict in self.conflicts)


def _is_nothing(change: Change) -> bool:
    return (change.old_mode, change.old_blob) == (change.new_mode, change.new_blob)


def check_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return `changes` sorted by path, if they can be put into a checkout at all.

    Raises:
        UsageError: a path twice, a path that leads out of the checkout or into a `.git` folder, a
            submodule, a change that changes nothing, or results that cannot exist side by side.
    """
    ordered = tuple(sorted(changes, key=lambda change: change.path))
    results = {change.path for change in ordered if change.new_mode != ABSENT_MODE}
    for at, change in enumerate(ordered):
        shown = quote_path(change.path)
        if not _is_inside(change.path):
            raise UsageError(f"{shown} is not a path inside a checkout")
        if at and ordered[at - 1].path == change.path:
            raise UsageError(f"{shown} is changed twice; pass the net effect of the changes")
        if GITLINK_MODE in (change.old_mode, change.new_mode):
            raise UsageError(f"{shown} is a submodule, which cannot be integrated")
        if _is_nothing(change):
            raise UsageError(f"{shown} is listed as a change but does not change")
        if change.path in results and not results.isdisjoint(ancestors(change.path)):
            raise UsageError(f"{shown} lies below a path that becomes a file")
    return ordered


def _is_inside(path: bytes) -> bool:
    segments = path.split(b"/")
    return (
        b"\0" not in path
        and not has_git_segment(path)
        and not any(segment in (b"", b".", b"..") for segment in segments)
    )


@dataclass(frozen=True, slots=True)
class Take:
    """Move what stands at an entry's path into its slot."""

    slot: int
    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class Put:
    """Move what lies in the slot to the entry's path, which is free."""

    slot: int
    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class Replace:
    """Let what stands at the entry's path and what lies in its slot change places."""

    slot: int
    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class RemoveFolder:
    """Remove a folder, if it is empty."""

    folder: RemovedFolder


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """Make a folder, if it is not there."""

    path: bytes


PlannedMove = Take | Put | Replace | RemoveFolder | MakeFolder


def moves_of(journal: Journal) -> tuple[PlannedMove, ...]:
    """Return the moves of `journal` in an order in which each finds its place free.

    Deletions come first, the deepest first, then the folders that they empty; folders for what is
    new, the outermost first; then additions and replacements in path order. Undone from the end to
    the beginning, each finds its place free again.
    """
    takes: list[PlannedMove] = []
    puts: list[PlannedMove] = []
    for slot, entry in enumerate(journal.entries):
        if entry.is_void:
            continue
        if entry.after is None:
            takes.append(Take(slot, entry))
        elif entry.before is None:
            puts.append(Put(slot, entry))
        else:
            puts.append(Replace(slot, entry))
    removals: list[PlannedMove] = [RemoveFolder(gone) for gone in reversed(journal.removed_folders)]
    makings: list[PlannedMove] = [MakeFolder(path) for path in journal.made_folders]
    return (*reversed(takes), *removals, *makings, *puts)


class Where(Enum):
    """Where one path of a plan stands.

    BEFORE and AFTER also say that the slot holds the other side, so that the move can be made or
    undone. BETWEEN: an exchange by steps was cut short, nothing stands there, and both sides lie in
    the slots. PUT_BACK: what stood there before is there again, but not by our hand. DISPLACED: the
    move was made, or begun, and took away something else than was planned, because somebody wrote
    to the path at that moment. LOST: the path is as it should be after the move, but what was moved
    away is gone. EDITED: anything else.
    """

    BEFORE = "before"
    AFTER = "after"
    BETWEEN = "between"
    PUT_BACK = "put back"
    DISPLACED = "displaced"
    LOST = "lost"
    EDITED = "edited"


def locate(
    entry: JournalEntry,
    live: FileState | None,
    slot: FileState | None,
    aside: FileState | None = None,
) -> Where:
    """Return where `entry` stands.

    Args:
        entry: of a plan.
        live: what is at its path.
        slot: what is in its slot.
        aside: what lies where an exchange by steps keeps what it took away.
    """
    slot, aside = _unless_same_file(slot, live), _unless_same_file(aside, live)
    if aside is not None and slot is not None:
        return _locate_cut_short(entry, live, slot, aside)
    return _locate_whole(entry, live, slot or aside)


def _unless_same_file(kept: FileState | None, live: FileState | None) -> FileState | None:
    """Return `kept` unless it is a second name, left by a link, of the very file at the path."""
    if kept is None or live is None:
        return kept
    same = (kept.identity.device, kept.identity.inode) == (
        live.identity.device,
        live.identity.inode,
    )
    return None if same else kept


def _locate_cut_short(
    entry: JournalEntry, live: FileState | None, slot: FileState, aside: FileState
) -> Where:
    sides = ((entry.before, entry.after), (entry.after, entry.before))
    both = any(_same(slot, one) and _same(aside, other) for one, other in sides)
    if live is None:
        return Where.BETWEEN if both else Where.DISPLACED
    return Where.PUT_BACK if both and _same(live, entry.before) else Where.EDITED


def _locate_whole(entry: JournalEntry, live: FileState | None, slot: FileState | None) -> Where:
    live_before, live_after = _same(live, entry.before), _same(live, entry.after)
    slot_before, slot_after = _same(slot, entry.before), _same(slot, entry.after)
    if live_before and slot_after:
        return Where.BEFORE
    if live_after and slot_before:
        return Where.AFTER
    if live_before:
        return Where.PUT_BACK
    if live_after and slot is None:
        return Where.LOST
    if live_after and not slot_after:
        return Where.DISPLACED
    return Where.EDITED


def _same(found: FileState | None, planned: FileState | None) -> bool:
    if found is None or planned is None:
        return found is planned
    return found.same_content(planned)
