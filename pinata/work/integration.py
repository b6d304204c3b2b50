"""Brings a run's approved change into the checkout, proves it there, and takes it back."""

from pathlib import Path
from typing import Any

import trio

from engine.core.changes import quote_path
from engine.core.errors import ConflictError
from engine.core.fingerprint import change_entry
from engine.store import RunFolder, list_runs, runs_dir
from pinata.work.approved import Approved, approved
from pinata.work.context import Context
from pinata.work.destination import Destination, open_destination
from pinata.work.evidence import record_evidence, with_written
from pinata.work.receipt import (
    Receipt,
    answer,
    proof_answer,
)
from pinata.work.retirement import is_retired, refuse_retired, where_changes_are
from pinata.work.verification import VerificationSpec, verify
from worktrees import apply
from worktrees.emptied import remove_emptied_folders
from worktrees.journal import Journal, JournalState
from worktrees.state import measure

_NOT_IN_ONE_STEP = (
    "the file system of the checkout cannot exchange two files in one step: each file that is "
    "replaced, now or by a rollback, is absent for a moment"
)


async def integrate(context: Context, folder: RunFolder, root: Path) -> dict[str, Any]:
    """Apply the approved change of a run and verify it; finish it if it was interrupted.

    Called again after it was applied, it verifies once more and rewrites no file.

    Raises:
        ConflictError: it may not go in, or does not fit; nothing was written.
    """
    async with open_destination(context, folder, root) as destination:
        changes = where_changes_are(folder)
        await refuse_retired(folder, f"apply it by hand ({changes}), or start a new run")
        spec = destination.stored.spec
        ready = await approved(destination.repository, destination.stored)
        journal = await _apply(destination, ready)
        receipt = await verify(
            destination,
            VerificationSpec(
                results=apply.results_of(journal),
                checks=spec.integrated_checks,
                list="integratedChecks",
                no_checks_reason=spec.no_integrated_checks_reason,
                unverified=(),
                origin="integrate",
            ),
        )
        state = _state_after(receipt)
        await apply.settle(journal, state)
        written = await record_evidence(context, destination.repository, destination.stored)
    out: dict[str, Any] = {
        "run": folder.run,
        "status": state.value,
        "receipt": answer(receipt),
        "files": [change_entry(change) for change in ready.changes],
        "journal": str(journal.file),
        "checks": [proof_answer(proof) for proof in receipt.checks],
    }
    if not journal.in_one_step:
        out["notices"] = [_NOT_IN_ONE_STEP]
    return with_written(out, written)


async def _apply(destination: Destination, ready: Approved) -> Journal:
    """Return the journal of the applied change, in the state `verifying`."""
    repository = destination.repository
    journal = await apply.load_journal(destination.folder)
    if journal is not None and journal.state is JournalState.ROLLING_BACK:
        raise ConflictError(
            "a rollback of this run was begun and not finished: finish it with rollback first"
        )
    is_new = journal is None or journal.state is JournalState.ROLLED_BACK
    if journal is not None and not is_new and journal.evidence_digest == ready.evidence_digest:
        return await apply.resume(repository, journal)
    triple = await measure(repository, destination.stored.folder.scratch)
    if journal is None or is_new:
        planned = await apply.prepare(
            repository,
            ready.changes,
            evidence_digest=ready.evidence_digest,
            triple=triple,
            folder=destination.folder,
        )
    else:
        planned = await apply.renew(
            repository,
            ready.changes,
            evidence_digest=ready.evidence_digest,
            triple=triple,
            upon=journal,
        )
    return await apply.execute(planned)


def _state_after(receipt: Receipt) -> JournalState:
    if receipt.is_exact and receipt.status == "verified":
        return JournalState.VERIFIED
    if receipt.is_exact and receipt.status == "not_run":
        return JournalState.APPLIED_UNVERIFIED
    return JournalState.VERIFICATION_FAILED


async def roll_back(context: Context, folder: RunFolder, root: Path) -> dict[str, Any]:
    """Return every integrated file to what it was before, or do nothing at all.

    Raises:
        ConflictError: there is nothing to roll back, HEAD or the index moved, or a file was
            edited since; the message names each.
    """
    async with open_destination(context, folder, root) as destination:
        journal = await apply.load_journal(destination.folder)
        if journal is None:
            raise ConflictError(f"run {folder.run} was not integrated: nothing to roll back")
        if journal.state is JournalState.ROLLED_BACK:
            raise ConflictError(f"run {folder.run} is rolled back already")
        applied_ns = (await trio.Path(journal.file).stat()).st_mtime_ns
        answers = await apply.rollback(destination.repository, journal)
        common = destination.repository.common_dir
        runs = await trio.to_thread.run_sync(list_runs, common)
        others = [RunFolder(runs_dir(common) / run).integration for run in runs]
        await remove_emptied_folders(journal, applied_ns, others)
    out: dict[str, Any] = {
        "run": folder.run,
        "status": JournalState.ROLLED_BACK.value,
        "files": [
            {"path": quote_path(each.path), "outcome": each.outcome.value} for each in answers
        ],
    }
    if await trio.to_thread.run_sync(is_retired, folder):
        changes = where_changes_are(folder)
        out["notices"] = [f"the run is retired and cannot be integrated again: {changes}"]
    return out
