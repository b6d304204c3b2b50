"""What all reviews share: the diff that the reviewer gets, and what makes its verdict count."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from engine.core.ids import AttemptId, TreeId
from engine.core.outcome import FailureStage, Status
from engine.core.quote import name_list
from engine.ports import Reporter
from engine.system.files import make_private_dir
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft, Ending
from pinata.work.own_records import FileFacts, file_facts
from pinata.work.proving import run_evidence_checks
from pinata.work.workshop import Workshop
from worktrees.capture import capture
from worktrees.hygiene import Repository
from worktrees.patch import PatchFile, cut_patch, write_patch

# What an agent can read of a diff, with patience.
DIFF_LIMIT_BYTES = 16 << 20
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Diff:
    """A change as a reviewer gets it.

    Attributes:
        path: what the reviewer is told to read.
        whole: all of it, when `path` holds only the beginning.
        handed_out: the files, as they were written.
    """

    path: Path
    whole: Path | None
    handed_out: tuple["HandedOut", ...]

    @property
    def note(self) -> str:
        """What is to be said about it behind the subject; empty when it is whole."""
        if self.whole is None:
            return ""
        limit = f"{DIFF_LIMIT_BYTES >> 20} MiB"
        return f"; the diff below ends after {limit}, all of it is in `{self.whole}`"


@dataclass(frozen=True, slots=True)
class HandedOut:
    """A file that a reviewer reads, and what tells that nobody wrote to it since.

    The digest is of what was to be written; the facts also tell of what was put right again.
    """

    patch: PatchFile
    facts: FileFacts | None

    @classmethod
    def of(cls, patch: PatchFile) -> "HandedOut":
        """Return the file as it is now; blocks."""
        return cls(patch, file_facts(patch.path))

    @property
    def is_altered(self) -> bool:
        """Whether it is another now; blocks."""
        if self.facts is None or file_facts(self.patch.path) != self.facts:
            return True
        with self.patch.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() != self.patch.sha256


async def give_diff(workshop: Workshop, attempt: AttemptId, before: TreeId, after: TreeId) -> Diff:
    """Write what lies between two trees to where the reviewer of `attempt` reads it."""
    run = workshop.run
    path = run.folder.review_file(attempt)
    await in_thread(lambda: make_private_dir(path.parent), "cannot keep a diff")
    written = await write_patch(run.repository, before, after, path)
    if written.bytes <= DIFF_LIMIT_BYTES:
        return Diff(path, None, (await _handed_out(written),))
    whole = replace(written, path=path.with_suffix(".patch"))
    await in_thread(lambda: path.rename(whole.path), "cannot keep a diff")
    cut = await cut_patch(whole, path, DIFF_LIMIT_BYTES)
    return Diff(path, whole.path, (await _handed_out(cut), await _handed_out(whole)))


async def _handed_out(patch: PatchFile) -> HandedOut:
    return await trio.to_thread.run_sync(HandedOut.of, patch)


def _altered_files(diff: Diff) -> list[str]:
    return [str(each.patch.path) for each in diff.handed_out if each.is_altered]


@dataclass(frozen=True, slots=True)
class Held:
    """What a worktree must still hold when it has been reviewed.

    Attributes:
        seed: the engine's own index for the worktree.
    """

    tree: TreeId
    seed: Path


async def settle(
    workshop: Workshop,
    draft: Draft,
    reporter: Reporter,
    place: Repository,
    diff: Diff,
    held: Held | None,
) -> Ending:
    """Return how a review that was handed in ends; a verdict that counts is bound in `draft`.

    Args:
        workshop: the run's.
        draft: of the attempt, with its submission and what the review is about.
        reporter: hears of the evidence checks.
        place: where the reviewer read; the checks run there.
        diff: what the reviewer was given.
        held: what `place` must hold; None for the live checkout.
    """
    assert draft.submission is not None
    assert draft.review is not None
    draft.stage = FailureStage.VERIFICATION
    ending = Ending.said(draft.submission)
    if ending.status in {Status.SUCCEEDED, Status.REJECTED}:
        failure = await run_evidence_checks(workshop, draft, reporter, place)
        if failure is not None:
            return failure
    if altered := await trio.to_thread.run_sync(_altered_files, diff):
        reason = f"somebody wrote to the diff that it was to judge: {name_list(altered)}"
        return Ending.failed(reason, FailureStage.VERIFICATION)
    if held is not None:
        # Not while the checks of another reviewer are at work there.
        async with workshop.checkout_turn:
            found = await _altered(workshop, place, held)
        if found:
            named = name_list(found[:_MOST_NAMED])
            reason = f"what was reviewed changed meanwhile: {named}"
            return Ending.failed(reason, FailureStage.VERIFICATION)
    draft.review = replace(draft.review, verdict=draft.submission.verdict)
    return ending


async def _altered(workshop: Workshop, place: Repository, held: Held) -> tuple[str, ...]:
    await workshop.ensure_in_place(place.root)
    now = await capture(place, held.tree, held.seed, workshop.scratch)
    return now.altered
