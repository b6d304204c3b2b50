"""Other runs of the repository, whose refs a writer must leave alone as well.

While its process lives, a run watches its own refs. Nobody does so afterwards, though its change
may still be asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import trio

from engine.core.ids import CommitId, RunId
from engine.store import RunFolder
from engine.system.holder import read_live_holder
from pinata.work.places import Places
from pinata.work.retirement import is_retired
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
    resting = await trio.to_thread.run_sync(_resting, run.places, set(map(_run_of, others)))
    return Neighbours({ref: held for ref, held in others.items() if _run_of(ref) in resting})


async def robbed(run: Run, before: Neighbours, own_refs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the refs of other runs that were moved or deleted by no process that owns them.

    Evidence may grow, a run that somebody took up since keeps watch itself, and one that was
    retired meanwhile has given up its refs but that of its evidence.
    """
    after = {ref: own_refs[ref] for ref in before.refs if ref in own_refs}
    suspects = differing(before.refs, after)
    live = await trio.to_thread.run_sync(_live, run.places, set(map(_run_of, suspects)))
    retired = await trio.to_thread.run_sync(_retired, run.places, set(map(_run_of, suspects)))
    return tuple(
        [
            ref
            for ref in suspects
            if _run_of(ref) not in live
            and not (ref not in after and _run_of(ref) in retired and not _is_evidence(ref))
            and not await _has_grown(run, ref, before.refs[ref], after.get(ref))
        ]
    )


async def _has_grown(run: Run, ref: str, old: str, new: str | None) -> bool:
    other = _run_of(ref)
    if new is None or not _is_evidence(ref):
        return False
    return await is_later_evidence(run.repository, other, CommitId(new), CommitId(old))


def _live(places: Places, runs: Iterable[RunId]) -> set[RunId]:
    return {run for run in runs if read_live_holder(places.run_lock(run)) is not None}


def _retired(places: Places, runs: Iterable[RunId]) -> set[RunId]:
    return {run for run in runs if is_retired(RunFolder(places.runs / run))}


def _resting(places: Places, runs: set[RunId]) -> set[RunId]:
    """Return the runs whose refs somebody may still ask for, and that nobody watches."""
    unmade = {run for run in runs if _is_unmade(RunFolder(places.runs / run))}
    return runs - unmade - _live(places, runs)


def _is_unmade(folder: RunFolder) -> bool:
    """Whether a run never came to be; what it left may be removed at any time."""
    return folder.path.is_dir() and not folder.run_file.is_file()


def _is_evidence(ref: str) -> bool:
    return ref == evidence_ref(_run_of(ref))


def _run_of(ref: str) -> RunId:
    return RunId(ref.removeprefix(PREFIX).partition("/")[0])
