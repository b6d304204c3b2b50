"""Other runs of the repository, whose refs a writer must leave alone as well.

While its process lives, a run watches its own refs. Nobody does so afterwards, though its change
may still be asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import trio

from engine.core.ids import CommitId, RunId
from engine.system.holder import read_live_holder
from pinata.work.places import Places
from pinata.work.run import Run
from worktrees.evidence import is_later_evidence
from worktrees.refs import PREFIX, evidence_ref
from worktrees.watch import differing


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The refs of other runs that no process owned.

    Attributes:
        refs: what each of them held.
    """

    refs: Mapping[str, str]


async def look_at_neighbours(run: Run, own_refs: Mapping[str, str]) -> Neighbours:
    """Return what there is of other runs.

    Args:
        run: that looks.
        own_refs: all refs of runs, its own among them.
    """
    others = {ref: held for ref, held in own_refs.items() if _run_of(ref) != run.id}
    live = await trio.to_thread.run_sync(_live, run.places, set(map(_run_of, others)))
    return Neighbours({ref: held for ref, held in others.items() if _run_of(ref) not in live})


async def robbed(run: Run, before: Neighbours, own_refs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the refs of other runs that were moved or deleted by no process that owns them.

    Evidence may grow, and a run that somebody took up since keeps watch itself.
    """
    after = {ref: own_refs[ref] for ref in before.refs if ref in own_refs}
    suspects = differing(before.refs, after)
    live = await trio.to_thread.run_sync(_live, run.places, set(map(_run_of, suspects)))
    return tuple(
        [
            ref
            for ref in suspects
            if _run_of(ref) not in live
            and not await _has_grown(run, ref, before.refs[ref], after.get(ref))
        ]
    )


async def _has_grown(run: Run, ref: str, old: str, new: str | None) -> bool:
    other = _run_of(ref)
    if new is None or ref != evidence_ref(other):
        return False
    return await is_later_evidence(run.repository, other, CommitId(new), CommitId(old))


def _live(places: Places, runs: Iterable[RunId]) -> set[RunId]:
    return {run for run in runs if read_live_holder(places.run_lock(run)) is not None}


def _run_of(ref: str) -> RunId:
    return RunId(ref.removeprefix(PREFIX).partition("/")[0])
