"""Which refs a run has, by its own records: whatever else lies below its prefix is somebody's."""

from collections.abc import Iterable, Mapping

from engine.core.ids import AttemptId, RunId
from engine.core.spec import Kind, RunSpec
from engine.core.subject import SubjectKind
from engine.records.run import RunRecordV1
from pinata.work.result import SavedResult
from worktrees.refs import base_ref, checkout_ref, pull_ref, task_ref

# The commit that a ref must hold, or None where no record says which.
NamedRefs = Mapping[str, str | None]


def named_refs(
    record: RunRecordV1,
    spec: RunSpec,
    attempts: Iterable[AttemptId] = (),
    results: Mapping[AttemptId, SavedResult] | None = None,
) -> NamedRefs:
    """Return the refs that a run may have, evidence aside; it need not have all of them.

    Args:
        record: of the run.
        spec: its request.
        attempts: that were started.
        results: of those of them that have one.
    """
    run, named = record.id, _of_subjects(record)
    if record.base_commit is not None:
        named[base_ref(run)] = record.base_commit
    saved = results or {}
    for attempt in attempts:
        if spec.task(attempt.task).kind is Kind.WRITER:
            result = saved.get(attempt)
            artifact = None if result is None else result.artifact
            ref = task_ref(run, attempt.task, attempt.number)
            named[ref] = None if artifact is None else artifact.result_commit
    return named


def _of_subjects(record: RunRecordV1) -> dict[str, str | None]:
    run: RunId = record.id
    named: dict[str, str | None] = {}
    for subject in record.subjects.values():
        if subject.kind is not SubjectKind.PULL_REQUEST:
            named[checkout_ref(run)] = subject.head
        elif (pull := subject.pull_request) is not None:
            named[pull_ref(run, pull.number, "head")] = subject.head
            # The branch's tip; the subject begins where both sides parted.
            named[pull_ref(run, pull.number, "base")] = None
    return named
