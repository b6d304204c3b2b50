"""Carries out what was decided about a run: worktrees first, then the mark, then all the rest.

Before any of it, evidence of what the run came to is written if the run is to be retired. A
worktree that turns out to hold something after all is kept, and it is decided anew what else may
go. A process that dies in between leaves a run that is whole but for a worktree, which every later
command can do without, or one that is marked and that the next collection goes on with.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from engine.core.errors import ExternalError, PinataError
from engine.core.ids import RunId
from engine.system import files
from engine.system.sockets import discard_dead, temporary_folder
from pinata.work.evidence import record_evidence
from pinata.work.gc_look import Site
from pinata.work.gc_plan import Item, Plan, What, WorktreeFacts, make_plan
from pinata.work.gc_survey import Seen, read_socket
from pinata.work.history import StoredRun
from pinata.work.retirement import retire
from worktrees.giving_up import give_up_worktree
from worktrees.machine import in_thread, passed
from worktrees.refs import delete_refs
from worktrees.registration import delete_tree


@dataclass(slots=True)
class Report:
    """What one pass did, or would do, in the order in which it was found out."""

    removed: list[Item] = field(default_factory=list)
    retired: list[RunId] = field(default_factory=list)
    kept: list[Item] = field(default_factory=list)
    failed: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Removal:
    """A run whose lock this process holds, and of which something may be removed.

    Attributes:
        touches: what in each worktree that may go is somebody else's, by its name.
        has_evidence: whether there is an evidence commit of the run.
        discard: whether somebody named the run as one whose changes are not wanted.
    """

    site: Site
    stored: StoredRun
    seen: Seen
    touches: Mapping[str, str | None]
    has_evidence: bool
    discard: bool

    def plan(self, late: Mapping[str, str | None] | None = None) -> Plan:
        """Return what may go, `late` being what was found out about worktrees since the look."""
        touches = {**self.touches, **(late or {})}
        return make_plan(self.seen.facts, touches, discard=self.discard)


async def carry_out(removal: Removal, report: Report) -> None:
    """Remove what may go; what cannot be removed is reported, and nothing after it is done.

    Worktrees do not depend on each other: one that fails keeps the mark and all the rest back.
    """
    run, plan, before = removal.stored.folder.run, removal.plan(), len(report.failed)
    if plan.retire and removal.seen.facts.at_stake:
        await _ensure_evidence(removal, report)
    if len(report.failed) == before:
        plan = removal.plan(await _give_up_worktrees(removal, plan, report))
    report.kept += plan.kept
    if len(report.failed) > before:
        return
    if plan.retire:
        await _mark(removal, report)
    if len(report.failed) == before and plan.refs:
        await _delete_refs(removal, plan, report)
    if len(report.failed) > before:
        return
    for path in plan.files:
        work = partial(remove_file, path, removal.site.context.environment)
        await try_removal(report, Item(What.FILE, str(path), run), work)


async def try_removal(report: Report, item: Item, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work`, which removes `item`, and report how it went."""
    try:
        await work()
    except PinataError as error:
        report.failed.append(replace(item, reason=str(error)))
    else:
        report.removed.append(item)


async def _give_up_worktrees(removal: Removal, plan: Plan, report: Report) -> dict[str, str | None]:
    """Remove the worktrees that may go; return why each stays, None where it does not."""
    stays: dict[str, str | None] = {}
    for each in plan.worktrees:
        item = Item(What.WORKTREE, str(each.path), removal.stored.folder.run)
        try:
            stays[each.name] = await _give_up(removal, each)
        except PinataError as error:
            report.failed.append(replace(item, reason=str(error)))
        else:
            report.removed += [item] if stays[each.name] is None else []
    return stays


async def _give_up(removal: Removal, worktree: WorktreeFacts) -> str | None:
    site, left = removal.site, removal.seen.leases[worktree.name]
    await in_thread(files.make_private_dir, left.seed_index.parent)
    lock = site.places.worktree_lock
    reason = await give_up_worktree(site.repository, left, lock, site.scratch)
    await in_thread(_remove_empty, left.path.parent)
    return reason


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # others are in it
        folder.rmdir()


async def _ensure_evidence(removal: Removal, report: Report) -> None:
    """Write down what the run's objects, which may go afterwards, amount to.

    Also where there is some evidence: a process may have died before it wrote the newest.
    """
    site, stored, run = removal.site, removal.stored, removal.stored.folder.run
    written = await record_evidence(site.context, site.repository, stored)
    if "evidence" not in written and not removal.has_evidence:
        report.failed.append(Item(What.RUN, run, run, written["notices"][0]))


async def _mark(removal: Removal, report: Report) -> None:
    folder, now_ms = removal.stored.folder, removal.site.context.clock.now_ms()
    try:
        await in_thread(retire, folder, now_ms, discarded=removal.discard)
    except ExternalError as error:
        report.failed.append(Item(What.RUN, folder.run, folder.run, str(error)))
    else:
        report.retired.append(folder.run)


async def _delete_refs(removal: Removal, plan: Plan, report: Report) -> None:
    run, refs = removal.stored.folder.run, plan.refs
    try:
        await delete_refs(removal.site.repository, refs)
    except PinataError as error:
        report.failed += [Item(What.REF, ref, run, str(error)) for ref in refs]
    else:
        report.removed += [Item(What.REF, ref, run) for ref in refs]


async def remove_file(path: Path, environment: Mapping[str, str]) -> None:
    """Remove a file or a folder, and the socket that it tells of, if it is such a file.

    Raises:
        ExternalError: the machine refused.
    """
    await in_thread(_remove_file, path, environment)
    passed("gc.removed")


def _remove_file(path: Path, environment: Mapping[str, str]) -> None:
    if path.suffix == ".json" and (socket := read_socket(path)) is not None:
        # A socket has the name of the record that tells of it.
        discard_dead(socket, f"{path.stem}.sock", temporary_folder(environment))
    delete_tree(path)
