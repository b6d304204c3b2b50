"""Proves a destination: runs checks where the user works and writes down what was seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import trio

from checks.proof import CheckProof, ListName
from checks.suite import SuiteSpec, run_suite
from engine.core.changes import quote_path
from engine.core.environment import child_environment
from engine.core.spec import CheckSpec
from pinata.work.destination import Destination
from pinata.work.receipt import Receipt, ReceiptFolder, SavedState, judge
from pinata.work.workshop import in_thread
from worktrees.apply_stage import StoredFile
from worktrees.presence import differing_paths
from worktrees.state import measure


@dataclass(frozen=True, slots=True)
class VerificationSpec:
    """What to prove, and for whom.

    Attributes:
        results: what each affected path should hold; None where nothing should be.
        list: which list planned the checks.
        no_checks_reason: why there are none.
    """

    results: Mapping[bytes, StoredFile | None]
    checks: tuple[CheckSpec, ...]
    list: ListName
    no_checks_reason: str | None
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
        progress=_Nobody(),
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
        origin=spec.origin,
    )
    await in_thread(lambda: receipts.save(receipt), "cannot save the receipt")
    return receipt


class _Nobody:
    """Watches no check."""

    async def check_started(self, spec: CheckSpec) -> None:
        """Do nothing."""

    async def check_ended(self, proof: CheckProof) -> None:
        """Do nothing."""
