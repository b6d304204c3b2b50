"""Hand-offs: what a run brings, as files that never change, for whoever takes it from here.

A hand-off is named by its evidence. Asking again for the same evidence gives the same files; new
evidence, such as a repair and its review, makes a new one beside the old.
"""

import hashlib
import json
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from engine.core.errors import CorruptionError
from engine.core.fingerprint import change_entry
from engine.core.graph import TaskGraph
from engine.core.ids import TaskId, TreeId
from engine.system import files
from pinata.work.approved import (
    Reviewed,
    WriterChange,
    never_integrated,
    reviewed,
    writers_before,
)
from pinata.work.blocking import in_thread
from pinata.work.context import Context
from pinata.work.history import HANDOFF_MANIFEST, StoredRun
from pinata.work.receipt import proof_answer
from pinata.work.result import Artifact
from pinata.work.retirement import refuse_retired, where_changes_are
from pinata.work.review import reviewers_of, standings
from worktrees.hygiene import Repository
from worktrees.patch import PatchFile, write_patch

_LIMIT_BYTES = 64 << 20
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder of one hand-off; it appears whole or not at all."""

    path: Path

    @property
    def manifest(self) -> Path:
        return self.path / HANDOFF_MANIFEST

    def patch(self, task: TaskId) -> Path:
        return self.path / f"{task}.patch"


async def hand_off(context: Context, repository: Repository, stored: StoredRun) -> dict[str, Any]:
    """Return the manifest of a run's approved changes, whose files then lie in the run's folder.

    The destination is left alone.

    Raises:
        NotApprovedError: a task did not succeed, or a review is missing or stale.
        RetiredRunError: the objects of its changes were given up.
        CorruptionError: the evidence, or what was handed off before, does not agree with itself.
    """
    folder = stored.folder
    handed = f"what was handed over before lies in {folder.handoffs}, {where_changes_are(folder)}"
    await refuse_retired(folder, handed)
    found = await reviewed(repository, stored)
    place = _Place(stored.folder.handoffs / found.evidence_digest)
    if not await trio.to_thread.run_sync(place.manifest.is_file):
        await _publish(context, repository, stored, found, place)
    return await trio.to_thread.run_sync(_checked, stored, found, place)


def _checked(stored: StoredRun, found: Reviewed, place: _Place) -> dict[str, Any]:
    """Return the manifest that lies at `place`, held against the evidence once more; blocks."""
    manifest = _read(place)
    expected = _manifest(stored, found, place, manifest.get("createdAt"), _patches(manifest))
    if manifest != expected:
        raise CorruptionError(f"{place.manifest} is not what the evidence says; move it away")
    _check_patches(place, manifest)
    return manifest


async def _publish(
    context: Context, repository: Repository, stored: StoredRun, found: Reviewed, place: _Place
) -> None:
    draft = _Place(place.path.with_name(f".{place.path.name}.{secrets.token_hex(4)}"))
    try:
        await in_thread(lambda: files.make_private_dir(draft.path), "cannot keep a hand-off")
        patches: dict[str, dict[str, Any]] = {}
        for writer in found.writers:
            artifact = _artifact(stored, writer.task)
            before, after = TreeId(artifact.base_tree), TreeId(artifact.result_tree)
            made = await write_patch(repository, before, after, draft.patch(writer.task))
            patches[writer.task] = _patch_answer(made, place.patch(writer.task))
        manifest = _manifest(stored, found, place, context.clock.now_ms(), patches)
        data = json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"
        await in_thread(lambda: _seal(draft, place, data), "cannot keep a hand-off")
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lambda: shutil.rmtree(draft.path, ignore_errors=True))


def _seal(draft: _Place, place: _Place, data: bytes) -> None:
    files.replace_file(draft.manifest, data, fault="handoff")
    files.flush_file_system(draft.path)  # the patches, too
    try:
        draft.path.rename(place.path)
    except OSError as error:
        # Whoever was faster has made the same files.
        if not place.manifest.is_file() and place.path.is_dir():
            raise CorruptionError(f"{place.manifest} is missing; move its folder away") from error
        if not place.manifest.is_file():
            raise
    files.sync_dir(place.path.parent)


def _read(place: _Place) -> dict[str, Any]:
    try:
        manifest = json.loads(files.read_regular(place.manifest, _LIMIT_BYTES))
    except (ValueError, FileNotFoundError) as error:
        raise CorruptionError(f"{place.manifest} is damaged; move it away") from error
    if not isinstance(manifest, dict):
        raise CorruptionError(f"{place.manifest} is damaged; move it away")
    return manifest


def _patches(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the patches that a manifest names, by task, as far as it can be understood."""
    builders = manifest.get("builders")
    if not isinstance(builders, list):
        return {}
    named = (each for each in builders if isinstance(each, dict))
    return {str(each.get("task")): each.get("patch", {}) for each in named}


def _check_patches(place: _Place, manifest: dict[str, Any]) -> None:
    for task, patch in _patches(manifest).items():
        path = place.patch(TaskId(task))
        try:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError as error:
            raise CorruptionError(f"{path} is missing; move the hand-off away") from error
        if found != patch.get("sha256"):
            raise CorruptionError(f"{path} was changed; move the hand-off away")


def _manifest(
    stored: StoredRun,
    found: Reviewed,
    place: _Place,
    created_at: object,
    patches: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    record, graph = stored.record, TaskGraph.build(stored.spec.tasks)
    manifest: dict[str, Any] = {
        "schemaVersion": 1,
        "handoff": found.evidence_digest,
        "run": record.run,
        "createdAt": created_at,
        "startingHead": record.head,
        "order": [writer.task for writer in found.writers],
        "reviewScope": "builder-artifacts-only",
        "builders": [
            _builder(stored, graph, writer, patches.get(writer.task, {}))
            for writer in found.writers
        ],
        "path": str(place.manifest),
    }
    if record.base_commit != record.head:
        manifest["snapshot"] = {
            "commit": record.base_commit,
            "uncommittedFiles": list(record.uncommitted),
        }
    return manifest


def _builder(
    stored: StoredRun, graph: TaskGraph, writer: WriterChange, patch: dict[str, Any]
) -> dict[str, Any]:
    record, spec, result = stored.record, stored.spec, stored.results[writer.task]
    task, artifact = spec.task(writer.task), _artifact(stored, writer.task)
    refusal = never_integrated(writer.changes)
    out: dict[str, Any] = {
        "task": task.id,
        "agent": {"name": task.agent, "digest": record.definitions[task.agent]["digest"]},
        "attempt": result.attempt,
        "base": {
            "commit": artifact.base_commit,
            "tree": artifact.base_tree,
            "uncommitted": record.base_commit != record.head,
            "predecessors": list(writers_before(spec, graph, task.id)),
        },
        "result": {"tree": artifact.result_tree},
        "fingerprint": artifact.fingerprint,
        "changes": [change_entry(change) for change in writer.changes],
        "patch": patch,
        "checks": [proof_answer(proof) for proof in result.checks],
        "reviews": _reviews(stored, task.id),
        "refusals": [] if refusal is None else [refusal],
    }
    if task.no_checks_reason is not None:
        out["noChecksReason"] = task.no_checks_reason
    return out


def _reviews(stored: StoredRun, writer: TaskId) -> list[dict[str, Any]]:
    agents = {task.id: task.agent for task in reviewers_of(stored.spec, writer)}
    out = []
    for standing in standings(stored.spec, writer, stored.results):
        assert standing.verdict is not None
        submission = stored.results[standing.reviewer].submission or {}
        out.append(
            {
                "task": standing.reviewer,
                "agent": agents[standing.reviewer],
                "verdict": standing.verdict.value,
                "fingerprint": standing.fingerprint,
                "findings": list(submission.get("findings", ())),
            }
        )
    return out


def _artifact(stored: StoredRun, task: TaskId) -> Artifact:
    artifact = stored.results[task].artifact
    assert artifact is not None  # `reviewed` has looked
    return artifact


def _patch_answer(made: PatchFile, path: Path) -> dict[str, Any]:
    return {"path": str(path), "bytes": made.bytes, "sha256": made.sha256}
