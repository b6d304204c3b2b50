"""Whether a result counts that was found beside a log which never announced it.

The process that saved it died before it could say so, or somebody wrote the file after ending that
process. A writer has a shell, so such a file counts for no more than what can be checked.
"""

from engine.core.errors import PinataError
from engine.core.ids import AttemptId, CommitId, TreeId
from engine.core.outcome import Status
from engine.core.spec import Kind
from pinata.work.approved import intact_changes
from pinata.work.rechecking import contradiction
from pinata.work.result import Artifact, SavedResult
from pinata.work.run import Run
from worktrees.objects import read_commit_tree
from worktrees.refs import read_ref, task_ref


async def is_credible(
    run: Run, attempt: AttemptId, saved: SavedResult, *, among_writers: bool
) -> bool:
    """Return whether to believe the result that was saved of a lost attempt.

    Args:
        run: taken over by this process.
        attempt: the lost one.
        saved: its result.
        among_writers: a writer was at work when the process died: it could have written a verdict,
            of which nothing can be checked.
    """
    if saved.id != attempt.task or saved.attempt != attempt.number:
        return False
    kind = run.spec.task(attempt.task).kind
    if saved.status not in (Status.SUCCEEDED, Status.REJECTED):
        return True
    if kind is not Kind.WRITER:
        return not (among_writers and kind is Kind.REVIEWER)
    return await _is_proven(run, attempt, saved)


async def _is_proven(run: Run, attempt: AttemptId, saved: SavedResult) -> bool:
    record = run.record
    if contradiction(run.spec, saved, record.base, fold_case=record.fold_case) is not None:
        return False
    assert saved.artifact is not None
    try:
        await intact_changes(run.repository, saved)
        return await _is_kept(run, attempt, saved.artifact)
    except PinataError:
        return False


async def _is_kept(run: Run, attempt: AttemptId, artifact: Artifact) -> bool:
    """Whether the attempt's ref keeps what the result says, and commits have the named trees."""
    ref = task_ref(run.id, attempt.task, attempt.number)
    if await read_ref(run.repository, ref) != artifact.result_commit:
        return False
    trees = {
        artifact.base_commit: TreeId(artifact.base_tree),
        artifact.result_commit: TreeId(artifact.result_tree),
    }
    for commit, tree in trees.items():
        if await read_commit_tree(run.repository, CommitId(commit)) != tree:
            return False
    return True
