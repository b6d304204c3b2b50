"""Whether evidence agrees with itself: every digest, fingerprint, verdict and patch, once more.

Whoever can push a ref can push anything. An inconsistent change is found here; a rewrite that is
consistent in itself is found by whoever knows the id that the evidence should have.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import trio

from checks.proof import proofs_digest
from engine.core.changes import (
    ABSENT_MODE,
    EXECUTABLE_MODE,
    FILE_MODE,
    GITLINK_MODE,
    SYMLINK_MODE,
    Change,
    quote_path,
)
from engine.core.environment import validate_pass_env
from engine.core.errors import ConflictError, CorruptionError, UsageError
from engine.core.fingerprint import artifact_fingerprint, digest
from engine.core.ids import BlobId, TaskId, TreeId
from engine.core.outcome import Status, Verdict
from engine.core.spec import CheckSpec
from engine.records.check import decode_checks
from pinata.work.approved import never_integrated
from pinata.work.evidence import contents, is_shown, withheld
from pinata.work.evidence_record import (
    DIGESTS,
    MANIFEST,
    ManifestV1,
    PatchDigest,
    ReviewV1,
    WriterV1,
    altered_documents,
    decode_document,
)
from pinata.work.net import net_changes
from pinata.work.receipt import Receipt, judge
from pinata.work.result import changes_of_stored
from worktrees.apply_plan import check_changes
from worktrees.apply_stage import StoredFile
from worktrees.evidence import EvidenceTree, patched
from worktrees.hygiene import Repository

_MODES = frozenset({ABSENT_MODE, FILE_MODE, EXECUTABLE_MODE, SYMLINK_MODE, GITLINK_MODE})
_OBJECT_ID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The documents of one evidence commit.

    Attributes:
        writers, reviews, receipts: by the names of their documents.
        planned: the checks for a destination.
    """

    tree: EvidenceTree
    manifest: ManifestV1
    writers: dict[str, WriterV1]
    reviews: dict[str, ReviewV1]
    receipts: dict[str, Receipt]
    planned: tuple[CheckSpec, ...]

    @property
    def steps(self) -> tuple[tuple[TaskId, tuple[Change, ...]], ...]:
        """What each writer changed, predecessors before dependents."""
        ordered = ((TaskId(task), self.writers[task]) for task in self.manifest.order)
        return tuple((task, changes_of_stored(each.changes)) for task, each in ordered)


def decode_evidence(tree: EvidenceTree) -> Evidence:
    """Return the documents of an evidence commit.

    Raises:
        CorruptionError: one was altered, is missing or does not belong there; names it.
    """
    altered = altered_documents(tree.documents)
    if altered:
        raise CorruptionError(f"{altered[0]} of the evidence was altered: it has another digest")
    documents = dict(tree.documents)
    del documents[DIGESTS]
    if MANIFEST not in documents:
        raise CorruptionError(f"the evidence has no {MANIFEST}")
    manifest = decode_document(ManifestV1, documents.pop(MANIFEST), MANIFEST)
    writers: dict[str, WriterV1] = {}
    reviews: dict[str, ReviewV1] = {}
    receipts: dict[str, Receipt] = {}
    for path, data in documents.items():
        folder, _, name = path.removesuffix(".json").partition("/")
        if folder == "writers" and path.endswith(".json"):
            writers[name] = decode_document(WriterV1, data, path)
            _check_shape(path, writers[name])
        elif folder == "reviews" and path.endswith(".json"):
            reviews[name] = decode_document(ReviewV1, data, path)
        elif folder == "receipts" and path.endswith(".json"):
            receipts[name] = decode_document(Receipt, data, path)
        elif folder != "writers" or not path.endswith(".patch"):
            raise CorruptionError(f"{path} does not belong into evidence")
    return Evidence(tree, manifest, writers, reviews, receipts, _planned(manifest))


def _planned(manifest: ManifestV1) -> tuple[CheckSpec, ...]:
    """Return the checks that a manifest names, held to the rules for those of a job.

    Raises:
        CorruptionError: no job could have had them.
    """
    said = [
        {"id": check.id, "argv": list(check.argv), "timeoutMs": check.timeout_ms}
        for check in manifest.integrated_checks
    ]
    try:
        for name in manifest.pass_env:
            validate_pass_env(name)
        return decode_checks(said, "integrated_checks")
    except UsageError as error:
        raise CorruptionError(f"{MANIFEST} is damaged: {error}") from error


def _check_shape(path: str, writer: WriterV1) -> None:
    """Refuse changes that no repository can hold.

    Raises:
        CorruptionError: names the document.
    """
    try:
        for stored in writer.changes:
            modes, blobs = (stored.old_mode, stored.new_mode), (stored.old_blob, stored.new_blob)
            if not (_MODES.issuperset(modes) and all(map(_OBJECT_ID.fullmatch, blobs))):
                raise CorruptionError(f"{path} is damaged: a change has no proper modes and ids")
        check_changes([each for each in changes_of_stored(writer.changes) if is_shown(each)])
    except (UsageError, ValueError, IndexError) as error:
        raise CorruptionError(f"{path} is damaged: its changes: {error}") from error


async def find_faults(repo: Repository, evidence: Evidence) -> list[str]:
    """Return what in the evidence does not agree or was not approved, one sentence each."""
    faults = await trio.to_thread.run_sync(lambda: list(_faults(evidence)))
    if not faults:
        for name, writer in evidence.writers.items():
            if not await _patch_agrees(repo, evidence, writer):
                says = "does not lead from the contents before to those after"
                faults.append(f"writers/{name}.patch {says}")
    return faults


def _faults(evidence: Evidence) -> Iterator[str]:
    yield from _run_faults(evidence)
    for name, writer in sorted(evidence.writers.items()):
        yield from _under(f"writers/{name}.json", _writer_faults(evidence, name, writer))
    for name, review in sorted(evidence.reviews.items()):
        yield from _under(f"reviews/{name}.json", _review_faults(evidence, name, review))
    for name, receipt in sorted(evidence.receipts.items()):
        faults = _receipt_faults(evidence.manifest, name, receipt)
        yield from _under(f"receipts/{name}.json", faults)


def _under(path: str, faults: Iterator[str]) -> Iterator[str]:
    return (f"{path}: {fault}" for fault in faults)


def _run_faults(evidence: Evidence) -> Iterator[str]:
    manifest, writers = evidence.manifest, evidence.writers
    if manifest.status is not Status.SUCCEEDED:
        yield f"{MANIFEST}: the run is {manifest.status.value}"
    for task in sorted(set(manifest.order) - writers.keys()):
        yield f"writers/{task}.json is missing: the change of {task} is not in the evidence"
    for task in sorted(writers.keys() - set(manifest.order)):
        yield f"writers/{task}.json: {MANIFEST} does not name it"
    if not manifest.order:
        yield f"{MANIFEST}: it names no change that could be held against anything"
    if len(set(manifest.order)) < len(manifest.order):
        yield f"{MANIFEST}: it names a writer twice"
    needed: set[BlobId] = set()
    for writer in writers.values():
        needed |= contents(changes_of_stored(writer.changes))
    for blob in sorted(evidence.tree.files - needed):
        yield f"files/{blob} belongs to no change"
    if sorted(manifest.order) == sorted(writers):
        try:
            net_changes(evidence.steps)
        except ConflictError as error:
            yield str(error)


def _writer_faults(evidence: Evidence, name: str, writer: WriterV1) -> Iterator[str]:
    changes = changes_of_stored(writer.changes)
    if writer.task != name:
        yield f"it is about {writer.task}"
    if writer.status is not Status.SUCCEEDED:
        yield f"the task is {writer.status.value}"
    if writer.fingerprint != _recomputed(writer, changes):
        yield "its fingerprint does not fit its base, changes, checks and result"
    yield from _check_faults(writer)
    yield from _content_faults(evidence, writer, changes)
    if (refusal := never_integrated(changes)) is not None:
        yield refusal
    if not any(review.writer == writer.task for review in evidence.reviews.values()):
        yield "nobody reviewed it"


def _content_faults(
    evidence: Evidence, writer: WriterV1, changes: Sequence[Change]
) -> Iterator[str]:
    if writer.withheld != withheld(changes):
        yield "what it withholds is not what evidence withholds"
    for change in filter(is_shown, changes):
        for missing in sorted(contents([change]) - evidence.tree.files):
            yield f"the content {missing} of {quote_path(change.path)} is missing"
    patch = evidence.tree.documents.get(f"writers/{writer.task}.patch")
    if patch is None:
        yield "its patch is missing"
    elif PatchDigest.of(patch) != writer.patch:
        yield "its patch is not the one that it names"


def _recomputed(writer: WriterV1, changes: Sequence[Change]) -> str:
    return artifact_fingerprint(
        TreeId(writer.base_tree),
        changes,
        proofs_digest(writer.checks),
        digest(dict(writer.submission or {})),
    )


def _check_faults(writer: WriterV1) -> Iterator[str]:
    for proof in writer.checks:
        if not proof.passed:
            yield f"check {proof.id} did not pass"
    for check in writer.not_run:
        yield f"check {check} was not run"
    if not writer.checks and writer.no_checks_reason is None:
        yield "no check proves it, and there is no reason why"


def _review_faults(evidence: Evidence, name: str, review: ReviewV1) -> Iterator[str]:
    writer = evidence.writers.get(review.writer)
    said = (review.submission or {}).get("review")
    verdict = said.get("verdict") if isinstance(said, dict) else None
    if review.task != name:
        yield f"it is about {review.task}"
    if review.status is not Status.SUCCEEDED or review.verdict is not Verdict.APPROVE:
        yield f"{review.task} did not approve"
    if verdict != (review.verdict and review.verdict.value):
        yield "its verdict is not the one that was handed in"
    if writer is None:
        yield f"it reviews {review.writer}, which is not in the evidence"
    elif review.fingerprint != writer.fingerprint:
        yield f"it approves another change than the one of {review.writer}"


def _receipt_faults(manifest: ManifestV1, name: str, receipt: Receipt) -> Iterator[str]:
    if str(receipt.id) != name or receipt.run != manifest.run:
        yield "it is another receipt than its place says"
    planned = len(receipt.checks) + len(receipt.omitted)
    asked = {check.id: check.argv for check in manifest.integrated_checks}
    for proof in receipt.checks:
        if proof.list == "integratedChecks" and asked.get(proof.id) != proof.argv:
            yield f"check {proof.id} is not the one that {MANIFEST} names"
    if receipt.status != judge(receipt.before, receipt.after, receipt.checks, planned):
        yield f"{receipt.status} is not what its checks and states come to"


async def _patch_agrees(repo: Repository, evidence: Evidence, writer: WriterV1) -> bool:
    shown = [change for change in changes_of_stored(writer.changes) if is_shown(change)]
    before = {c.path: StoredFile(c.path, c.old_mode, c.old_blob) for c in shown if _was(c)}
    after = {c.path: StoredFile(c.path, c.new_mode, c.new_blob) for c in shown if _is(c)}
    patch = evidence.tree.documents[f"writers/{writer.task}.patch"]
    return await patched(repo, before, patch) == after


def _was(change: Change) -> bool:
    return change.old_mode != ABSENT_MODE


def _is(change: Change) -> bool:
    return change.new_mode != ABSENT_MODE
