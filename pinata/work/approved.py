"""What of a run may go into a checkout: everything succeeded, reviewed as exactly what it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checks.proof import proofs_digest
from engine.core.changes import GITLINK_MODE, SYMLINK_MODE, Change, quote_path
from engine.core.errors import ConflictError, CorruptionError
from engine.core.fingerprint import artifact_fingerprint, digest
from engine.core.graph import TaskGraph
from engine.core.ids import TaskId, TreeId
from engine.core.outcome import Status
from engine.core.paths import is_secret_name
from engine.core.spec import Kind, RunSpec
from pinata.work.history import StoredRun
from pinata.work.net import net_changes
from pinata.work.rechecking import contradiction
from pinata.work.result import Artifact, SavedResult, changes_of, fingerprint_of
from pinata.work.review import evidence_digest, missing_approval
from pinata.work.summary import TaskFacts
from worktrees.hygiene import Repository
from worktrees.patch import changes_between


class NotApprovedError(ConflictError):
    """Something of the run may not go into a checkout; the message names the first offender."""


@dataclass(frozen=True, slots=True)
class WriterChange:
    """One writer's change, held against the objects that it left."""

    task: TaskId
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The change of a run, approved as exactly what it is.

    Attributes:
        writers: one per writer, predecessors before dependents.
        evidence_digest: over the writers' fingerprints and the reviews bound to them.
    """

    writers: tuple[WriterChange, ...]
    evidence_digest: str


@dataclass(frozen=True, slots=True)
class Approved:
    """The approved change of a run.

    Attributes:
        changes: the net effect, one change per path, sorted by path.
        evidence_digest: over the writers' fingerprints and the reviews bound to them.
    """

    changes: tuple[Change, ...]
    evidence_digest: str


async def approved(repository: Repository, stored: StoredRun) -> Approved:
    """Return what of a run may be integrated.

    Raises:
        NotApprovedError: a task did not succeed, a review is missing or stale, or a change may
            never be integrated.
        CorruptionError: what is recorded of a writer does not agree with itself.
    """
    found = await reviewed(repository, stored)
    for writer in found.writers:
        if (refusal := never_integrated(writer.changes)) is not None:
            raise NotApprovedError(f"task {writer.task}: {refusal}")
    net = net_changes([(writer.task, writer.changes) for writer in found.writers])
    return Approved(net, found.evidence_digest)


async def reviewed(repository: Repository, stored: StoredRun) -> Reviewed:
    """Return the change of a run that succeeded and was approved, wherever it may go.

    Raises:
        NotApprovedError: a task or the run did not succeed, or a review is missing or stale.
        CorruptionError: what is recorded of a task does not agree with itself or the request.
    """
    spec, results = stored.spec, stored.results
    if spec.approval is None or not spec.has_writers:
        raise NotApprovedError("the run has no task that changes files: there is nothing to apply")
    refuse_unsuccessful(spec, stored.facts)
    if (settled := stored.view.status) is not Status.SUCCEEDED:
        raise NotApprovedError(f"the run is {settled.value}: it must succeed as a whole")
    if (missing := missing_approval(spec, results)) is not None:
        raise NotApprovedError(missing)
    _refuse_contradictions(stored)
    writers = [
        WriterChange(task, await intact_changes(repository, results[task]))
        for task in ordered_writers(spec)
    ]
    return Reviewed(tuple(writers), evidence_digest(spec, results))


def ordered_writers(spec: RunSpec) -> tuple[TaskId, ...]:
    """Return the tasks that change files, predecessors before dependents."""
    order = TaskGraph.build(spec.tasks).order
    return tuple(task for task in order if spec.task(task).kind is Kind.WRITER)


def writers_before(spec: RunSpec, graph: TaskGraph, task: TaskId) -> tuple[TaskId, ...]:
    """Return the writers whose changes `task` starts from, predecessors before dependents."""
    above = graph.ancestors(task)
    return tuple(
        name for name in graph.order if name in above and spec.task(name).kind is Kind.WRITER
    )


def refuse_unsuccessful(spec: RunSpec, facts: Mapping[TaskId, TaskFacts]) -> None:
    """Refuse a run of which some task did not succeed.

    Raises:
        NotApprovedError: names the first such task in input order, with its status.
    """
    for task in spec.tasks:
        status = facts[task.id].status
        if status is not Status.SUCCEEDED:
            raise NotApprovedError(f"task {task.id} is {status.value}: every task must succeed")


def _refuse_contradictions(stored: StoredRun) -> None:
    """Refuse results that cannot have come about as the request says, whatever wrote them.

    Raises:
        CorruptionError: names the first such task.
    """
    spec, record = stored.spec, stored.record
    for task in spec.tasks:
        result = stored.results.get(task.id)
        if result is None:
            raise CorruptionError(f"task {task.id} succeeded without a result")
        wrong = contradiction(spec, result, record.base, fold_case=record.fold_case)
        if wrong is not None:
            raise CorruptionError(f"the saved result of task {task.id} is not true: {wrong}")


def never_integrated(changes: Sequence[Change]) -> str | None:
    """Return why a change can never be integrated, None when it can.

    That is a change to a secret-bearing name, a symbolic link or a submodule, on either side.
    """
    for change in changes:
        modes = {change.old_mode, change.new_mode}
        what = None
        if is_secret_name(change.path):
            what = "has a name that bears secrets"
        elif SYMLINK_MODE in modes:
            what = "is a symbolic link"
        elif GITLINK_MODE in modes:
            what = "is a submodule"
        if what is not None:
            shown = quote_path(change.path)
            return f"{shown} {what}: such a change is never integrated; make it by hand"
    return None


async def intact_changes(repository: Repository, result: SavedResult) -> tuple[Change, ...]:
    """Return a writer's changes, derived once more from the objects that it left.

    Raises:
        CorruptionError: they are not the recorded ones, or do not have the recorded fingerprint.
    """
    artifact = result.artifact
    if artifact is None or result.submission is None:
        raise CorruptionError(f"task {result.task} succeeded without a captured change")
    found = await changes_between(
        repository, TreeId(artifact.base_tree), TreeId(artifact.result_tree)
    )
    if found != changes_of(artifact):
        raise CorruptionError(f"task {result.task}: its change is not the recorded one")
    if _recomputed(artifact, result) != fingerprint_of(result):
        raise CorruptionError(f"task {result.task}: its fingerprint does not fit its evidence")
    return found


def _recomputed(artifact: Artifact, result: SavedResult) -> str:
    return artifact_fingerprint(
        TreeId(artifact.base_tree),
        changes_of(artifact),
        proofs_digest(result.checks),
        digest(dict(result.submission or {})),
    )
