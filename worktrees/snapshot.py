"""The snapshot: a checkout as one commit, taken without writing to the checkout or its index."""

from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ConflictError
from engine.core.ids import CommitId, RunId, TreeId
from worktrees.collection import keep_whole
from worktrees.contents import ContentTree, content_tree, private_index
from worktrees.hygiene import Repository
from worktrees.machine import in_thread, passed
from worktrees.objects import ObjectStore, with_objects
from worktrees.refs import base_ref, head
from worktrees.status import StatusReading, read_status

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A checkout at one moment.

    Attributes:
        commit: `head` itself when nothing was uncommitted, else a commit on top of it.
        uncommitted: paths whose content in the snapshot differs from HEAD's, sorted.
        notes: one sentence for each thing that the checkout holds and the snapshot does not.
    """

    head: CommitId
    commit: CommitId
    tree: TreeId
    uncommitted: tuple[bytes, ...]
    notes: tuple[str, ...]


class RestlessCheckoutError(ConflictError):
    """The checkout changed during each of the attempts to take a snapshot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(
            f"{root} kept changing while a snapshot was taken; "
            "stop whatever writes there, then call again"
        )


async def take_snapshot(
    repo: Repository,
    run: RunId,
    scratch: Path,
    *,
    include_uncommitted: bool,
    ref: str | None = None,
) -> Snapshot:
    """Record the checkout as a commit that a ref of the run keeps.

    Taking it again for the same run and contents gives the same commit.

    Args:
        repo: the checkout.
        run: whose it becomes.
        scratch: an existing folder that belongs to the engine.
        include_uncommitted: whether staged, modified and untracked files are part of it; ignored
            ones never are.
        ref: what keeps it; without one, the run's base ref does.

    Raises:
        UnmergedPathsError: the index holds unmerged paths.
        ConflictError: there is no commit yet, or the checkout does not hold still.
        RefMovedError: the ref holds another one already.
        CollectedError: a garbage collection deleted what had just been written.
    """
    if include_uncommitted:
        content = await _steady_content(repo, scratch)
    else:
        content = ContentTree(await head(repo), TreeId(""), (), (), (), ())
    if content.head is None:
        raise ConflictError(f"{repo.root} has no commit yet; make one, then call again")
    snapshot = await with_objects(repo, lambda store: _record(store, content, run))
    passed("snapshot.recorded")
    await keep_whole(repo, ref or base_ref(run), snapshot.commit)
    return snapshot


def _record(store: ObjectStore, content: ContentTree, run: RunId) -> Snapshot:
    assert content.head is not None
    last, tree = content.head, content.tree
    last_tree = store.commit_tree(last)
    if tree in (last_tree, ""):
        return Snapshot(last, last, last_tree, (), content.notes)
    # The time of HEAD, not of the clock: the same contents make the same commit.
    commit = store.commit([last], tree, f"pinata: snapshot for {run}\n", store.commit_time_s(last))
    return Snapshot(last, commit, tree, content.uncommitted, content.notes)


async def _steady_content(repo: Repository, scratch: Path) -> ContentTree:
    """Return a content tree that HEAD, index and files agreed on before and after."""
    for _ in range(_TRIES):
        before = await in_thread(_index_facts, repo)
        async with private_index(scratch, repo.index) as index:
            content, after = await _content_and_status(repo, index)
        index_moved = before != await in_thread(_index_facts, repo)
        if not index_moved and after.head == content.head and _agrees(after, content):
            return content
    raise RestlessCheckoutError(repo.root)


async def _content_and_status(repo: Repository, index: Path) -> tuple[ContentTree, StatusReading]:
    """Return the content of the working tree, and its status against exactly that content.

    Any difference in the status is an edit made meanwhile, also a second one of the same file.
    """
    after: list[StatusReading] = []

    async def look_again() -> None:
        after.append(await read_status(repo, index))

    content = await content_tree(repo, index, meanwhile=look_again)
    return content, after[0]


def _agrees(after: StatusReading, content: ContentTree) -> bool:
    left_out = tuple(
        sorted(
            {
                entry.path.rstrip(b"/")
                for entry in after.entries
                if entry.nested or (entry.submodule.startswith("S") and entry.unstaged != ".")
            }
        )
    )
    moved = any(
        entry.unstaged != "." and not entry.nested and entry.submodule == "N..."
        for entry in after.entries
    )
    return not moved and left_out == content.nested


def _index_facts(repo: Repository) -> tuple[int, ...] | None:
    try:
        facts = repo.index.stat()
    except FileNotFoundError:
        return None
    return (facts.st_mtime_ns, facts.st_ino, facts.st_size)
