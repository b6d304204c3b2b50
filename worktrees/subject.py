"""Changes that exist already, made out between two commits, and a pull request's commits fetched.

Nothing of the user's moves: what is fetched lies below `refs/pinata/`, and only reading is done
elsewhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.changes import Change
from engine.core.errors import ConflictError, UsageError
from engine.core.github import Hosted
from engine.core.ids import CommitId, Fingerprint, RunId, TreeId
from engine.core.subject import subject_fingerprint
from worktrees.hygiene import Repository, git, git_fetch
from worktrees.objects import read_commit_tree
from worktrees.patch import changes_between
from worktrees.refs import pull_ref, read_ref
from worktrees.remotes import find_address, protocol_of

_COMMIT = re.compile(r"[0-9a-f]{40}")


class PullRequestMovedError(ConflictError):
    """What was fetched of a pull request is not what its metadata named."""

    def __init__(self, number: int, named: CommitId, fetched: str | None) -> None:
        self.named = named
        self.fetched = fetched
        super().__init__(
            f"pull request {number} changed while fetching: its head was {named} and is "
            f"{fetched or 'gone'} now; call again"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """What lies between two commits, the older one being the newest that both sides share.

    Attributes:
        changes: sorted by path; never empty.
    """

    base: CommitId
    head: CommitId
    base_tree: TreeId
    head_tree: TreeId
    changes: tuple[Change, ...]
    fingerprint: Fingerprint


async def find_commit(repo: Repository, revision: str) -> CommitId:
    """Return the commit that `revision` means, which may be any text.

    Raises:
        UsageError: it means none, or more than one.
    """
    # Whatever it begins with, it is no option behind --end-of-options.
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    found = (await git(repo, *asked, ok=(0, 1, 128))).decode("utf-8", "replace").strip()
    if _COMMIT.fullmatch(found) is None:
        raise UsageError("there is no such revision here; name a branch, a tag or a commit")
    return CommitId(found)


async def difference(
    repo: Repository, against: CommitId, ours: CommitId, head: CommitId
) -> Difference:
    """Return what `head` changed since it left `against`.

    Args:
        repo: where.
        against: the side that the changes are held against.
        ours: the commit whose history is theirs.
        head: `ours`, or a snapshot made on top of it.

    Raises:
        UsageError: the histories share no commit.
        ConflictError: nothing changed.
    """
    shared = (await git(repo, "merge-base", "--end-of-options", against, ours, ok=(0, 1))).split()
    if not shared:
        raise UsageError("its history has no commit in common with what is reviewed")
    base = CommitId(shared[0].decode("ascii"))
    base_tree, head_tree = [await read_commit_tree(repo, commit) for commit in (base, head)]
    changes = await changes_between(repo, base_tree, head_tree)
    if not changes:
        raise ConflictError(f"there is nothing to review: nothing differs from {base[:12]}")
    fingerprint = subject_fingerprint(base_tree, changes)
    return Difference(base, head, base_tree, head_tree, changes, fingerprint)


@dataclass(frozen=True, slots=True)
class PullSpec:
    """A pull request to fetch.

    Attributes:
        branch: of `repository`, which it goes into.
        head: what its head must turn out to be.
        access: variables that let Git and ssh in.
    """

    number: int
    repository: Hosted
    branch: str
    head: CommitId
    access: Mapping[str, str]


async def fetch_pull_request(repo: Repository, run: RunId, spec: PullSpec) -> CommitId:
    """Fetch both ends of a pull request into refs of `run` and return where its branch stands.

    There is no time limit. After a failure one of the refs may be there.

    Raises:
        PullRequestMovedError: the head is another one by now.
        ConflictError: the address is of a kind that is not fetched from, or the branch is odd.
        GitError: Git could not fetch.
    """
    head_ref, base_ref = (pull_ref(run, spec.number, end) for end in ("head", "base"))
    address = await find_address(repo, spec.repository)
    refspecs = (
        f"+refs/pull/{spec.number}/head:{head_ref}",
        f"+refs/heads/{spec.branch}:{base_ref}",
    )
    protocol = await protocol_of(repo, address)
    await git_fetch(repo, address, refspecs, protocol=protocol, access=spec.access)
    fetched, base = await read_ref(repo, head_ref), await read_ref(repo, f"{base_ref}^{{commit}}")
    if fetched != spec.head:
        raise PullRequestMovedError(spec.number, spec.head, fetched)
    if base is None:
        raise ConflictError(f"the branch {spec.branch}, which it goes into, is no commit")
    return CommitId(base)
