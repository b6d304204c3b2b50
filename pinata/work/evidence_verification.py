"""Verifies a commit or a checkout against evidence alone: no record of the run is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from checks.suite import SuiteSpec, run_suite
from engine.core.changes import quote_path
from engine.core.environment import child_environment
from engine.core.errors import CorruptionError, UsageError
from engine.core.ids import CommitId
from engine.system import strays
from pinata.work.context import Context
from pinata.work.evidence_bench import Bench, open_bench
from pinata.work.evidence_check import Evidence, decode_evidence, find_faults
from pinata.work.evidence_record import DIGESTS, MANIFEST
from pinata.work.receipt import judge, proof_answer
from pinata.work.verification import Silent, final_results
from worktrees.apply_stage import StoredFile
from worktrees.discovery import discover
from worktrees.evidence import ensure_named, find_evidence, read_evidence
from worktrees.hygiene import Repository
from worktrees.objects import read_commit_tree, read_entries
from worktrees.presence import differing_paths
from worktrees.refs import read_ref
from worktrees.state import look


class UnexpectedEvidenceError(UsageError):
    """The evidence is not the one that was expected."""

    def __init__(self, found: str, expected: str) -> None:
        self.found = found
        self.expected = expected
        super().__init__(f"the evidence is {found} and not {expected}, which was expected")


@dataclass(frozen=True, slots=True)
class EvidenceSpec:
    """What to verify against what.

    Attributes:
        name: the id of an evidence commit, or a ref.
        expected: the id that a ref must have; None leaves the ref unpinned.
        commit: what to verify, by any name; None for the checkout as it is.
        run_checks: whether to run checks also of evidence that nothing pins.
    """

    name: str
    expected: str | None = None
    commit: str | None = None
    run_checks: bool = False


async def verify_evidence(context: Context, spec: EvidenceSpec) -> dict[str, Any]:
    """Hold evidence against itself, and a commit or the checkout against the evidence.

    Returns:
        `status` is `verified` only if the evidence agrees with itself, every affected path holds
        the approved result, and at least one check ran and all of them passed.

    Raises:
        UsageError: the evidence or the commit is not here, or the evidence is not the expected one.
    """
    repository = await discover(context.cwd, context.environment)
    found, is_pinned = await find_evidence(repository, spec.name)
    if spec.expected is not None and found != spec.expected:
        raise UnexpectedEvidenceError(found, spec.expected)
    is_pinned = is_pinned or spec.expected is not None
    subject = None if spec.commit is None else await _commit(repository, spec.commit)
    out: dict[str, Any] = {"evidence": found, "pinned": is_pinned, "commit": subject}
    try:
        await ensure_named(repository, spec.name, found, {DIGESTS, MANIFEST})
        tree = await read_evidence(repository, found)
        evidence = await trio.to_thread.run_sync(decode_evidence, tree)
        faults = await find_faults(repository, evidence)
    except CorruptionError as error:
        return {**out, **_nothing_run([str(error)])}
    out["run"] = evidence.manifest.run
    if faults:
        return {**out, **_nothing_run(faults)}
    async with open_bench(context, repository) as bench:
        differing = await _differing(repository, evidence, subject, await bench.folder("index"))
        out |= {
            "faults": [],
            "application": "different" if differing else "exact",
            "differingPaths": [quote_path(path) for path in differing],
        }
        if is_pinned or spec.run_checks:
            return {**out, **await _checked(context, bench, evidence, subject)}
    omitted = [check.id for check in evidence.planned]
    return {**out, "status": "not_run", "checks": [], "omitted": omitted}


def _nothing_run(faults: Sequence[str]) -> dict[str, Any]:
    return {"status": "faulty", "faults": list(faults), "checks": [], "omitted": []}


async def _commit(repository: Repository, name: str) -> CommitId:
    found = None if name.startswith("-") else await read_ref(repository, f"{name}^{{commit}}")
    if found is None:
        raise UsageError(f"there is no commit {name} here: fetch it, or name another one")
    return CommitId(found)


async def _differing(
    repository: Repository, evidence: Evidence, subject: CommitId | None, scratch: Path
) -> tuple[bytes, ...]:
    """Return the paths that do not hold the approved result."""
    results = final_results(evidence.steps)
    if subject is None:
        return await differing_paths(repository, results, scratch / "index")
    tree = await read_commit_tree(repository, subject)
    there = await read_entries(repository, tree, sorted(results))
    return tuple(
        path
        for path, entry in sorted(there.items())
        if (None if entry is None or entry.is_folder else (entry.mode, entry.object_id))
        != _mode_and_blob(results[path])
    )


def _mode_and_blob(stored: StoredFile | None) -> tuple[str, str] | None:
    return None if stored is None else (stored.mode, stored.blob)


async def _checked(
    context: Context, bench: Bench, evidence: Evidence, subject: CommitId | None
) -> dict[str, Any]:
    """Run the integrated checks, of a commit in a clean worktree, and say what they came to."""
    async with bench.open_place(context, subject) as place:
        before = await look(place, await bench.folder("before"))
        try:
            suite = await run_suite(
                SuiteSpec(
                    planned=[("integratedChecks", check) for check in evidence.planned],
                    cwd=place.root,
                    env=child_environment(context.environment, evidence.manifest.pass_env),
                    log_dir=await bench.folder("logs"),
                    mark=f"{bench.mark}/evidence",
                ),
                progress=Silent(),
                collected=[],
            )
        finally:
            with trio.CancelScope(shield=True):
                await strays.end_marked(f"{bench.mark}/")
        after = await look(place, await bench.folder("after"))
    return {
        "status": judge(before, after, suite.proofs, len(evidence.planned)),
        "checks": [proof_answer(proof) for proof in suite.proofs],
        "omitted": [check.id for _, check in suite.not_run],
    }
