"""What garbage collection may remove of a run, and why the rest stays: a pure function of facts.

Anything that is not known to be both the engine's own and no longer needed stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from engine.core.ids import RunId, TaskId
from worktrees.journal import JournalState

_BUSY = frozenset({JournalState.APPLYING, JournalState.VERIFYING, JournalState.ROLLING_BACK})


class What(Enum):
    """What an item of a report is."""

    RUN = "run"
    WORKTREE = "worktree"
    REF = "ref"
    FILE = "file"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that goes, or that stays for a reason.

    Attributes:
        run: whose it is, None for what belongs to no run.
        name: a path, a ref, or the id of a run.
        reason: a sentence; None for what goes.
    """

    what: What
    name: str
    run: RunId | None = None
    reason: str | None = None


class Standing(Enum):
    """What there is of a worktree.

    A folder that is `ASIDE` was proved to hold nothing of anybody and moved away to be deleted, and
    that was cut short.
    """

    PRESENT = "present"
    MISSING = "missing"
    ASIDE = "aside"


@dataclass(frozen=True, slots=True)
class WorktreeFacts:
    """A worktree of a run, or what is left of one.

    Attributes:
        name: of its folder: the writer's id, or `pr.<number>`.
        writer: who worked there; None where reviewers read a pull request.
    """

    name: str
    path: Path
    writer: TaskId | None
    standing: Standing


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run that has a record.

    Attributes:
        owner: the live process that owns it, by its own words.
        damage: what is wrong with its records; nothing else is known then.
        journal: how far its integration got.
        at_stake: writers that left something which would be lost.
        outstanding: why their changes are not known to be in the checkout; None when they are.
        worktrees: those that are there, or of which something is.
        elsewhere: worktrees of the run outside of the state folder that the caller names.
        strangers: what lies among its worktrees and is none.
        refs: of the run, as its records name them; without that of its evidence.
        foreign_refs: below its prefix, and not what its records say.
        indexes: what the engine keeps beside its worktrees.
        waste: what nobody needs, whatever becomes of the run.
    """

    run: RunId
    owner: str | None = None
    damage: str | None = None
    is_settled: bool = True
    is_retired: bool = False
    journal: JournalState | None = None
    at_stake: frozenset[TaskId] = frozenset()
    outstanding: str | None = None
    worktrees: tuple[WorktreeFacts, ...] = ()
    elsewhere: tuple[Path, ...] = ()
    strangers: tuple[Path, ...] = ()
    refs: Mapping[str, str] = field(default_factory=dict)
    foreign_refs: tuple[str, ...] = ()
    indexes: tuple[Path, ...] = ()
    waste: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a run.

    Attributes:
        retire: whether it is to be marked, after the worktrees and before anything else goes.
    """

    worktrees: tuple[WorktreeFacts, ...] = ()
    retire: bool = False
    refs: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    kept: tuple[Item, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.worktrees or self.retire or self.refs or self.files)

    def removals(self, run: RunId) -> list[Item]:
        """Return what goes, in the order in which it does."""
        return [
            *(Item(What.WORKTREE, str(each.path), run) for each in self.worktrees),
            *(Item(What.REF, ref, run) for ref in self.refs),
            *(Item(What.FILE, str(path), run) for path in self.files),
        ]


def hands_off(facts: RunFacts) -> str | None:
    """Return why nothing of a run may be touched, None when something may."""
    run = facts.run
    if facts.owner is not None:
        return f"it is owned by {facts.owner}"
    if facts.damage is not None:
        return facts.damage
    if not facts.is_settled:
        return f"it has not settled: `pinata resume {run}` finishes or closes it"
    if facts.journal is JournalState.ROLLING_BACK:
        return f"a rollback was begun and not finished: `pinata rollback {run} --confirm` ends it"
    if facts.journal in _BUSY:
        return (
            f"its integration was interrupted: `pinata integrate {run}` completes it, "
            f"`pinata rollback {run} --confirm` undoes it"
        )
    return None


def candidates(facts: RunFacts, *, discard: bool) -> tuple[WorktreeFacts, ...]:
    """Return the worktrees that may go if nobody put anything of theirs there."""
    if hands_off(facts) is not None:
        return ()
    return tuple(
        each
        for each in facts.worktrees
        if each.standing is Standing.ASIDE
        or _why_needed(facts, each.writer, discard=discard) is None
    )


def make_plan(facts: RunFacts, touched: Mapping[str, str | None], *, discard: bool) -> Plan:
    """Return what may be removed of a run and why the rest stays.

    Args:
        facts: about the run.
        touched: what in each candidate, by its name, is somebody else's, None where nothing is.
        discard: whether somebody named the run as one whose changes are not wanted.
    """
    if (reason := hands_off(facts)) is not None:
        return Plan(kept=(Item(What.RUN, facts.run, facts.run, reason),))
    going = tuple(c for c in candidates(facts, discard=discard) if touched[c.name] is None)
    kept = _kept(facts, touched, discard=discard)
    in_the_way = any(item.what in (What.RUN, What.WORKTREE) for item in kept)
    kept += [
        Item(What.FILE, str(path), facts.run, "no record of the run names it")
        for path in facts.strangers
    ]
    kept += [
        Item(What.REF, ref, facts.run, "it is not what the run's records say")
        for ref in facts.foreign_refs
    ]
    if in_the_way:
        return Plan(going, files=facts.waste, kept=tuple(kept))
    files = (*facts.indexes, *facts.waste)
    return Plan(going, not facts.is_retired, facts.refs, files, tuple(kept))


def _kept(facts: RunFacts, touched: Mapping[str, str | None], *, discard: bool) -> list[Item]:
    """Return the worktrees that stay, and the run itself where its objects are still needed."""
    kept: list[Item] = []
    for each in facts.worktrees:
        reason = touched.get(each.name)
        if each.standing is not Standing.ASIDE:
            reason = _why_needed(facts, each.writer, discard=discard) or reason
        if reason is not None:
            kept.append(Item(What.WORKTREE, str(each.path), facts.run, reason))
    kept += [
        Item(
            What.WORKTREE,
            str(path),
            facts.run,
            "it lies outside of this state folder: set XDG_STATE_HOME as it was, and call again",
        )
        for path in facts.elsewhere
    ]
    needed = [_why_needed(facts, writer, discard=discard) for writer in sorted(facts.at_stake)]
    if not kept and (reasons := [reason for reason in needed if reason is not None]):
        kept.append(Item(What.RUN, facts.run, facts.run, reasons[0]))
    return kept


def _why_needed(facts: RunFacts, writer: TaskId | None, *, discard: bool) -> str | None:
    """Return why what a writer left is still needed, None when it is not."""
    if writer not in facts.at_stake or facts.outstanding is None or discard or facts.is_retired:
        return None
    return f"{facts.outstanding}: integrate or repair it, or name the run with --discard"


@dataclass(frozen=True, slots=True)
class CreationFacts:
    """A folder without the record of a run.

    Attributes:
        owner: the live process that holds its lock.
        idle_ms: how long ago anything in it changed.
        unexpected: what no creation makes before the record: names of files, or refs.
    """

    run: RunId
    owner: str | None
    idle_ms: int
    unexpected: tuple[str, ...]


# Making a run takes seconds; fetching a pull request is the longest of it.
GRACE_MS = 3_600_000


def why_not_abandoned(facts: CreationFacts) -> str | None:
    """Return why a folder without a record stays, None when nobody will finish it."""
    if facts.owner is not None:
        return f"it is being made by {facts.owner}"
    if facts.unexpected:
        beside = facts.unexpected[0]
        return (
            f"run.json is missing beside {beside}, which only a run can have: put it back, or "
            "remove the folder"
        )
    if facts.idle_ms < GRACE_MS:
        return "it was begun less than an hour ago, so somebody may be making it"
    return None
