"""Removes what belongs to no run that has a record, as far as it is known to be the engine's own.

That is: what a killed creation of a run made, what a killed verification left, entries of runs in
sessions that never came to be, and what hosts that are dead left behind.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.core.errors import CorruptionError, HeldElsewhereError, PinataError
from engine.core.ids import RunId
from engine.records.session import RECORD_LIMIT_BYTES, decode_session_run
from engine.store import RunFolder, runs_dir
from engine.system import files, locks
from engine.system.holder import read_live_holder
from engine.system.sockets import somebody_listens
from pinata.work.evidence_bench import clear_bench, is_left_behind
from pinata.work.gc_look import Site
from pinata.work.gc_plan import GRACE_MS, CreationFacts, Item, What, why_not_abandoned
from pinata.work.gc_remove import Report, remove_file, try_removal
from pinata.work.gc_survey import list_entries, read_socket
from worktrees.machine import in_thread, passed
from worktrees.refs import base_ref, checkout_ref, delete_refs, list_refs, run_prefix
from worktrees.registration import delete_tree

# What a creation makes before the record of its run; the first three are made with the folder.
_MADE_BEFORE = frozenset({"results", "transcripts", "scratch", "processes.jsonl"})
_DRAFT_OF_RECORD = re.compile(r"\.run\.json\.[0-9a-f]{12}\.tmp")
_SESSION = re.compile(r"[0-9a-f]{32}")
_HOST_FILES = ("host.json", "host.sock")
_RUN_ENTRY = re.compile(r"([0-9a-f]{16})\.json")


async def sweep_creation(
    site: Site, folder: RunFolder, refs: Mapping[str, str], report: Report, *, confirm: bool
) -> None:
    """Remove a folder without a record, and its refs, if nobody will ever finish making that run.

    Args:
        site: where.
        folder: has no `run.json`.
        refs: all that lie below `refs/pinata/`.
        report: gets what was done, or would be.
        confirm: whether to remove anything.
    """
    item = Item(What.RUN, folder.run, folder.run)
    look = partial(_look_at_creation, site, folder)
    own = {ref: held for ref, held in refs.items() if ref.startswith(run_prefix(folder.run))}
    facts = await in_thread(look, own, is_ours=False)
    if (reason := why_not_abandoned(facts)) is not None:
        report.kept.append(replace(item, reason=reason))
        return
    if not confirm:
        report.removed.append(item)
        return
    lock = site.places.run_lock(folder.run)
    await in_thread(files.make_private_dir, lock.parent)
    async with locks.claim(lock, what=f"run {folder.run}", holder=site.context.holder):
        own = await list_refs(site.repository, run_prefix(folder.run))
        again = await in_thread(look, own, is_ours=True)
        if (reason := why_not_abandoned(again)) is not None:
            report.kept.append(replace(item, reason=reason))
            return
        await try_removal(report, item, partial(_remove_creation, site, folder, own))


async def _remove_creation(site: Site, folder: RunFolder, refs: Mapping[str, str]) -> None:
    await delete_refs(site.repository, refs)
    await in_thread(delete_tree, folder.path)
    passed("gc.creation")


def _look_at_creation(
    site: Site, folder: RunFolder, refs: Mapping[str, str], *, is_ours: bool
) -> CreationFacts:
    lock = site.places.run_lock(folder.run)
    owner = None if is_ours else read_live_holder(lock)
    newest_ns = max(_times(folder.path), default=0)
    idle_ms = site.context.clock.now_ms() - newest_ns // 1_000_000
    unexpected = [*_unexpected_files(folder), *_unexpected_refs(folder.run, refs)]
    return CreationFacts(folder.run, owner, idle_ms, tuple(sorted(unexpected)))


def _times(folder: Path) -> Iterator[int]:
    """Yield when each file and folder in `folder`, and it itself, last changed."""
    yield folder.lstat().st_mtime_ns
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            yield Path(parent, name).lstat().st_mtime_ns


def _unexpected_files(folder: RunFolder) -> Iterator[str]:
    for entry in folder.path.iterdir():
        if entry.name not in _MADE_BEFORE and not _DRAFT_OF_RECORD.fullmatch(entry.name):
            yield entry.name
    for made_empty in (folder.results, folder.transcripts):
        if made_empty.is_symlink() or (made_empty.is_dir() and any(made_empty.iterdir())):
            yield made_empty.name


def _unexpected_refs(run: RunId, refs: Mapping[str, str]) -> Iterator[str]:
    snapshots = {base_ref(run), checkout_ref(run)}
    for ref in refs:
        if ref not in snapshots and not ref.startswith(f"{run_prefix(run)}pr/"):
            yield ref


async def sweep_verification(site: Site, report: Report, *, confirm: bool) -> None:
    """Remove what a killed verification of a commit left."""
    places = site.places
    if not await in_thread(is_left_behind, places):
        return
    item = Item(What.FILE, str(places.verification))
    holder = await in_thread(read_live_holder, places.verification_lock)
    if holder is not None:
        report.kept.append(replace(item, reason=f"{holder} verifies a commit there"))
    elif confirm:
        await try_removal(report, item, partial(clear_bench, site.context, site.repository))
    else:
        report.removed.append(item)


async def sweep_sessions(site: Site, report: Report, *, confirm: bool) -> None:
    """Remove entries of runs that never came to be, and what dead hosts left, of all sessions."""
    for folder in await in_thread(_session_folders, site.places.state):
        for entry in await in_thread(list_entries, folder / "runs"):
            await _sweep_entry(site, entry, report, confirm=confirm)
        await _sweep_host(site, folder, report, confirm=confirm)


def _session_folders(state: Path) -> list[Path]:
    return [
        path
        for path in list_entries(state / "sessions")
        if _SESSION.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    ]


async def _sweep_entry(site: Site, entry: Path, report: Report, *, confirm: bool) -> None:
    try:
        is_stale = await in_thread(_is_stale, site, entry, report)
    except CorruptionError as error:
        report.kept.append(Item(What.SESSION, str(entry), None, str(error)))
        return
    if not is_stale:
        return
    item = Item(What.SESSION, str(entry))
    if confirm:
        await try_removal(report, item, partial(remove_file, entry, site.context.environment))
    else:
        report.removed.append(item)


def _is_stale(site: Site, entry: Path, report: Report) -> bool:
    """Return whether an entry is of a run of this repository that is not there.

    The entry of a run that is being made is durable before the run is, so it must be old.

    Raises:
        CorruptionError: the entry is damaged.
    """
    named = _RUN_ENTRY.fullmatch(entry.name)
    if named is None:
        return False
    try:
        record = decode_session_run(files.read_regular(entry, RECORD_LIMIT_BYTES), str(entry))
        age_ms = site.context.clock.now_ms() - entry.lstat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return False
    if record.run != named[1] or record.common_dir != str(site.repository.common_dir):
        return False
    run = RunId(record.run)
    goes = any(item.what is What.RUN and item.run == run for item in report.removed)
    is_there = os.path.lexists(runs_dir(site.places.common) / run) and not goes
    held = read_live_holder(site.places.run_lock(run)) is not None
    return not (is_there or held) and age_ms >= GRACE_MS


def _is_reachable(folder: Path) -> bool:
    """Return whether somebody listens where the host of a session did, as far as can be told."""
    record, socket = (folder / name for name in _HOST_FILES)
    told = read_socket(record)
    try:
        return any(map(somebody_listens, [socket, *([] if told is None else [told])]))
    except PinataError:
        return True


async def _sweep_host(site: Site, folder: Path, report: Report, *, confirm: bool) -> None:
    left = [path for path in await in_thread(list_entries, folder) if path.name in _HOST_FILES]
    lock = site.places.state / "locks" / f"session.{folder.name}.lock"
    if not left or await in_thread(read_live_holder, lock) is not None:
        return
    if await in_thread(_is_reachable, folder):
        return  # its lock was taken from it, and it lives
    items = [Item(What.SESSION, str(path)) for path in left]
    if not confirm:
        report.removed += items
        return
    await in_thread(files.make_private_dir, lock.parent)
    try:
        async with locks.claim(lock, what="the session", holder=site.context.holder):
            for item, path in zip(items, left, strict=True):
                await try_removal(
                    report, item, partial(remove_file, path, site.context.environment)
                )
    except HeldElsewhereError:
        return  # a host came to life, and the files are its own
    except PinataError as error:
        report.failed += [replace(item, reason=str(error)) for item in items]
