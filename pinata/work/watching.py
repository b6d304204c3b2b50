"""What a writer must leave alone, looked at before and after it works."""

from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.changes import quote_path
from engine.core.quote import name_list
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft
from pinata.work.neighbours import Neighbours, look_at_neighbours, robbed
from pinata.work.workplace import Workplace
from pinata.work.workshop import Workshop
from worktrees.capture import Capture
from worktrees.first_rules import Rules, keep_first_rules, read_first_rules, shared_rules
from worktrees.hygiene import Repository
from worktrees.include import read_included
from worktrees.unseen import Unseen, digests, keep_unseen, look, read_unseen
from worktrees.watch import Surroundings, differing, watch, with_kept


@dataclass(frozen=True, slots=True)
class Before:
    """What there was when the writer began.

    Attributes:
        surroundings: of its worktree.
        unseen: in its worktree.
        neighbours: other runs of the repository.
        altered_rules: what decides what Git sees and is not as it was before the writer's first
            attempt.
    """

    surroundings: Surroundings
    unseen: Unseen
    neighbours: Neighbours
    altered_rules: tuple[str, ...] = ()

    @property
    def fault(self) -> str | None:
        """Why the writer cannot begin, None if it can."""
        if not self.altered_rules:
            return None
        return (
            "since its first attempt began, what decides what Git sees was changed: "
            f"{name_list(self.altered_rules)}; put that back as it was, or start a new run"
        )


async def look_before(workshop: Workshop, draft: Draft, place: Workplace) -> Before:
    """Return what a writer is about to find, its worktree being ready.

    Of what Git does not look at, and of what decides that, a repaired writer answers for what it
    did in earlier attempts too, as it does for its change: what counts is how the worktree was
    handed to the first.
    """
    worktree, seed = place.worktree, workshop.run.folder.index_file(draft.task.id)
    unseen = None
    if place.content is None:
        unseen = await trio.to_thread.run_sync(read_unseen, seed)
    if unseen is None and await _is_prepared(workshop, seed):
        unseen = found = await look(worktree, seed, workshop.scratch)
        await in_thread(lambda: keep_unseen(seed, found), "cannot keep what is in the worktree")
    around = await watch(workshop.run.repository, worktree)
    altered = await _altered_rules(workshop, seed, place, around.rules)
    # The records that were just written are watched too.
    surroundings = await with_kept(around, await trio.to_thread.run_sync(_kept, seed))
    neighbours = await look_at_neighbours(workshop.run, surroundings.own_refs)
    return Before(surroundings, unseen or Unseen(), neighbours, altered)


async def _altered_rules(
    workshop: Workshop, seed: Path, place: Workplace, now: Rules
) -> tuple[str, ...]:
    """Return which rules are not as they were before the first attempt; remember those of one."""
    first = await trio.to_thread.run_sync(read_first_rules, seed)
    if first is None:
        await in_thread(lambda: keep_first_rules(seed, now), "cannot keep what Git goes by")
        return ()
    if place.content is not None:
        # What was decided in a worktree that is gone went with it.
        repository = workshop.run.repository
        first, now = shared_rules(repository, first), shared_rules(repository, now)
    return differing(first, now)


async def _is_prepared(workshop: Workshop, seed: Path) -> bool:
    """Whether anything was done to a new worktree; else it holds what is tracked and no more."""
    if workshop.run.record.setup.command is not None:
        return True
    return bool(await trio.to_thread.run_sync(read_included, seed))


async def disturbance(
    workshop: Workshop, draft: Draft, before: Before, worktree: Repository
) -> str | None:
    """Return what was done to the repository around a writer's worktree, None when nothing.

    What only the user should have done, but may do at any time, becomes a notice.
    """
    after = await _surroundings(workshop, draft, worktree)
    if moved := differing(before.surroundings.user_refs, after.user_refs):
        notice = f"while it worked, {name_list(moved)} moved in the user's repository"
        if notice not in draft.notices:
            draft.notices.append(notice)
    if altered := differing(before.surroundings.rules, after.rules):
        return f"it changed what decides what Git sees: {name_list(altered)}"
    if foreign := await workshop.keeper.moved_by_others():
        return f"refs of the run were moved: {name_list(foreign)}"
    if stolen := await robbed(workshop.run, before.neighbours, after.own_refs):
        return f"refs of other runs were moved or deleted: {name_list(stolen)}"
    return None


async def note_ignored(draft: Draft, before: Before, worktree: Repository, found: Capture) -> None:
    """Name the ignored files that are no part of a capture and that a check could see."""
    # Also what was ignored before: it may not be any more, and still be as it was.
    after = await digests(worktree, sorted({*found.ignored, *before.unseen.ignored}))
    if moved := differing(before.unseen.ignored, after):
        named = name_list([quote_path(path) for path in moved])
        draft.notices.append(
            f"ignored files came, changed or went while it worked, are no part of its change, "
            f"and could be seen by checks: {named}"
        )


async def _surroundings(workshop: Workshop, draft: Draft, worktree: Repository) -> Surroundings:
    seed = workshop.run.folder.index_file(draft.task.id)
    kept = await trio.to_thread.run_sync(_kept, seed)
    return await watch(workshop.run.repository, worktree, kept)


def _kept(seed_index: Path) -> list[Path]:
    """Return the files that captures of a worktree rely on."""
    return [seed_index, *seed_index.parent.glob(f"{seed_index.name}.*")]
