"""Carries out a review of one writer's exact change."""

from dataclasses import replace

import trio

from agents.brief import BriefSpec, CheckEvidence, SteerNote, Target, Workspace, WorkspaceKind
from agents.submission import SubmissionRules, decode_submission
from checks.outcome import explain
from engine.core.errors import CorruptionError
from engine.core.ids import CheckId, Fingerprint, TreeId
from engine.core.spec import Kind, ReviewOf, TaskSpec
from engine.ports import Reporter
from pinata.work.agent import Assignment, dependencies, lead
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft, Ending
from pinata.work.result import Review, SavedResult, fingerprint_of
from pinata.work.verdict import Diff, Held, give_diff, settle
from pinata.work.workshop import Workshop
from worktrees.aside import put_back
from worktrees.hygiene import Repository
from worktrees.lease import open_worktree
from worktrees.root import find_root


async def review(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    """Have the reviewer judge, and return how its attempt ends; the binding is in `draft`."""
    assert isinstance(draft.task.target, ReviewOf)
    writer = workshop.run.spec.task(draft.task.target.task)
    judged = workshop.results[writer.id]
    artifact, fingerprint = judged.artifact, fingerprint_of(judged)
    if artifact is None or fingerprint is None:
        raise CorruptionError(f"task {writer.id} succeeded without a verified change")
    place = await _place(workshop, writer)
    before, after = TreeId(artifact.base_tree), TreeId(artifact.result_tree)
    diff = await give_diff(workshop, draft.attempt, before, after)
    draft.review = Review(writer.id, fingerprint)
    brief = BriefSpec(
        task=draft.task,
        workspace=Workspace(WorkspaceKind.REVIEWED_TARGET, str(place.root)),
        run_instructions=workshop.run.spec.instructions,
        dependencies=dependencies(workshop, draft),
        target=replace(
            _target(writer, judged, fingerprint, diff),
            # Not where an earlier attempt was lost before it could approve anything.
            earlier_reviews_void=draft.attempt.number > 1 and writer.id in workshop.feedback,
        ),
    )
    rules = SubmissionRules(Kind.REVIEWER, target=writer.id, fingerprint=fingerprint)
    values = {"workspace": str(place.root), "fingerprint": fingerprint}
    ending = await lead(workshop, draft, reporter, Assignment(place, brief, rules, values))
    if ending is not None:
        return ending
    held = Held(after, workshop.run.folder.index_file(writer.id))
    return await settle(workshop, draft, reporter, place, diff, held)


async def _place(workshop: Workshop, writer: TaskSpec) -> Repository:
    """Return the writer's worktree, also when another process made it."""
    known = workshop.worktrees.get(writer.id)
    if known is not None:
        return known
    run = workshop.run
    path, seed = run.places.worktree(run.id, writer.id), run.folder.index_file(writer.id)
    # A garbage collection that was killed may have left it aside.
    await in_thread(lambda: put_back(path), "cannot move the worktree back")
    root = await trio.to_thread.run_sync(find_root, seed, path)
    if root is not None:
        workshop.roots[path] = root
    return await open_worktree(run.repository, path)


def _target(writer: TaskSpec, judged: SavedResult, fingerprint: Fingerprint, diff: Diff) -> Target:
    assert judged.submission is not None
    assert judged.artifact is not None
    return Target(
        task=writer.id,
        fingerprint=fingerprint,
        subject=f"the captured change of {writer.id}{diff.note}",
        changed_files=tuple(change.path for change in judged.artifact.changes),
        diff_path=str(diff.path),
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
