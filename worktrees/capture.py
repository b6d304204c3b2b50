"""Capture: what a writer's worktree holds, against the tree that the writer started from."""

import os
from dataclasses import dataclass
from pathlib import Path

from engine.core.changes import GITLINK_MODE, Change, quote_path
from engine.core.ids import CommitId, TreeId
from worktrees.contents import content_tree, private_index
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread
from worktrees.patch import changes_between

# A writer may forge a file's size and modification time, but not these.
_ALL_STAT_DATA = ("core.trustctime=true", "core.checkStat=default")

# How an index, of whatever version, writes down the mode of a submodule. Other bytes may look
# the same, so only its absence proves something.
_GITLINK_IN_INDEX = b"\0\0\xe0\0"


@dataclass(frozen=True, slots=True)
class Capture:
    """What a writer left in its worktree.

    Attributes:
        tree: the worktree's content; nothing keeps it until a ref does.
        changes: from the base to `tree`, sorted by path.
        head: where the worktree's HEAD stands; None if it names no commit.
        nested: repositories and submodules that were put there, changed or written into, sorted.
            Their content is not in `tree`, so an attempt that has any must not count as captured.
        notes: one sentence for each of them.
    """

    tree: TreeId
    changes: tuple[Change, ...]
    head: CommitId | None
    nested: tuple[bytes, ...]
    notes: tuple[str, ...]


async def capture(worktree: Repository, base: TreeId, seed_index: Path, scratch: Path) -> Capture:
    """Store the content of a worktree as a tree and compare it with `base`.

    What the writer did to its own index, its HEAD or its `.git` file makes no difference.

    Args:
        worktree: as `create_worktree` returned it.
        base: the tree that the writer started from, whatever it committed since.
        seed_index: the engine's own index of `base`, saved when the worktree was made. Without
            it every file is read again, which is slower and gives the same answer.
        scratch: an existing folder that belongs to the engine.

    Raises:
        GitError: a file or folder cannot be read, or a filter failed.
    """
    async with private_index(scratch, seed_index) as index:
        if not await in_thread(index.exists):
            await git(worktree, "read-tree", base, index=index)
        inhabited = await _inhabited_submodules(worktree, index)
        content = await content_tree(
            worktree, index, refuse_unmerged=False, settings=_ALL_STAT_DATA
        )
    changes = await changes_between(worktree, base, content.tree)
    linked = {c.path for c in changes if GITLINK_MODE in (c.old_mode, c.new_mode)}
    notes = [f"submodule {quote_path(path)} was changed" for path in sorted(linked)]
    notes += [f"submodule {quote_path(path)} was written into" for path in inhabited]
    return Capture(
        content.tree,
        changes,
        content.head,
        tuple(sorted({*content.nested, *linked, *inhabited})),
        (*content.notes, *notes),
    )


async def _inhabited_submodules(worktree: Repository, index: Path) -> tuple[bytes, ...]:
    """Return submodules without a repository whose folder holds something all the same.

    Git's status does not look into such a folder.
    """
    if not await in_thread(lambda: _GITLINK_IN_INDEX in index.read_bytes()):
        return ()
    listing = await git(worktree, "ls-files", "--stage", "-z", index=index)
    links = [
        record.partition(b"\t")[2]
        for record in listing.split(b"\0")
        if record.startswith(GITLINK_MODE.encode("ascii"))
    ]
    return await in_thread(_inhabited, worktree.root, links)


def _inhabited(root: Path, links: list[bytes]) -> tuple[bytes, ...]:
    found: list[bytes] = []
    for link in links:
        try:
            names = {path.name for path in (root / os.fsdecode(link)).iterdir()}
        except (FileNotFoundError, NotADirectoryError):
            continue
        if names and ".git" not in names:
            found.append(link)
    return tuple(found)
