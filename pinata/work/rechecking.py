"""What can be held against a saved result once more, whoever wrote it: plan, claim and ownership.

A result is a file that anybody with a shell can write. What it says of the repository is derived
from the repository elsewhere; here is what follows from the request alone.
"""

from collections.abc import Sequence

from checks.proof import ListName
from engine.core.changes import Change, quote_path
from engine.core.graph import TaskGraph
from engine.core.ids import CommitId, TaskId, TreeId
from engine.core.ownership import Ownership
from engine.core.quote import name_list
from engine.core.spec import CheckSpec, Kind, RunSpec, TaskSpec
from pinata.work.result import Artifact, SavedResult, changes_of

Base = tuple[CommitId, TreeId]


def planned_checks(task: TaskSpec) -> tuple[tuple[ListName, CheckSpec], ...]:
    """Return the checks of a task's attempts in the order in which they are run."""
    return (
        *(("checks", check) for check in task.checks),
        *(("evidenceChecks", check) for check in task.evidence_checks),
    )


def contradiction(spec: RunSpec, result: SavedResult, base: Base, *, fold_case: bool) -> str | None:
    """Return why a result that says `succeeded` cannot have, None when nothing speaks against it.

    Args:
        spec: the run as it was requested.
        result: of an attempt at one of its tasks.
        base: what the run's writers started from.
        fold_case: whether the volume takes names that differ in letter case for one name.
    """
    task = spec.task(result.id)
    if (wrong := unproven(task, result)) is not None or task.kind is not Kind.WRITER:
        return wrong
    artifact = result.artifact
    if artifact is None or result.submission is None:
        return "it succeeded without a captured change"
    started_from = known_base(spec, task.id, base)
    if started_from not in (None, (artifact.base_commit, artifact.base_tree)):
        return "it did not start from the run's base"
    if (wrong := trespass(task, changes_of(artifact), fold_case=fold_case)) is not None:
        return wrong
    claimed = result.submission.get("changedFiles")
    if not isinstance(claimed, list | tuple):
        return "its result names no changed files"
    return false_claim(tuple(map(str, claimed)), artifact)


def unproven(task: TaskSpec, result: SavedResult) -> str | None:
    """Return which planned check has no proof that it passed, or which proof nobody planned."""
    planned = [(in_list, check.id, check.argv) for in_list, check in planned_checks(task)]
    shown = [(proof.list, proof.id, proof.argv) for proof in result.checks]
    for proof in result.checks:
        if not proof.passed:
            return f"check {proof.id} did not pass"
    for each in planned:
        if each not in shown:
            return f"check {each[1]} has no proof that it passed as it was planned"
    return None if shown == planned else "its checks are not the planned ones"


def trespass(task: TaskSpec, changes: Sequence[Change], *, fold_case: bool) -> str | None:
    """Return what a writer changed outside of what it owns, None when nothing."""
    owned = Ownership.build(task.ownership, fold_case=fold_case)
    unowned = [change.path for change in changes if not owned.owns(change.path)]
    if not unowned:
        return None
    # The list may be cut where it is shown, so that a remedy stands before it.
    remedy = ""
    if all(_is_python_cache(path) for path in unowned):
        remedy = ", caches of Python; have Git ignore them, or run python with -B"
    named = name_list([quote_path(path) for path in unowned])
    return f"it changed what it does not own{remedy}: {named}"


def _is_python_cache(path: bytes) -> bool:
    return b"__pycache__" in path.split(b"/") or path.endswith(b".pyc")


def false_claim(claimed: tuple[str, ...], artifact: Artifact) -> str | None:
    """Return how the paths that a writer names differ from those that changed, None if not."""
    captured = {change.path for change in artifact.changes}
    parts = []
    if missing := sorted(captured - set(claimed)):
        parts.append(f"it does not name {name_list(missing)}")
    if extra := sorted(set(claimed) - captured):
        parts.append(f"it names {name_list(extra)}, which did not change")
    return f"changedFiles is not what changed: {'; '.join(parts)}" if parts else None


def known_base(spec: RunSpec, task: TaskId, base: Base) -> Base | None:
    """Return what a writer must have started from; None when writers before it decide that.

    Args:
        spec: of the run.
        task: the writer.
        base: of the run.
    """
    above = TaskGraph.build(spec.tasks).ancestors(task)
    follows = any(each.kind is Kind.WRITER and each.id in above for each in spec.tasks)
    return None if follows else base
