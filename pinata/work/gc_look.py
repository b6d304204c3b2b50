"""Looks at what there is of a run, so that it can be decided what may go. Nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from engine.core.changes import quote_path
from engine.core.errors import CorruptionError, ExternalError, PinataError
from engine.core.quote import name_list
from engine.store import RunFolder
from engine.system.holder import read_live_holder
from pinata.work.approved import ordered_writers
from pinata.work.context import Context
from pinata.work.gc_plan import RunFacts, WorktreeFacts, hands_off
from pinata.work.gc_survey import Material, Seen, survey
from pinata.work.history import StoredRun, all_results, read_run
from pinata.work.places import Places
from pinata.work.retirement import is_retired
from pinata.work.review import evidence_digest, missing_approval
from pinata.work.verification import changes_made, final_results
from worktrees.discovery import discover
from worktrees.hygiene import Repository
from worktrees.journal import Journal, JournalState
from worktrees.journal_store import read_journal
from worktrees.machine import in_thread, refusal
from worktrees.presence import differing_paths
from worktrees.untouched import find_touch


@dataclass(frozen=True, slots=True)
class Site:
    """A repository that is looked at.

    Attributes:
        scratch: a folder of this call's own, outside of the repository.
    """

    context: Context
    repository: Repository
    places: Places
    scratch: Path


async def look_at_run(
    site: Site, folder: RunFolder, refs: Mapping[str, str], *, is_ours: bool
) -> Seen:
    """Return what there is of a run.

    Args:
        site: where.
        folder: the run's.
        refs: all that lie below `refs/pinata/`.
        is_ours: whether this process holds the run's lock.

    Raises:
        ExternalError: the machine failed.
    """
    if not is_ours:
        lock = site.places.run_lock(folder.run)
        owner = await trio.to_thread.run_sync(read_live_holder, lock)
        if owner is not None:
            # What it writes just now may be half there.
            return Seen(RunFacts(folder.run, owner), {})
    try:
        stored = await trio.to_thread.run_sync(read_run, folder)
        journal = await trio.to_thread.run_sync(read_journal, folder.integration)
        results = await trio.to_thread.run_sync(all_results, stored)
    except CorruptionError as error:
        return Seen(RunFacts(folder.run, damage=str(error)), {})
    except OSError as error:
        return Seen(RunFacts(folder.run, damage=f"it cannot be read: {refusal(error)}"), {})
    facts = RunFacts(
        folder.run,
        is_settled=stored.view.settled_at_ms is not None,
        is_retired=await in_thread(is_retired, folder),
        journal=None if journal is None else journal.state,
    )
    if hands_off(facts) is not None:
        return Seen(facts, {})
    now_ms = site.context.clock.now_ms()
    material = Material(site.repository, site.places, stored, journal, results, refs, now_ms)
    seen = await in_thread(survey, material, facts)
    if not seen.facts.at_stake or facts.is_retired:
        return seen
    outstanding = await _why_outstanding(site, stored, journal)
    return replace(seen, facts=replace(seen.facts, outstanding=outstanding))


async def find_touches(
    site: Site, seen: Seen, worktrees: Sequence[WorktreeFacts]
) -> dict[str, str | None]:
    """Return what in each of some worktrees is somebody else's, by name; None where nothing is.

    Raises:
        ExternalError: the machine failed.
    """
    touches: dict[str, str | None] = {}
    for each in worktrees:
        try:
            touch = await find_touch(site.repository, seen.leases[each.name], site.scratch)
        except CorruptionError as error:
            touch = str(error)
        touches[each.name] = touch
    return touches


async def _why_outstanding(site: Site, stored: StoredRun, journal: Journal | None) -> str | None:
    """Return why a run's changes are not known to be in its checkout; None when they are there."""
    if journal is None:
        return "its change was not integrated"
    if journal.state is JournalState.ROLLED_BACK:
        return "its integration was rolled back"
    if missing_approval(stored.spec, stored.results) is not None or (
        journal.evidence_digest != evidence_digest(stored.spec, stored.results)
    ):
        return "what it came to since then was not integrated"
    root = Path(stored.record.root)
    try:
        checkout = await discover(root, site.context.environment)
    except ExternalError:
        raise
    except PinataError as error:
        return f"its checkout cannot be looked at, since {error}"
    if checkout.root != root or checkout.common_dir != site.repository.common_dir:
        return f"its checkout {root} is not there any more"
    made = ((task, changes_made(stored.results.get(task))) for task in ordered_writers(stored.spec))
    results = final_results((task, changes) for task, changes in made if changes is not None)
    index = site.scratch / "destination.index"
    if differing := await differing_paths(checkout, results, index):
        named = name_list([quote_path(path) for path in differing])
        return f"its checkout does not hold its change any more in {named}"
    return None
