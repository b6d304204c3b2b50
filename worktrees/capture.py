"""Capture: what a writer's worktree holds, against the tree that the writer started from."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.changes import GITLINK_MODE, Change, quote_path
from engine.core.errors import ConflictError
from engine.core.ids import CommitId, TreeId
from engine.system.files import read_regular
from worktrees.contents import content_tree, private_index
from worktrees.hygiene import GitError, Repository, git
from worktrees.include import read_included
from worktrees.machine import in_thread
from worktrees.objects import read_entries, with_objects
from worktrees.patch import changes_between
from worktrees.refusal import shown_paths
from worktrees.unseen import git_names, holds_repository, inhabited_submodules

# A writer may forge a file's size and modification time, but not these.
_ALL_STAT_DATA = ("core.trustctime=true", "core.checkStat=default")
_HEAD_LIMIT_BYTES = 1 << 13


@dataclass(frozen=True, slots=True)
class Capture:
    """What a writer left in its worktree.

    Attributes:
        tree: the worktree's content; nothing keeps it until a ref does.
        changes: from the base to `tree`, sorted by path.
        head: where the worktree's HEAD stands; None if it names no commit.
        branch: the ref that the worktree's HEAD names, None while it is detached.
        nested: repositories and submodules that were put there, changed or written into, sorted.
            Their content is not in `tree`, so an attempt that has any must not count as captured.
        ignored: what is ignored there; a folder that is ignored as a whole ends in a slash.
        submodules: digests of the submodules' folders that are not empty.
        notes: one sentence for each of them, and for each copy of the engine's own that would
            otherwise be in `tree`.
    """

    tree: TreeId
    changes: tuple[Change, ...]
    head: CommitId | None
    branch: str | None
    nested: tuple[bytes, ...]
    ignored: tuple[bytes, ...]
    submodules: Mapping[bytes, str]
    notes: tuple[str, ...]

    @property
    def altered(self) -> tuple[str, ...]:
        """Every path that is not as it was in the base, as a sentence names it; `nested` last."""
        paths = (*(change.path for change in self.changes), *self.nested)
        return tuple(quote_path(path) for path in paths)


class BrokenSubmoduleError(ConflictError):
    """A writer put something into a submodule's folder that Git cannot read."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        self.paths = tuple(paths)
        super().__init__(
            f"it wrote into submodules, and Git cannot read them: {shown_paths(paths)}"
        )


async def capture(
    worktree: Repository,
    base: TreeId,
    seed_index: Path,
    scratch: Path,
    submodules: Mapping[bytes, str] | None = None,
) -> Capture:
    """Store the content of a worktree as a tree and compare it with `base`.

    What the writer did to its own index, its HEAD or its `.git` file makes no difference. Files
    that the engine copied into the worktree are left out, also when they are no longer ignored.

    Args:
        worktree: as `create_worktree` returned it.
        base: the tree that the writer started from, whatever it committed since.
        seed_index: the engine's own index of `base`, saved when the worktree was made. Without
            it every file is read again, which is slower and gives the same answer.
        scratch: an existing folder that belongs to the engine.
        submodules: what was in the submodules' folders before. When it is None, a folder that
            holds a repository counts as what Git says of it, so that setup may initialise it.

    Raises:
        BrokenSubmoduleError: Git fails, and a submodule was written into.
        GitError: a file or folder cannot be read, or a filter failed.
    """
    async with private_index(scratch, seed_index) as index:
        if not await in_thread(index.exists):
            await git(worktree, "read-tree", base, index=index)
        inhabited = await inhabited_submodules(worktree, index)
        written = await in_thread(_written_into, worktree, inhabited, submodules)
        try:
            content = await content_tree(
                worktree, index, refuse_unmerged=False, settings=_ALL_STAT_DATA, ignored=True
            )
        except GitError as error:
            if written:
                raise BrokenSubmoduleError(written) from error
            raise
    hidden = await in_thread(
        git_names, worktree.root, (*content.ignored, *content.nested, *inhabited)
    )
    tree, left_out = await _without_copies(worktree, content.tree, seed_index)
    changes = await changes_between(worktree, base, tree)
    linked = {c.path for c in changes if GITLINK_MODE in (c.old_mode, c.new_mode)}
    notes = [f"submodule {quote_path(path)} was changed" for path in sorted(linked)]
    notes += [f"submodule {quote_path(path)} was written into" for path in written]
    notes += [f"{quote_path(path)} holds something called .git" for path in hidden]
    notes += [f"{quote_path(path)} was copied from the checkout, not made" for path in left_out]
    return Capture(
        tree,
        changes,
        content.head,
        await in_thread(_branch, worktree),
        tuple(sorted({*content.nested, *linked, *written, *hidden})),
        content.ignored,
        inhabited,
        (*content.notes, *notes),
    )


def _branch(worktree: Repository) -> str | None:
    head = worktree.git_dir / "HEAD"
    # Git also takes a symbolic link to the branch's file.
    if head.is_symlink():
        return quote_path(os.fsencode(head.readlink()))
    # Reading a pipe that was put there would never end.
    named = read_regular(head, _HEAD_LIMIT_BYTES)
    return quote_path(named[4:].strip()) if named.startswith(b"ref:") else None


def _written_into(
    worktree: Repository, now: Mapping[bytes, str], before: Mapping[bytes, str] | None
) -> tuple[bytes, ...]:
    if before is None:
        return tuple(path for path in now if not holds_repository(worktree, path))
    return tuple(path for path in now if now[path] != before.get(path))


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
