"""Capture: what a writer's worktree holds, against the tree that the writer started from."""

import os
from dataclasses import dataclass
from pathlib import Path

from engine.core.changes import GITLINK_MODE, Change, quote_path
from engine.core.ids import CommitId, TreeId
from worktrees.contents import content_tree, private_index
from worktrees.hygiene import Repository, git
from worktrees.include import read_included
from worktrees.machine import in_thread
from worktrees.objects import read_entries, with_objects
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
        notes: one sentence for each of them, and for each copy of the engine's own that would
            otherwise be in `tree`.
    """

    tree: TreeId
    changes: tuple[Change, ...]
    head: CommitId | None
    nested: tuple[bytes, ...]
    notes: tuple[str, ...]


async def capture(worktree: Repository, base: TreeId, seed_index: Path, scratch: Path) -> Capture:
    """Store the content of a worktree as a tree and compare it with `base`.

    What the writer did to its own index, its HEAD or its `.git` file makes no difference. Files
    that the engine copied into the worktree are left out, also when they are no longer ignored.

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
    tree, left_out = await _without_copies(worktree, content.tree, seed_index)
    changes = await changes_between(worktree, base, tree)
    linked = {c.path for c in changes if GITLINK_MODE in (c.old_mode, c.new_mode)}
    notes = [f"submodule {quote_path(path)} was changed" for path in sorted(linked)]
    notes += [f"submodule {quote_path(path)} was written into" for path in inhabited]
    notes += [f"{quote_path(path)} was copied from the checkout, not made" for path in left_out]
    return Capture(
        tree,
        changes,
        content.head,
        tuple(sorted({*content.nested, *linked, *inhabited})),
        (*content.notes, *notes),
    )


async def _without_copies(
    worktree: Repository, tree: TreeId, seed_index: Path
) -> tuple[TreeId, tuple[bytes, ...]]:
    """Return `tree` without the files that were copied into the worktree, and those it held."""
    copies = await in_thread(read_included, seed_index)
    if not copies:
        return tree, ()
    found = await read_entries(worktree, tree, copies)
    held = tuple(p for p, entry in found.items() if entry is not None and not entry.is_folder)
    if not held:
        return tree, ()
    edits = dict.fromkeys(held)
    return await with_objects(worktree, lambda store: store.edit(tree, edits)), held


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
