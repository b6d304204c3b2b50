"""Writes down what a run came to as evidence that travels with the repository."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import trio

from checks.proof import CheckProof, SavedLog
from engine.core.changes import ABSENT_MODE, GITLINK_MODE, Change, quote_path
from engine.core.environment import child_environment
from engine.core.errors import PinataError
from engine.core.graph import TaskGraph
from engine.core.ids import BlobId, CommitId, TaskId, TreeId
from engine.core.paths import is_secret_name
from engine.core.spec import ReviewOf
from engine.system.files import make_private_dir
from pinata.work.approved import ordered_writers, writers_before
from pinata.work.context import Context
from pinata.work.evidence_record import (
    DIGESTS,
    MANIFEST,
    ManifestV1,
    PatchDigest,
    PlannedCheck,
    ReviewV1,
    WriterV1,
    encode_digests,
    encode_document,
)
from pinata.work.history import StoredRun
from pinata.work.receipt import Receipt, ReceiptFolder
from pinata.work.result import Artifact, changes_of, changes_of_stored
from pinata.work.retirement import is_retired
from worktrees.compose import compose
from worktrees.evidence import EvidenceTree, keep_evidence
from worktrees.hygiene import Repository
from worktrees.machine import in_thread
from worktrees.patch import write_patch
from worktrees.refs import evidence_ref


async def record_evidence(
    context: Context, repository: Repository, stored: StoredRun
) -> dict[str, Any]:
    """Store what a run came to, and what its destination was proved to hold, as a commit.

    Returns:
        What an answer says about it: `evidence`, or a notice that it could not be written, since
        what was done stays done. Nothing for a run that changes no files.
    """
    if stored.record.base_commit is None or not ordered_writers(stored.spec):
        return {}
    if await in_thread(is_retired, stored.folder):
        told = "no evidence was written: the run is retired, and what it is made of may be gone"
        return {"notices": [told]}
    try:
        commit = await _record(context, repository, stored)
    except PinataError as error:
        return {"notices": [f"no evidence was written: {error}"]}
    return {"evidence": {"ref": evidence_ref(stored.folder.run), "id": commit}}


def with_written(answer: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Return `answer` with what `record_evidence` said."""
    notices = [*answer.get("notices", ()), *written.get("notices", ())]
    return answer | written | ({"notices": notices} if notices else {})


async def _record(context: Context, repository: Repository, stored: StoredRun) -> CommitId:
    patches: dict[TaskId, bytes] = {}
    for task in ordered_writers(stored.spec):
        result = stored.results.get(task)
        if result is not None and result.artifact is not None:
            patches[task] = await _patch(repository, stored, result.artifact)
    environment = child_environment(context.environment, stored.spec.config.pass_env)
    tree = await in_thread(lambda: _tree(stored, sorted(environment), patches))
    return await keep_evidence(repository, stored.folder.run, tree, context.clock.now_ms())


def _tree(
    stored: StoredRun, environment: Sequence[str], patches: Mapping[TaskId, bytes]
) -> EvidenceTree:
    """Return the evidence of a run; blocks.

    Args:
        stored: the run.
        environment: names of the variables that checks are given.
        patches: of each writer that left a change.
    """
    graph = TaskGraph.build(stored.spec.tasks)
    documents = {MANIFEST: encode_document(_manifest(stored, environment))}
    files: set[BlobId] = set()
    for task, patch in patches.items():
        writer = _writer(stored, graph, task, patch)
        documents[f"writers/{task}.json"] = encode_document(writer)
        documents[f"writers/{task}.patch"] = patch
        files |= contents(changes_of_stored(writer.changes))
    for review in _reviews(stored):
        documents[f"reviews/{review.task}.json"] = encode_document(review)
    for receipt in ReceiptFolder(stored.folder.integration / "receipts").all():
        documents[f"receipts/{receipt.id}.json"] = encode_document(portable_receipt(receipt))
    documents[DIGESTS] = encode_digests(documents)
    return EvidenceTree(documents, frozenset(files))


def _manifest(stored: StoredRun, environment: Sequence[str]) -> ManifestV1:
    spec, record = stored.spec, stored.record
    assert record.head is not None  # a run with writers starts from a commit
    return ManifestV1(
        run=record.run,
        status=stored.view.status,
        starting_head=record.head,
        order=ordered_writers(spec),
        integrated_checks=tuple(
            PlannedCheck(check.id, check.argv, check.timeout_ms) for check in spec.integrated_checks
        ),
        no_integrated_checks_reason=spec.no_integrated_checks_reason,
        pass_env=spec.config.pass_env,
        environment=tuple(environment),
    )


def _writer(stored: StoredRun, graph: TaskGraph, name: TaskId, patch: bytes) -> WriterV1:
    record, task, result = stored.record, stored.spec.task(name), stored.results[name]
    artifact = result.artifact
    assert artifact is not None  # it left a patch
    return WriterV1(
        task=task.id,
        agent=task.agent,
        definition=record.definitions[task.agent]["digest"],
        attempt=result.attempt,
        status=result.status,
        base_commit=artifact.base_commit,
        base_tree=artifact.base_tree,
        result_tree=artifact.result_tree,
        uncommitted=record.base_commit != record.head,
        predecessors=writers_before(stored.spec, graph, name),
        fingerprint=artifact.fingerprint,
        changes=artifact.changes,
        withheld=withheld(changes_of(artifact)),
        patch=PatchDigest.of(patch),
        checks=tuple(portable_proof(proof) for proof in result.checks),
        not_run=result.not_run,
        no_checks_reason=task.no_checks_reason,
        submission=result.submission,
    )


def _reviews(stored: StoredRun) -> Iterable[ReviewV1]:
    for task in stored.spec.tasks:
        result = stored.results.get(task.id)
        if not isinstance(task.target, ReviewOf) or result is None or result.review is None:
            continue
        yield ReviewV1(
            task=task.id,
            agent=task.agent,
            definition=stored.record.definitions[task.agent]["digest"],
            attempt=result.attempt,
            status=result.status,
            writer=task.target.task,
            fingerprint=result.review.fingerprint,
            verdict=result.review.verdict,
            submission=result.submission,
        )


async def _patch(repository: Repository, stored: StoredRun, artifact: Artifact) -> bytes:
    """Return a writer's change as a patch, without what is withheld."""
    shown = [change for change in changes_of(artifact) if is_shown(change)]
    before = TreeId(artifact.base_tree)
    after = TreeId(artifact.result_tree)
    if len(shown) < len(artifact.changes):
        after = await compose(repository, before, [(TaskId("shown"), shown)])
    scratch = stored.folder.scratch
    await in_thread(lambda: make_private_dir(scratch))
    target = scratch / "evidence.patch"
    try:
        await write_patch(repository, before, after, target)
        return await in_thread(target.read_bytes)
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(lambda: target.unlink(missing_ok=True))


def is_shown(change: Change) -> bool:
    """Whether the contents of a change are part of evidence.

    Those of secret-bearing names are not, and those of submodules are no contents.
    """
    return not is_secret_name(change.path) and GITLINK_MODE not in (
        change.old_mode,
        change.new_mode,
    )


def withheld(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the quoted paths of the changes whose contents are not part of evidence."""
    return tuple(quote_path(change.path) for change in changes if not is_shown(change))


def contents(changes: Iterable[Change]) -> frozenset[BlobId]:
    """Return the ids of the contents before and after those changes that are shown."""
    found: set[BlobId] = set()
    for change in filter(is_shown, changes):
        sides = ((change.old_mode, change.old_blob), (change.new_mode, change.new_blob))
        found |= {blob for mode, blob in sides if mode != ABSENT_MODE}
    return frozenset(found)


def portable_proof(proof: CheckProof) -> CheckProof:
    """Return a proof without the places of one machine."""
    return replace(
        proof, cwd=".", stdout=_portable_log(proof.stdout), stderr=_portable_log(proof.stderr)
    )


def _portable_log(log: SavedLog | None) -> SavedLog | None:
    return None if log is None else replace(log, path=PurePath(log.path).name)


def portable_receipt(receipt: Receipt) -> Receipt:
    """Return a receipt without the places of one machine."""
    return replace(receipt, checks=tuple(portable_proof(proof) for proof in receipt.checks))
