"""Makes out what a run's reviewers of existing changes judge, before anything of the run starts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.errors import ConflictError, ExternalError, UsageError
from engine.core.ids import CommitId, RunId, TaskId
from engine.core.quote import quote_value
from engine.core.spec import ReviewBase, ReviewPr, RunSpec
from engine.core.subject import PullRequest, Subject, SubjectKind
from pinata.work.github import access, ask_pull_request
from worktrees.hygiene import Repository
from worktrees.snapshot import Snapshot
from worktrees.subject import (
    Difference,
    PullSpec,
    difference,
    fetch_pull_request,
    find_commit,
)

FETCH_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What subjects are made out from.

    Attributes:
        repository: with a mark for every process.
        environment: the user's.
        scratch: an existing folder that belongs to the engine.
        checkout: as it is with everything uncommitted; present when a task reviews it.
    """

    repository: Repository
    environment: Mapping[str, str]
    run: RunId
    scratch: Path
    checkout: Snapshot | None


def reviews_checkout(spec: RunSpec) -> bool:
    """Whether any task of the run reviews the live checkout."""
    return any(isinstance(task.target, ReviewBase) for task in spec.tasks)


async def resolve_subjects(spec: RunSpec, ground: Ground) -> dict[TaskId, Subject]:
    """Return the subject of each task that reviews existing changes.

    Tasks that name the same revision or pull request share one. After a failure refs of the run
    may be there; nothing else is left.

    Raises:
        UsageError: a revision does not exist, or shares no history with the checkout.
        ConflictError: there is nothing to review, or a pull request moved meanwhile.
        ExternalError: `gh` or Git could not do it.
    """
    found: dict[ReviewBase | ReviewPr, Subject] = {}
    subjects = {}
    for task in spec.tasks:
        target = task.target
        if not isinstance(target, ReviewBase | ReviewPr):
            continue
        if target not in found:
            with _naming(f"task {task.id}: {_asked(target)}"):
                found[target] = await _resolve(ground, target)
        subjects[task.id] = found[target]
    return subjects


def _asked(target: ReviewBase | ReviewPr) -> str:
    if isinstance(target, ReviewBase):
        return f"reviewBase {quote_value(target.revision)}"
    return f"reviewPr {target.number}"


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Have a refusal begin with what is refused."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from error
    except ConflictError as error:
        raise ConflictError(f"{what}: {error}") from error
    except ExternalError as error:
        raise ExternalError(f"{what}: {error}") from error


async def _resolve(ground: Ground, target: ReviewBase | ReviewPr) -> Subject:
    if isinstance(target, ReviewPr):
        return await _pull_request(ground, target.number)
    assert ground.checkout is not None
    return await _checkout(ground.repository, ground.checkout, target.revision)


async def _checkout(repository: Repository, checkout: Snapshot, revision: str) -> Subject:
    against = await find_commit(repository, revision)
    found = await difference(repository, against, checkout.head, checkout.commit)
    is_uncommitted = found.base == checkout.head
    kind = SubjectKind.UNCOMMITTED if is_uncommitted else SubjectKind.BRANCH
    return _subject(found, kind, revision)


async def _pull_request(ground: Ground, number: int) -> Subject:
    repository = ground.repository
    assert repository.mark is not None
    facts = await ask_pull_request(
        repository.root, ground.environment, number, ground.scratch, repository.mark
    )
    spec = PullSpec(number, facts.repository, facts.branch, facts.head, access(ground.environment))
    branch: CommitId | None = None
    with trio.move_on_after(FETCH_LIMIT_S):
        branch = await fetch_pull_request(repository, ground.run, spec)
    if branch is None:
        raise ExternalError(f"it was not fetched within {FETCH_LIMIT_S:.0f} seconds")
    found = await difference(repository, branch, facts.head, facts.head)
    return _subject(found, SubjectKind.PULL_REQUEST, facts.branch, facts.shown)


def _subject(
    found: Difference, kind: SubjectKind, ref: str, pull_request: PullRequest | None = None
) -> Subject:
    return Subject(
        kind=kind,
        ref=ref,
        base=found.base,
        head=found.head,
        base_tree=found.base_tree,
        head_tree=found.head_tree,
        fingerprint=found.fingerprint,
        pull_request=pull_request,
    )
