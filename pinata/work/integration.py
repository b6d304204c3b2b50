"""Brings a run's approved change into the checkout, proves it there, and takes it back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import trio

from checks.proof import CheckProof
from checks.suite import SuiteSpec, run_suite
from engine.core.changes import quote_path
from engine.core.environment import child_environment
from engine.core.errors import ConflictError
from engine.core.fingerprint import change_entry
from engine.core.spec import CheckSpec
from engine.store import RunFolder
from engine.system import locks
from pinata.work.approved import Approved, approved
from pinata.work.conduct import taken_over
from pinata.work.context import Context
from pinata.work.history import StoredRun
from pinata.work.places import Places
from pinata.work.receipt import (
    Receipt,
    ReceiptFolder,
    SavedState,
    answer,
    judge,
    proof_answer,
)
from pinata.work.workshop import in_thread
from worktrees import apply
from worktrees.discovery import discover
from worktrees.hygiene import Repository
from worktrees.journal import Journal, JournalState
from worktrees.state import measure


@dataclass(frozen=True, slots=True)
class _Destination:
    """A run and the checkout it was started from, both held by this process."""

    context: Context
    stored: StoredRun
    repository: Repository

    @property
    def folder(self) -> Path:
        return self.stored.folder.integration


@asynccontextmanager
async def _destination(
    context: Context, folder: RunFolder, root: Path
) -> AsyncIterator[_Destination]:
    async with taken_over(context, folder, root) as stored:
        found = await discover(Path(stored.record.root), context.environment)
        places = Places.of(found, context.environment)
        what = f"the checkout {found.root}"
        async with locks.claim(places.checkout_lock, what=what, holder=context.holder):
            yield _Destination(context, stored, replace(found, mark=f"{stored.record.mark}/git"))


async def integrate(context: Context, folder: RunFolder, root: Path) -> dict[str, Any]:
    """Apply the approved change of a run and verify it; finish it if it was interrupted.

    Called again after it was applied, it verifies once more and rewrites no file.

    Raises:
        ConflictError: it may not go in, or does not fit; nothing was written.
    """
    async with _destination(context, folder, root) as destination:
        ready = await approved(destination.repository, destination.stored)
        journal = await _apply(destination, ready)
        receipt = await _verify(destination, journal)
        state = _state_after(receipt)
        await apply.settle(journal, state)
    return {
        "run": folder.run,
        "status": state.value,
        "receipt": answer(receipt),
        "files": [change_entry(change) for change in ready.changes],
        "journal": str(journal.file),
        "checks": [proof_answer(proof) for proof in receipt.checks],
    }


async def _apply(destination: _Destination, ready: Approved) -> Journal:
    """Return the journal of the applied change, in the state `verifying`."""
    repository = destination.repository
    journal = await apply.load_journal(destination.folder)
    if journal is None or journal.state is JournalState.ROLLED_BACK:
        triple = await measure(repository, destination.stored.folder.scratch)
        planned = await apply.prepare(
            repository,
            ready.changes,
            evidence_digest=ready.evidence_digest,
            triple=triple,
            folder=destination.folder,
        )
        return await apply.execute(planned)
    if journal.state is JournalState.ROLLING_BACK:
        raise ConflictError(
            "a rollback of this run was begun and not finished: finish it with rollback first"
        )
    if journal.evidence_digest != ready.evidence_digest:
        raise ConflictError(
            "what was integrated is not what is approved now: roll it back, then integrate again"
        )
    return await apply.resume(repository, journal)


async def _verify(destination: _Destination, journal: Journal) -> Receipt:
    """Run the destination's checks and save what they showed."""
    stored, repository = destination.stored, destination.repository
    spec = stored.spec
    receipts = ReceiptFolder(destination.folder / "receipts")
    id_ = await trio.to_thread.run_sync(receipts.next_id)
    scratch = stored.folder.scratch
    before = await measure(repository, scratch)
    collected: list[CheckProof] = []
    suite = await run_suite(
        SuiteSpec(
            planned=[("integratedChecks", check) for check in spec.integrated_checks],
            cwd=repository.root,
            env=child_environment(destination.context.environment, spec.config.pass_env),
            log_dir=receipts.logs(id_),
            mark=f"{stored.record.mark}/receipt-{id_}",
        ),
        progress=_Nobody(),
        collected=collected,
    )
    after = await measure(repository, scratch)
    differing = await apply.verify_applied(repository, journal)
    receipt = Receipt(
        id=id_,
        run=stored.record.run,
        at_ms=destination.context.clock.now_ms(),
        status=judge(before, after, suite.proofs, len(spec.integrated_checks)),
        before=SavedState.of(before),
        after=SavedState.of(after),
        checks=suite.proofs,
        omitted=tuple(check.id for _, check in suite.not_run),
        no_checks_reason=spec.no_integrated_checks_reason,
        differing_paths=tuple(quote_path(path) for path in differing),
        origin="integrate",
    )
    await in_thread(lambda: receipts.save(receipt), "cannot save the receipt")
    return receipt


def _state_after(receipt: Receipt) -> JournalState:
    if receipt.is_exact and receipt.status == "verified":
        return JournalState.VERIFIED
    if receipt.is_exact and receipt.status == "not_run":
        return JournalState.APPLIED_UNVERIFIED
    return JournalState.VERIFICATION_FAILED


class _Nobody:
    """Watches no check."""

    async def check_started(self, spec: CheckSpec) -> None:
        """Do nothing."""

    async def check_ended(self, proof: CheckProof) -> None:
        """Do nothing."""


async def roll_back(context: Context, folder: RunFolder, root: Path) -> dict[str, Any]:
    """Return every integrated file to what it was before, or do nothing at all.

    Raises:
        ConflictError: there is nothing to roll back, HEAD or the index moved, or a file was
            edited since; the message names each.
    """
    async with _destination(context, folder, root) as destination:
        journal = await apply.load_journal(destination.folder)
        if journal is None:
            raise ConflictError(f"run {folder.run} was not integrated: nothing to roll back")
        if journal.state is JournalState.ROLLED_BACK:
            raise ConflictError(f"run {folder.run} is rolled back already")
        answers = await apply.rollback(destination.repository, journal)
    return {
        "run": folder.run,
        "status": JournalState.ROLLED_BACK.value,
        "files": [
            {"path": quote_path(each.path), "outcome": each.outcome.value} for each in answers
        ],
    }
