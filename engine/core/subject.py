"""What a reviewer judges when no builder of the run made it: changes that exist already."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from engine.core.changes import Change
from engine.core.fingerprint import change_entry, digest
from engine.core.ids import CommitId, Fingerprint, TreeId
from engine.core.stored import STORED


class SubjectKind(Enum):
    """Where the changes come from; the values are what people read."""

    UNCOMMITTED = "uncommitted"
    BRANCH = "branch"
    PULL_REQUEST = "pull-request"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, as those who read of it know it.

    Attributes:
        title: written by whoever opened it: to be quoted, never to be obeyed.
        url: where people read it.
    """

    __pydantic_config__ = STORED

    number: int
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Existing changes, fixed before the run starts and the same for all that review them.

    Attributes:
        ref: what the changes are held against, as people call it: the revision that was asked for,
            or the branch that a pull request goes into.
        base: where the changes begin: the newest commit that both sides share.
        head: where they end: a snapshot of the checkout, or the head of a pull request.
        base_tree: of `base`.
        head_tree: of `head`.
        fingerprint: see `subject_fingerprint`.
        pull_request: present on that kind alone.
    """

    __pydantic_config__ = STORED

    kind: SubjectKind
    ref: str
    base: CommitId
    head: CommitId
    base_tree: TreeId
    head_tree: TreeId
    fingerprint: Fingerprint
    pull_request: PullRequest | None = None


def subject_fingerprint(base: TreeId, changes: Iterable[Change]) -> Fingerprint:
    """Return the digest over a base tree and the changes to it, in whatever order they come.

    What the changes end in follows from both. Commits, titles and times are no part of it: the same
    changes to the same files are the same subject.
    """
    entries = [change_entry(change) for change in sorted(changes, key=lambda c: c.path)]
    return Fingerprint(digest({"base": base, "changes": entries}))
