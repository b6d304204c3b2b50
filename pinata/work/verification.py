"""Proves a destination: runs checks where the user works and writes down what was seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import trio

from checks.proof import CheckProof, ListName
from checks.suite import SuiteSpec, run_suite
from engine.core.changes import ABSENT_MODE, Change, quote_path
from engine.core.environment import child_environment
from engine.core.ids import TaskId
from engine.core.spec import CheckSpec
from engine.store import RunFolder
from pinata.work.approved import ordered_writers
from pinata.work.blocking import in_thread
from pinata.work.context import Context
from pinata.work.destination import Destination, open_destination
from pinata.work.evidence import record_evidence, with_written
from pinata.work.net import net_changes
from pinata.work.receipt import Receipt, ReceiptFolder, SavedState, answer, judge
from pinata.work.result import SavedResult, changes_of, fingerprint_of
from worktrees.apply_stage import StoredFile
from worktrees.presence import differing_paths
from worktrees.state import measure


async def verify_run(
    context: Context,
    folder: RunFolder,
    root: Path,
    *,
    checks: tuple[CheckSpec, ...] | None,
    no_checks_reason: str | None,
) -> dict[str, Any]:
    """Check the destination of a run as it is now and return the receipt.

    It may have moved on since the run began, and nothing need have been applied.

    Args:
        context: the caller's.
        folder: the run's.
        root: any working tree of the repository.
        checks: for this call alone; None for the run's own.
        no_checks_reason: why `checks` is empty.

    Raises:
        ConflictError: a live process owns the run, or is at work in the checkout.
    """
    async with open_destination(context, folder, root) as destination:
        spec, results = destination.stored.spec, destination.stored.results
        made = [(task, changes_made(results.get(task))) for task in ordered_writers(spec)]
        steps = [(task, changes) for task, changes in made if changes is not None]
        net_changes(steps)
        receipt = await verify(
            destination,
            VerificationSpec(
                results=final_results(steps),
                unverified=tuple(task for task, changes in made if changes is None),
                checks=spec.integrated_checks if checks is None else checks,
                list="integratedChecks" if checks is None else "explicit",
                no_checks_reason=(
                    spec.no_integrated_checks_reason if checks is None else no_checks_reason
                ),
                origin="verify",
            ),
        )
        written = await record_evidence(context, destination.repository, destination.stored)
    out = answer(receipt)
    if receipt.unverified:
        named = ", ".join(receipt.unverified)
        out["notices"] = [f"not compared, since there is no verified change: {named}"]
    return with_written(out, written)


def changes_made(result: SavedResult | None) -> tuple[Change, ...] | None:
    """Return the verified change of a writer, None when there is none."""
    if result is None or result.artifact is None or fingerprint_of(result) is None:
        return None
    return changes_of(result.artifact)


def final_results(
    steps: Iterable[tuple[TaskId, Sequence[Change]]],
) -> dict[bytes, StoredFile | None]:
    """Return what each path holds after all `steps`, also one that ends as it began."""
    return {change.path: result_of(change) for _, changes in steps for change in changes}


def result_of(change: Change) -> StoredFile | None:
    """Return what stands at the path of `change` after it, None when nothing does."""
    if change.new_mode == ABSENT_MODE:
        return None
    return StoredFile(change.path, change.new_mode, change.new_blob)


@dataclass(frozen=True, slots=True)
class VerificationSpec:
    """What to prove, and for whom.

    Attributes:
        results: what each affected path should hold; None where nothing should be.
        unverified: writers whose change is not among the results, since nothing verified it.
        list: which list planned the checks.
        no_checks_reason: why there are none.
    """

    results: Mapping[bytes, StoredFile | None]
    checks: tuple[CheckSpec, ...]
    list: ListName
    no_checks_reason: str | None
    unverified: tuple[TaskId, ...]
    origin: Literal["verify", "integrate"]


async def verify(destination: Destination, spec: VerificationSpec) -> Receipt:
    """Run the checks in the destination and save a receipt of what they showed.

    Nothing is applied, and the user's index is only read. Files that the checks themselves write
    are theirs.

    Raises:
        ExternalError: Git or the machine failed.
    """
    stored, repository = destination.stored, destination.repository
    receipts = ReceiptFolder(destination.folder / "receipts")
    id_ = await trio.to_thread.run_sync(receipts.next_id)
    scratch = stored.folder.scratch
    before = await measure(repository, scratch)
    collected: list[CheckProof] = []
    suite = await run_suite(
        SuiteSpec(
            planned=[(spec.list, check) for check in spec.checks],
            cwd=repository.root,
            env=child_environment(destination.context.environment, stored.spec.config.pass_env),
            log_dir=receipts.logs(id_),
            mark=f"{stored.record.mark}/receipt-{id_}",
        ),
        progress=Silent(),
        collected=collected,
    )
    after = await measure(repository, scratch)
    differing = await differing_paths(repository, spec.results, scratch / f"verify-{id_}.index")
    receipt = Receipt(
        id=id_,
        run=stored.record.run,
        at_ms=destination.context.clock.now_ms(),
        status=judge(before, after, suite.proofs, len(spec.checks)),
        before=SavedState.of(before),
        after=SavedState.of(after),
        checks=suite.proofs,
        omitted=tuple(check.id for _, check in suite.not_run),
        no_checks_reason=spec.no_checks_reason,
        differing_paths=tuple(quote_path(path) for path in differing),
        unverified=spec.unverified,
        origin=spec.origin,
    )
    await in_thread(lambda: receipts.save(receipt), "cannot save the receipt")
    return receipt


class Silent:
    """Watches no check."""

    async def check_started(self, spec: CheckSpec) -> None:
        """Do nothing."""

    async def check_ended(self, proof: CheckProof) -> None:
        """Do nothing."""
