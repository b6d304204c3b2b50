"""Carries out a review of one writer's exact change."""

from dataclasses import replace

from agents.brief import BriefSpec, CheckEvidence, SteerNote, Target, Workspace, WorkspaceKind
from agents.submission import SubmissionRules, decode_submission
from checks.outcome import explain
from engine.core.changes import quote_path
from engine.core.errors import CorruptionError
from engine.core.ids import CheckId, Fingerprint, TaskId, TreeId
from engine.core.outcome import FailureStage, Status
from engine.core.quote import name_list
from engine.core.spec import Kind, ReviewOf, TaskSpec
from engine.ports import Reporter
from engine.system.files import make_private_dir
from pinata.work.agent import Assignment, dependencies, lead
from pinata.work.draft import Draft, Ending
from pinata.work.proving import run_evidence_checks
from pinata.work.result import Review, SavedResult, fingerprint_of
from pinata.work.workshop import Workshop, in_thread
from worktrees.capture import capture
from worktrees.hygiene import Repository
from worktrees.lease import open_worktree
from worktrees.patch import write_patch

_MOST_NAMED = 10


async def review(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    """Have the reviewer judge, and return how its attempt ends; the binding is in `draft`."""
    assert isinstance(draft.task.target, ReviewOf)
    writer = workshop.run.spec.task(draft.task.target.task)
    judged = workshop.results[writer.id]
    artifact, fingerprint = judged.artifact, fingerprint_of(judged)
    if artifact is None or fingerprint is None:
        raise CorruptionError(f"task {writer.id} succeeded without a verified change")
    place = await _place(workshop, writer)
    diff = workshop.run.folder.review_file(draft.attempt)
    await in_thread(lambda: make_private_dir(diff.parent), "cannot keep a diff")
    before, after = TreeId(artifact.base_tree), TreeId(artifact.result_tree)
    await write_patch(workshop.run.repository, before, after, diff)
    draft.review = Review(writer.id, fingerprint)
    brief = BriefSpec(
        task=draft.task,
        workspace=Workspace(WorkspaceKind.REVIEWED_TARGET, str(place.root)),
        run_instructions=workshop.run.spec.instructions,
        dependencies=dependencies(workshop, draft),
        target=replace(
            _target(writer, judged, fingerprint, str(diff)),
            earlier_reviews_void=draft.attempt.number > 1,
        ),
    )
    rules = SubmissionRules(Kind.REVIEWER, target=writer.id, fingerprint=fingerprint)
    values = {"workspace": str(place.root), "fingerprint": fingerprint}
    ending = await lead(workshop, draft, reporter, Assignment(place, brief, rules, values))
    if ending is not None:
        return ending
    draft.stage = FailureStage.VERIFICATION
    return await _settle(workshop, draft, reporter, place, after)


async def _settle(
    workshop: Workshop, draft: Draft, reporter: Reporter, place: Repository, judged: TreeId
) -> Ending:
    """Run the evidence checks, make sure that what was read is what is judged, and bind it."""
    assert draft.submission is not None
    assert draft.review is not None
    ending = Ending.said(draft.submission)
    if ending.status in {Status.SUCCEEDED, Status.REJECTED}:
        failure = await run_evidence_checks(workshop, draft, reporter, place)
        if failure is not None:
            return failure
    seed = workshop.run.folder.index_file(TaskId(draft.review.task))
    now = await capture(place, judged, seed, workshop.scratch)
    altered = [quote_path(change.path) for change in now.changes]
    altered += [quote_path(path) for path in now.nested]
    if altered:
        named = name_list(altered[:_MOST_NAMED])
        reason = f"what was reviewed changed meanwhile: {named}"
        return Ending.failed(reason, FailureStage.VERIFICATION)
    draft.review = replace(draft.review, verdict=draft.submission.verdict)
    return ending


async def _place(workshop: Workshop, writer: TaskSpec) -> Repository:
    """Return the writer's worktree, also when another process made it."""
    known = workshop.worktrees.get(writer.id)
    if known is not None:
        return known
    run = workshop.run
    return await open_worktree(run.repository, run.places.worktree(run.id, writer.id))


def _target(writer: TaskSpec, judged: SavedResult, fingerprint: Fingerprint, diff: str) -> Target:
    assert judged.submission is not None
    assert judged.artifact is not None
    return Target(
        task=writer.id,
        fingerprint=fingerprint,
        subject=f"the captured change of {writer.id}",
        changed_files=tuple(change.path for change in judged.artifact.changes),
        diff_path=diff,
        assignment=writer,
        claims=decode_submission(judged.submission, Kind.WRITER),
        checks=tuple(
            CheckEvidence(
                id=CheckId(proof.id),
                argv=proof.argv,
                outcome=explain(proof) or "passed",
                logs=tuple(log.path for log in (proof.stdout, proof.stderr) if log),
            )
            for proof in judged.checks
        ),
        steers=tuple(SteerNote(each.sender.value, each.text) for each in judged.steers),
    )
