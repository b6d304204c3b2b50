"""Garbage collection: gives up what runs left and nobody needs, and says why the rest stays.

Every run is looked at while it is at rest. Only where something is to be removed is it taken over,
looked at once more and then changed, so a collection that was killed may simply be repeated.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from engine.core.errors import (
    CorruptionError,
    HeldElsewhereError,
    PinataError,
    UsageError,
)
from engine.core.ids import RunId
from engine.store import RunFolder, list_folders, resolve_run
from engine.system import locks
from pinata.work.context import Context
from pinata.work.gc_look import Site, find_touches, look_at_run
from pinata.work.gc_plan import Item, What, candidates, make_plan
from pinata.work.gc_remove import Removal, Report, carry_out
from pinata.work.gc_survey import Seen
from pinata.work.gc_sweep import sweep_creation, sweep_sessions, sweep_verification
from pinata.work.history import integration_state
from pinata.work.places import Places
from pinata.work.retirement import is_retired
from pinata.work.takeover import taken_over
from worktrees.aside import put_back, standing_at
from worktrees.discovery import discover
from worktrees.machine import in_thread, refusal
from worktrees.refs import evidence_ref, list_refs, run_prefix


@dataclass(frozen=True, slots=True)
class _Pass:
    """One call of garbage collection.

    Attributes:
        refs: all that lay below `refs/pinata/` when it began.
        confirm: whether to remove anything.
        discard: runs whose changes are not wanted.
    """

    site: Site
    refs: Mapping[str, str]
    report: Report
    confirm: bool
    discard: frozenset[RunId]


async def collect_garbage(
    context: Context, *, confirm: bool, discard: Sequence[str] = ()
) -> dict[str, Any]:
    """Remove what may go of all runs of the caller's repository, or tell what would be removed.

    Args:
        context: the caller's.
        confirm: whether to remove anything; without it nothing on disk changes.
        discard: ids, or beginnings of ids, of runs whose changes are not wanted.

    Returns:
        What was removed, which runs are retired now, what stays and why, and what failed.

    Raises:
        UsageError: `discard` names no run, or one twice.
        ConflictError: the caller stands in no repository.
    """
    repository = await discover(context.cwd, context.environment)
    places = Places.of(repository, context.environment)
    named = await in_thread(_resolve, places.common, discard)
    refs = await list_refs(repository)
    scratch = await in_thread(_temporary_folder)
    try:
        site = Site(context, repository, places, Path(scratch.name))
        this = _Pass(site, refs, Report(), confirm, named)
        for folder in await in_thread(list_folders, places.common):
            await _collect(this, folder)
        await sweep_verification(site, this.report, confirm=confirm)
        await sweep_sessions(site, this.report, confirm=confirm)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(scratch.cleanup)
    return _answer(this)


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pinata-gc-", ignore_cleanup_errors=True)


def _resolve(common_dir: Path, prefixes: Sequence[str]) -> frozenset[RunId]:
    named: set[RunId] = set()
    for prefix in prefixes:
        run = resolve_run(common_dir, prefix).run
        if run in named:
            raise UsageError(f"run {run} is named twice: name it once")
        named.add(run)
    return frozenset(named)


async def _collect(this: _Pass, folder: RunFolder) -> None:
    """Do what there is to do about one run, or whatever is called like one; never raises."""
    run, report = folder.run, this.report
    try:
        if await in_thread(_is_foreign, folder.path):
            reason = "it is a link or no folder, so it is not what pinata made: move it away"
            report.kept.append(Item(What.RUN, str(folder.path), run, reason))
        elif not await in_thread(os.path.lexists, folder.run_file):
            await sweep_creation(this.site, folder, this.refs, report, confirm=this.confirm)
        elif not await in_thread(_is_spent, this, folder):
            await _collect_run(this, folder)
    except (HeldElsewhereError, CorruptionError) as error:
        report.kept.append(Item(What.RUN, run, run, str(error)))
    except PinataError as error:
        report.failed.append(Item(What.RUN, run, run, str(error)))
    except OSError as error:
        report.failed.append(Item(What.RUN, run, run, str(refusal(error))))


def _is_foreign(path: Path) -> bool:
    return path.is_symlink() or not path.is_dir()


def _is_spent(this: _Pass, folder: RunFolder) -> bool:
    """Whether a run is retired and nothing is left of it but what stays; quick to tell."""
    if not is_retired(folder):
        return False
    places = (
        this.site.places.worktrees(folder.run),
        folder.indexes,
        folder.link_file,
        folder.link_socket,
    )
    refs = {ref for ref in this.refs if ref.startswith(run_prefix(folder.run))}
    is_clear = not any(map(os.path.lexists, places)) and refs <= {evidence_ref(folder.run)}
    waste = (*folder.scratch.glob("*"), *folder.integration.glob("slots-*"))
    return is_clear and not waste


async def _collect_run(this: _Pass, folder: RunFolder) -> None:
    seen = await look_at_run(this.site, folder, this.refs, is_ours=False)
    discard = folder.run in this.discard
    touches = await _touches(this, seen)
    plan = make_plan(seen.facts, touches, discard=discard)
    paths = [left.path for left in seen.leases.values()]
    # A collection that was killed may have left one aside.
    away = await in_thread(lambda: [path for path in paths if standing_at(path) != path])
    if plan.is_empty and not away:
        this.report.kept += plan.kept
    elif this.confirm:
        await _collect_owned(this, folder, away)
    else:
        this.report.kept += plan.kept
        this.report.removed += plan.removals(folder.run)
        this.report.retired += [folder.run] if plan.retire else []


async def _collect_owned(this: _Pass, folder: RunFolder, away: Sequence[Path]) -> None:
    """Take the run over, put back what is `away`, look once more, and remove what may go.

    Raises:
        HeldElsewhereError: somebody owns the run by now, or is at work in the checkout.
        CorruptionError: the run's records are damaged.
        ExternalError: the machine failed.
    """
    site, repository = this.site, this.site.repository
    async with AsyncExitStack() as held:
        stored = await held.enter_async_context(taken_over(site.context, folder, repository.root))
        if await in_thread(integration_state, folder) is not None:
            what = f"the checkout {stored.record.root}"
            lock = locks.claim(site.places.checkout_lock, what=what, holder=site.context.holder)
            await held.enter_async_context(lock)
        for path in away:
            await in_thread(put_back, path)
        refs = await list_refs(repository, run_prefix(folder.run))
        seen = await look_at_run(site, folder, refs, is_ours=True)
        touches = await _touches(this, seen)
        discard, has_evidence = folder.run in this.discard, evidence_ref(folder.run) in refs
        await carry_out(Removal(site, stored, seen, touches, has_evidence, discard), this.report)


async def _touches(this: _Pass, seen: Seen) -> dict[str, str | None]:
    discard = seen.facts.run in this.discard
    return await find_touches(this.site, seen, candidates(seen.facts, discard=discard))


def _answer(this: _Pass) -> dict[str, Any]:
    report = this.report
    return {
        "confirmed": this.confirm,
        "retired": list(report.retired),
        "removed" if this.confirm else "removable": [*map(_item_answer, report.removed)],
        "kept": [*map(_item_answer, report.kept)],
        "failed": [*map(_item_answer, report.failed)],
    }


def _item_answer(item: Item) -> dict[str, str]:
    out = {"what": item.what.value, "name": item.name}
    if item.run is not None:
        out["run"] = item.run
    if item.reason is not None:
        out["reason"] = item.reason
    return out
