"""Carries out a review of changes that exist already: in the checkout, or as a pull request.

What is judged was fixed before the run started, and the reviewer is given it as a diff. A verdict
is about that, also when the checkout that it reads besides has changed since.
"""

from dataclasses import dataclass
from functools import partial
from typing import assert_never

import trio

from agents.brief import BriefSpec, Target, Workspace, WorkspaceKind
from agents.submission import SubmissionRules
from engine.core.changes import quote_path
from engine.core.errors import CorruptionError
from engine.core.ids import CommitId
from engine.core.quote import quote_value
from engine.core.spec import Kind
from engine.core.subject import Subject, SubjectKind, subject_fingerprint
from engine.ports import Reporter
from engine.system.files import make_private_dir
from pinata.work.agent import Assignment, dependencies, lead
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft, Ending
from pinata.work.places import pull_worktree_reason
from pinata.work.result import Review
from pinata.work.stillness import Seen, while_watched
from pinata.work.verdict import Diff, Held, give_diff, settle
from pinata.work.workshop import Workshop
from worktrees.hygiene import Repository
from worktrees.lease import create_worktree, remove_worktree
from worktrees.patch import changes_between
from worktrees.root import Root


@dataclass(frozen=True, slots=True)
class _Review:
    """One attempt at judging a subject.

    Attributes:
        files: the paths that the subject changes, quoted as in answers.
    """

    workshop: Workshop
    draft: Draft
    reporter: Reporter
    subject: Subject
    files: tuple[str, ...]
    diff: Diff


async def review_existing(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    """Have the reviewer judge, and return how its attempt ends; the binding is in `draft`.

    Raises:
        CorruptionError: the subject is not in the repository as it was recorded.
    """
    subject = workshop.run.record.subjects[draft.task.id]
    repository = workshop.run.repository
    changes = await changes_between(repository, subject.base_tree, subject.head_tree)
    if subject_fingerprint(subject.base_tree, changes) != subject.fingerprint:
        raise CorruptionError("the changes under review are not the recorded ones")
    diff = await give_diff(workshop, draft.attempt, subject.base_tree, subject.head_tree)
    draft.review = Review.of_subject(subject)
    files = tuple(quote_path(change.path) for change in changes)
    review = _Review(workshop, draft, reporter, subject, files, diff)
    if subject.pull_request is not None:
        return await _review_pull_request(review, subject.pull_request.number)
    return await _review_checkout(review)


async def _review_checkout(review: _Review) -> Ending:
    """Review the live checkout, and say whether it is no longer what the diff shows."""
    workshop, draft = review.workshop, review.draft
    place = workshop.run.repository
    workspace = Workspace(WorkspaceKind.LIVE_CHECKOUT, str(place.root))
    begun_with = Seen(workshop.run.record.head, review.subject.head_tree)
    judge = partial(_judge, review, place, workspace, None)
    ending = await while_watched(workshop, draft, review.reporter, judge, begun_with)
    if draft.checkout_changed:
        draft.notices.append(
            "the checkout is not what it was when the run started; "
            "the verdict is about what it was then"
        )
    return ending


async def _review_pull_request(review: _Review, number: int) -> Ending:
    place = await _worktree(review.workshop, review.subject.head, number)
    workspace = Workspace(WorkspaceKind.REVIEWED_TARGET, str(place.root))
    seed = review.workshop.run.folder.pull_index_file(number)
    return await _judge(review, place, workspace, Held(review.subject.head_tree, seed))


async def _judge(
    review: _Review, place: Repository, workspace: Workspace, held: Held | None
) -> Ending:
    workshop, draft = review.workshop, review.draft
    fingerprint = review.subject.fingerprint
    brief = BriefSpec(
        task=draft.task,
        workspace=workspace,
        run_instructions=workshop.run.spec.instructions,
        dependencies=dependencies(workshop, draft),
        target=Target(
            task=None,
            fingerprint=fingerprint,
            subject=_described(review.subject) + review.diff.note,
            changed_files=review.files,
            diff_path=str(review.diff.path),
        ),
    )
    rules = SubmissionRules(Kind.REVIEWER, fingerprint=fingerprint)
    values = {"workspace": str(place.root), "fingerprint": fingerprint}
    ending = await lead(workshop, draft, review.reporter, Assignment(place, brief, rules, values))
    if ending is not None:
        return ending
    return await settle(workshop, draft, review.reporter, place, review.diff, held)


async def _worktree(workshop: Workshop, head: CommitId, number: int) -> Repository:
    """Return the worktree that all reviewers of a pull request share, made for the first of them.

    What an earlier process left there is not trusted: it is made anew.
    """
    run = workshop.run
    async with workshop.pull_turn:
        if number not in workshop.pulled:
            path, lock = run.places.pull_worktree(run.id, number), run.places.worktree_lock
            seed = run.folder.pull_index_file(number)
            await in_thread(lambda: make_private_dir(seed.parent), "cannot keep an index")
            await remove_worktree(run.repository, path, seed, lock)
            reason = pull_worktree_reason(run.id, number)
            workshop.pulled[number] = await create_worktree(
                run.repository, path, head, seed, lock, reason
            )
            workshop.roots[path] = await trio.to_thread.run_sync(Root.of, path)
        return workshop.pulled[number]


def _described(subject: Subject) -> str:
    """Return in a phrase what is reviewed."""
    against = f"`{subject.ref}`"
    match subject.kind:
        case SubjectKind.UNCOMMITTED:
            return f"the uncommitted changes against {against}, as they were when the run started"
        case SubjectKind.BRANCH:
            return (
                f"what the checkout changed since it left {against} (commit {subject.base}), "
                "uncommitted work included, as it was when the run started"
            )
        case SubjectKind.PULL_REQUEST:
            assert subject.pull_request is not None
            pull = subject.pull_request
            return (
                f"pull request {pull.number} at {pull.url}, titled {quote_value(pull.title)}: what "
                f"commit {subject.head} changed since it left {against} (commit {subject.base})"
            )
        case _:
            assert_never(subject.kind)
