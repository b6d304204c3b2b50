"""Carries out a writer's attempt: a worktree of its own, the agent, and proof of what it did."""

from dataclasses import replace

from agents.brief import BriefSpec, RepairNote, Workspace, WorkspaceKind
from agents.submission import SubmissionRules, decode_submission, encode_submission
from checks.proof import proofs_digest
from engine.core.changes import quote_path
from engine.core.events import RepairStarted
from engine.core.fingerprint import artifact_fingerprint, digest
from engine.core.ids import CommitId, TreeId
from engine.core.outcome import FailureStage, Status
from engine.core.quote import name_list
from engine.core.spec import Kind
from engine.ports import Reporter
from engine.system.files import make_private_dir
from pinata.work.agent import Assignment, dependencies, lead
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft, Ending
from pinata.work.proving import run_checks
from pinata.work.rechecking import false_claim, trespass
from pinata.work.result import Artifact, Patch, changes_of, stored_changes
from pinata.work.setup import set_up
from pinata.work.watching import Before, disturbance, look_before, note_ignored
from pinata.work.workplace import Base, open_workplace
from pinata.work.workshop import Workshop
from worktrees.capture import Capture, capture
from worktrees.hygiene import Repository
from worktrees.objects import commit_tree
from worktrees.patch import write_patch


async def write(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    """Have the writer write, and return how its attempt ends; what it did is in `draft`."""
    place = await open_workplace(workshop, draft)
    base, worktree = place.base, place.worktree
    if (ending := await set_up(workshop, draft, place)) is not None:
        return ending
    before = await look_before(workshop, draft, place)
    if before.fault is not None:
        return Ending.failed(before.fault, FailureStage.WORKSPACE)
    brief = BriefSpec(
        task=draft.task,
        workspace=Workspace(WorkspaceKind.OWN_WORKTREE, str(worktree.root)),
        run_instructions=workshop.run.spec.instructions,
        dependencies=dependencies(workshop, draft),
        repair=_repair_note(workshop, draft),
    )
    if brief.repair is not None:
        await reporter.record(RepairStarted(draft.attempt))
    values = {"workspace": str(worktree.root)}
    assignment = Assignment(worktree, brief, SubmissionRules(Kind.WRITER), values)
    unfinished = await lead(workshop, draft, reporter, assignment)
    if unfinished is not None and unfinished.stage is not FailureStage.RESULT:
        return unfinished
    draft.stage = FailureStage.VERIFICATION
    found = await _capture(workshop, draft, worktree, base, before)
    await note_ignored(draft, before, worktree, found)
    fault = await disturbance(workshop, draft, before, worktree)
    fault = fault or _trespass(workshop, draft, found, base.commit)
    if fault is not None:
        return Ending.failed(fault, FailureStage.VERIFICATION)
    if unfinished is not None:
        return unfinished
    ending = await _prove(workshop, draft, reporter, worktree, found)
    if draft.proofs and (fault := await disturbance(workshop, draft, before, worktree)):
        # The checks ran what the writer wrote, and that could do what the writer may not.
        return Ending.failed(f"while its checks ran, {fault}", FailureStage.VERIFICATION)
    return ending


def _repair_note(workshop: Workshop, draft: Draft) -> RepairNote | None:
    """Return what the brief says about a repair and the attempt before it; None for the first."""
    feedback = workshop.feedback.get(draft.task.id)
    if draft.attempt.number == 1 or feedback is None:
        return None
    before = workshop.results.get(draft.task.id)
    if before is None:
        return RepairNote(feedback)
    said = None if before.submission is None else decode_submission(before.submission, Kind.WRITER)
    summary = "" if said is None else said.summary
    return RepairNote(feedback, before.status, before.reason or "", summary)


async def _capture(
    workshop: Workshop, draft: Draft, worktree: Repository, base: Base, before: Before
) -> Capture:
    """Store what the worktree holds now, keep it by the attempt's ref and put it into `draft`."""
    run = workshop.run
    seed = run.folder.index_file(draft.task.id)
    await workshop.ensure_in_place(worktree.root)
    found = await capture(worktree, base.tree, seed, workshop.scratch, before.unseen.submodules)
    message = f"pinata: result of {draft.attempt} in {run.id}\n"
    result = await commit_tree(
        run.repository, [base.commit], found.tree, message, workshop.run.context.clock.now_ms()
    )
    await workshop.keeper.keep_result(draft.attempt, result, base.commit)
    target = run.folder.patch_file(draft.attempt)
    await in_thread(lambda: make_private_dir(target.parent), "cannot keep a patch")
    patch = await write_patch(run.repository, base.tree, found.tree, target)
    draft.artifact = Artifact(
        base_commit=base.commit,
        base_tree=base.tree,
        result_commit=result,
        result_tree=found.tree,
        changes=stored_changes(found.changes),
        patch=Patch(str(patch.path), patch.bytes, patch.sha256),
    )
    return found


def _trespass(workshop: Workshop, draft: Draft, found: Capture, base: CommitId) -> str | None:
    """Return what the writer did in its worktree that it may not do, None when nothing."""
    if found.head != base:
        return "it moved HEAD of its worktree: committing is the coordinator's business"
    if found.branch is not None:
        return f"it switched HEAD of its worktree to {found.branch}: branches are the user's"
    if found.nested:
        nested = [quote_path(path) for path in found.nested]
        return f"it put repositories or submodules into its worktree: {name_list(nested)}"
    return trespass(draft.task, found.changes, fold_case=workshop.run.record.fold_case)


async def _prove(
    workshop: Workshop, draft: Draft, reporter: Reporter, worktree: Repository, found: Capture
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
    await workshop.ensure_in_place(worktree.root)
    again = await capture(worktree, found.tree, seed, workshop.scratch, found.submodules)
    if again.altered:
        named = name_list(again.altered)
        # The list may be cut where it is shown, so that the remedy stands before it.
        reason = (
            f"the checks changed what they were to prove; have Git ignore their products: {named}"
        )
        return Ending.failed(reason, FailureStage.VERIFICATION)
    fingerprint = artifact_fingerprint(
        TreeId(artifact.base_tree),
        changes_of(artifact),
        proofs_digest(draft.proofs),
        digest(encode_submission(submission)),
    )
    draft.artifact = replace(artifact, fingerprint=fingerprint)
    return ending
