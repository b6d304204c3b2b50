"""Runs the checks of an attempt, and holds evidence checks to changing nothing."""

from dataclasses import dataclass
from pathlib import Path

from checks.outcome import explain
from checks.proof import CheckProof
from checks.suite import SuiteSpec, run_suite
from engine.core.events import CheckEnded, CheckStarted
from engine.core.ids import AttemptId, CheckId
from engine.core.outcome import FailureStage
from engine.core.spec import CheckSpec
from engine.ports import Reporter
from pinata.work.draft import Draft, Ending
from pinata.work.workshop import Workshop
from worktrees.hygiene import Repository
from worktrees.state import StateTriple, measure


@dataclass(frozen=True, slots=True)
class _Announcer:
    """Tells the loop about each check, and waits until it is on record."""

    attempt: AttemptId
    reporter: Reporter

    async def check_started(self, spec: CheckSpec) -> None:
        await self.reporter.record(CheckStarted(self.attempt, spec.id))

    async def check_ended(self, proof: CheckProof) -> None:
        await self.reporter.record(
            CheckEnded(
                self.attempt, CheckId(proof.id), proof.passed, proof.duration_ms, explain(proof)
            )
        )


async def run_checks(
    workshop: Workshop, draft: Draft, reporter: Reporter, cwd: Path
) -> Ending | None:
    """Run all planned checks of an attempt; return how it ends if one of them fails."""
    if not draft.planned:
        return None
    await workshop.ensure_in_place(cwd)
    result = await run_suite(
        SuiteSpec(
            planned=draft.planned,
            cwd=cwd,
            env=workshop.environment,
            log_dir=workshop.run.folder.checks_dir(draft.attempt),
            mark=workshop.mark(draft.attempt),
        ),
        progress=_Announcer(draft.attempt, reporter),
        collected=draft.proofs,
    )
    if result.passed:
        return None
    failed = result.proofs[-1]
    reason = f"check {failed.id} failed: {explain(failed)}"
    return Ending.failed(reason, FailureStage.VERIFICATION)


async def run_evidence_checks(
    workshop: Workshop, draft: Draft, reporter: Reporter, place: Repository
) -> Ending | None:
    """Run the evidence checks of a reader or reviewer where it read; None when all is well.

    The place must be the same before and after: content, HEAD and index.
    """
    if not draft.task.evidence_checks:
        return None
    async with workshop.checkout_turn:
        before = await _state(workshop, place)
        failure = await run_checks(workshop, draft, reporter, place.root)
        after = await _state(workshop, place)
    if failure is not None:
        return failure
    if before != after:
        reason = "an evidence check changed the source, or somebody did while it ran"
        return Ending.failed(reason, FailureStage.VERIFICATION)
    return None


async def _state(workshop: Workshop, place: Repository) -> StateTriple:
    if place == workshop.run.repository:
        return await workshop.checkout.take()
    return await measure(place, workshop.scratch)
