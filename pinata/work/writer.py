"""Carries out a writer's attempt: a worktree of its own, the agent, and proof of what it did."""

from dataclasses import replace

from agents.brief import BriefSpec, Workspace, WorkspaceKind
from agents.submission import SubmissionRules, encode_submission
from engine.core.changes import quote_path
from engine.core.fingerprint import artifact_fingerprint, digest
from engine.core.ids import CommitId, TreeId
from engine.core.outcome import FailureStage, Status
from engine.core.ownership import Ownership
from engine.core.quote import name_list
from engine.core.spec import Kind
from engine.ports import Reporter
from engine.system.files import make_private_dir
from pinata.work.agent import Assignment, dependencies, lead
from pinata.work.draft import Draft, Ending
from pinata.work.proving import proofs_digest, run_checks
from pinata.work.result import Artifact, Patch, changes_of, stored_changes
from pinata.work.setup import set_up
from pinata.work.workshop import Workshop, in_thread
from worktrees.capture import Capture, capture
from worktrees.compose import compose
from worktrees.hygiene import Repository
from worktrees.include import copy_included
from worktrees.lease import create_worktree
from worktrees.objects import commit_tree
from worktrees.patch import write_patch
from worktrees.watch import Surroundings, differing, watch

_MOST_NAMED = 10


async def write(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    """Have the writer write, and return how its attempt ends; what it did is in `draft`."""
    commit, tree = await _base(workshop, draft)
    worktree = await _worktree(workshop, draft, commit)
    if (ending := await set_up(workshop, draft, worktree, tree)) is not None:
        return ending
    before = await watch(workshop.run.repository, worktree)
    brief = BriefSpec(
        task=draft.task,
        workspace=Workspace(WorkspaceKind.OWN_WORKTREE, str(worktree.root)),
        run_instructions=workshop.run.spec.instructions,
        dependencies=dependencies(workshop, draft),
    )
    values = {"workspace": str(worktree.root)}
    assignment = Assignment(worktree, brief, SubmissionRules(Kind.WRITER), values)
    unfinished = await lead(workshop, draft, reporter, assignment)
    if unfinished is not None and unfinished.stage is not FailureStage.RESULT:
        return unfinished
    draft.stage = FailureStage.VERIFICATION
    found = await _capture(workshop, draft, worktree, commit, tree)
    fault = await _disturbance(workshop, draft, before, worktree)
    fault = fault or _trespass(workshop, draft, found, commit)
    if fault is not None:
        return Ending.failed(fault, FailureStage.VERIFICATION)
    if unfinished is not None:
        return unfinished
    return await _prove(workshop, draft, reporter, worktree)


async def _base(workshop: Workshop, draft: Draft) -> tuple[CommitId, TreeId]:
    """Return the commit and tree that the writer starts from; a ref keeps them."""
    commit, tree = workshop.run.record.base
    before = workshop.writers_before(draft.task.id)
    if before:
        artifacts = [(task, workshop.results[task].artifact) for task in before]
        made = [(task, changes_of(found)) for task, found in artifacts if found is not None]
        tree = await compose(workshop.run.repository, tree, made)
        message = f"pinata: base of {draft.attempt} in {workshop.run.id}\n"
        commit = await commit_tree(
            workshop.run.repository, [commit], tree, message, workshop.run.context.clock.now_ms()
        )
    await workshop.keeper.keep_base(draft.attempt, commit)
    return commit, tree


async def _worktree(workshop: Workshop, draft: Draft, base: CommitId) -> Repository:
    run = workshop.run
    seed = run.folder.index_file(draft.task.id)
    worktree = await create_worktree(
        run.repository,
        run.places.worktree(run.id, draft.task.id),
        base,
        seed,
        run.places.worktree_lock,
        f"run {run.id} task {draft.task.id}",
    )
    included = await copy_included(run.repository, worktree, seed)
    draft.notices.extend(included.notes)
    workshop.worktrees[draft.task.id] = worktree
    return worktree


async def _capture(
    workshop: Workshop, draft: Draft, worktree: Repository, commit: CommitId, tree: TreeId
) -> Capture:
    """Store what the worktree holds now, keep it by the attempt's ref and put it into `draft`."""
    run = workshop.run
    found = await capture(worktree, tree, run.folder.index_file(draft.task.id), workshop.scratch)
    message = f"pinata: result of {draft.attempt} in {run.id}\n"
    result = await commit_tree(
        run.repository, [commit], found.tree, message, workshop.run.context.clock.now_ms()
    )
    await workshop.keeper.keep_result(draft.attempt, result, commit)
    target = run.folder.patch_file(draft.attempt)
    await in_thread(lambda: make_private_dir(target.parent), "cannot keep a patch")
    patch = await write_patch(run.repository, tree, found.tree, target)
    draft.artifact = Artifact(
        base_commit=commit,
        base_tree=tree,
        result_commit=result,
        result_tree=found.tree,
        changes=stored_changes(found.changes),
        patch=Patch(str(patch.path), patch.bytes, patch.sha256),
    )
    return found


async def _disturbance(
    workshop: Workshop, draft: Draft, before: Surroundings, worktree: Repository
) -> str | None:
    """Return what the writer did to the repository around its worktree, None when nothing.

    What only the user should have done, but may do at any time, becomes a notice.
    """
    after = await watch(workshop.run.repository, worktree)
    if moved := differing(before.user_refs, after.user_refs):
        draft.notices.append(f"while it worked, {_named(moved)} moved in the user's repository")
    if altered := differing(before.rules, after.rules):
        return f"it changed what decides what Git sees: {_named(altered)}"
    if foreign := await workshop.keeper.moved_by_others():
        return f"refs of the run were moved: {_named(foreign)}"
    return None


def _trespass(workshop: Workshop, draft: Draft, found: Capture, base: CommitId) -> str | None:
    """Return what the writer did in its worktree that it may not do, None when nothing."""
    if found.head != base:
        return "it moved HEAD of its worktree: committing is the coordinator's business"
    if found.nested:
        nested = [quote_path(path) for path in found.nested]
        return f"it put repositories or submodules into its worktree: {_named(nested)}"
    owned = Ownership.build(draft.task.ownership, fold_case=workshop.run.record.fold_case)
    unowned = [quote_path(c.path) for c in found.changes if not owned.owns(c.path)]
    return f"it changed what it does not own: {_named(unowned)}" if unowned else None


async def _prove(
    workshop: Workshop, draft: Draft, reporter: Reporter, worktree: Repository
) -> Ending:
    """Hold what the writer says against what it did, run the checks, and bind all of it."""
    submission, artifact = draft.submission, draft.artifact
    assert submission is not None
    assert artifact is not None
    ending = Ending.said(submission)
    if ending.status is not Status.SUCCEEDED:
        return ending
    if (wrong := false_claim(submission.changed_files, artifact)) is not None:
        return Ending.failed(wrong, FailureStage.VERIFICATION)
    if (failure := await run_checks(workshop, draft, reporter, worktree.root)) is not None:
        return failure
    seed = workshop.run.folder.index_file(draft.task.id)
    again = await capture(worktree, TreeId(artifact.result_tree), seed, workshop.scratch)
    if again.changes or again.nested:
        altered = [quote_path(change.path) for change in again.changes]
        altered += [quote_path(path) for path in again.nested]
        reason = f"the checks changed what they were to prove: {_named(altered)}"
        return Ending.failed(reason, FailureStage.VERIFICATION)
    fingerprint = artifact_fingerprint(
        TreeId(artifact.base_tree),
        changes_of(artifact),
        proofs_digest(draft.proofs),
        digest(encode_submission(submission)),
    )
    draft.artifact = replace(artifact, fingerprint=fingerprint)
    return ending


def false_claim(claimed: tuple[str, ...], artifact: Artifact) -> str | None:
    """Return how the paths that a writer names differ from those that changed, None if not."""
    captured = {change.path for change in artifact.changes}
    parts = []
    if missing := sorted(captured - set(claimed)):
        parts.append(f"it does not name {_named(missing)}")
    if extra := sorted(set(claimed) - captured):
        parts.append(f"it names {_named(extra)}, which did not change")
    return f"changedFiles is not what changed: {'; '.join(parts)}" if parts else None


def _named(names: list[str] | tuple[str, ...]) -> str:
    more = len(names) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f"{name_list(names[:_MOST_NAMED])}{rest}"
