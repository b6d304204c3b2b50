"""The state triple: whether two looks at a working tree saw the same HEAD, content and index."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.ids import CommitId, TreeId
from engine.system.nursery import open_flat_nursery
from worktrees.contents import ContentTree, content_tree, private_index
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread


@dataclass(frozen=True, slots=True)
class StateTriple:
    """A working tree at one moment; two states are equal when all three parts are.

    Attributes:
        head: None on a branch without a commit.
        index_digest: SHA-256 in hex over the index's entries and their flags. The bytes of the
            file do not count: any `git status` may rewrite them without changing an entry.
    """

    head: CommitId | None
    content_tree: TreeId
    index_digest: str


async def measure(repo: Repository, scratch: Path) -> StateTriple:
    """Return the state of `repo`'s working tree; its index and files are only read.

    An unmerged path counts as the file that lies there.

    Args:
        repo: where.
        scratch: an existing folder that belongs to the engine.
    """
    content: list[ContentTree] = []

    async def read_content(index: Path) -> None:
        content.append(await content_tree(repo, index, refuse_unmerged=False))

    async with (
        private_index(scratch, repo.index) as index,
        private_index(scratch, index) as unchanged,
        open_flat_nursery() as nursery,
    ):
        nursery.start_soon(read_content, index)
        listing = await git(repo, "ls-files", "--stage", "-v", "-z", index=unchanged)
    (tree,) = content
    digest = await in_thread(_index_digest, listing, tree.intended)
    return StateTriple(tree.head, tree.tree, digest)


async def look(repo: Repository, folder: Path) -> StateTriple:
    """Return the state of `repo`'s working tree without writing anything into the repository.

    Args:
        repo: where.
        folder: empty; what has to be written goes there, and may be removed afterwards.
    """
    objects = folder / "objects"
    await in_thread(objects.mkdir)
    return await measure(replace(repo, new_objects=objects), folder)


def _index_digest(listing: bytes, intended: tuple[bytes, ...]) -> str:
    # A listing shows an intended file as an empty one, so the intention is added beside it.
    digest = hashlib.sha256(listing)
    for path in intended:
        digest.update(b"intent " + path + b"\0")
    return digest.hexdigest()
