"""Whether somebody put anything of theirs into a worktree that no agent works in any more.

What Git sees there is held against what was captured. Of all else, such as what builds and
installations leave behind, the system knows when it last changed, and no program can set that time
back without setting the clock of the whole machine: what has not changed since work there ended was
left by the run itself.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.changes import quote_path
from engine.core.ids import TreeId
from engine.core.quote import name_list
from worktrees.aside import standing_at
from worktrees.contents import content_tree, private_index
from worktrees.hygiene import Repository, git
from worktrees.include import read_included
from worktrees.lease import REASON_PREFIX
from worktrees.machine import in_thread
from worktrees.newer import newer_than
from worktrees.private_state import find_private_touch
from worktrees.registration import Registration, find_registration, remaining_of
from worktrees.root import ReplacedWorktreeError, find_root
from worktrees.unseen import git_names, inhabited_submodules

# As a capture does: size and modification time alone can be forged.
_ALL_STAT_DATA = ("core.trustctime=true", "core.checkStat=default")
_NO_TIME = (
    "the clock was set back since work there ended, or nothing tells when it did, so nothing tells "
    "a file of the run's from one of yours: look whether anything in it is yours, and remove it"
)


@dataclass(frozen=True, slots=True)
class Left:
    """A worktree as the engine left it.

    Attributes:
        path: where it was made.
        seed_index: the engine's own index of it; it need not be there any more.
        reason: what `create_worktree` was told.
        tree: what was captured there last, None when nothing was.
        since_ns: when the last of those who worked there was done with it, in nanoseconds since the
            epoch; None when no time can be trusted.
    """

    path: Path
    seed_index: Path
    reason: str
    tree: TreeId | None
    since_ns: int | None


async def find_touch(repo: Repository, left: Left, scratch: Path) -> str | None:
    """Return what in a worktree is not the engine's own, as a sentence; None when nothing is.

    Nothing is written, neither there nor into the repository, though Git may renew the times of
    objects that it meets again. A worktree whose folder was set aside is looked at there; of one
    whose folder is gone there is what Git keeps of it, and of a condemned one that was looked at.

    Args:
        repo: any working tree of the repository.
        left: what is asked about.
        scratch: an existing folder that belongs to the engine.

    Raises:
        CorruptionError: what the engine remembers of the worktree is damaged.
        ExternalError: Git failed there, or the machine did.
    """
    place = await in_thread(standing_at, left.path)
    found = await in_thread(_own_registration, repo, left, place)
    if found is None or isinstance(found, str):
        return found
    if left.since_ns is None:
        return _NO_TIME
    touch = await find_private_touch(repo, found.git_dir, left.tree, left.since_ns)
    if touch is not None or not await in_thread(os.path.lexists, place):
        return touch
    objects = scratch / "objects"
    await in_thread(lambda: objects.mkdir(exist_ok=True))
    there = Repository(place, found.git_dir, repo.common_dir, repo.env, repo.mark, objects)
    if left.tree is None:
        return _newer_sentence(await in_thread(newer_than, place, [b""], left.since_ns))
    return await _compare(there, left, left.tree, left.since_ns, scratch)


def _own_registration(repo: Repository, left: Left, place: Path) -> Registration | str | None:
    """Return Git's record of the worktree, why it is not ours, or None when nothing is there."""
    if not os.path.lexists(place):
        is_condemned = os.path.lexists(remaining_of(left.path))
        return None if is_condemned else find_registration(repo, left.path)
    if left.path.parent.is_symlink():
        return f"{left.path.parent} is a link"
    try:
        find_root(left.seed_index, place)
    except ReplacedWorktreeError:
        return "it is not the folder that was made there"
    found = find_registration(repo, left.path)
    if found is None:
        return "Git knows no worktree there, so it cannot be compared with what was captured"
    if found.reason != REASON_PREFIX + left.reason:
        return f"Git has it locked as {found.reason!r}, which is not how it was made"
    return found


async def _compare(
    worktree: Repository, left: Left, captured: TreeId, since_ns: int, scratch: Path
) -> str | None:
    async with private_index(scratch, left.seed_index) as index:
        if not await in_thread(index.exists):
            await git(worktree, "read-tree", captured, index=index)
        inhabited = await inhabited_submodules(worktree, index)
        content = await content_tree(
            worktree, index, refuse_unmerged=False, settings=_ALL_STAT_DATA, ignored=True
        )
    copies = set(await in_thread(read_included, left.seed_index))
    differing = await _differing(worktree, captured, content.tree)
    if changed := sorted(differing - copies):
        return f"{_names(changed)} differs from what was captured"
    unseen = (*content.ignored, *content.nested, *inhabited)
    hidden = await in_thread(git_names, worktree.root, unseen)
    asked = (*unseen, *hidden, *(differing & copies))
    return _newer_sentence(await in_thread(newer_than, worktree.root, asked, since_ns))


async def _differing(worktree: Repository, before: TreeId, after: TreeId) -> set[bytes]:
    if before == after:
        return set()
    # Only the program finds what was stored apart from the repository.
    options = ("-r", "-z", "--name-only", "--no-renames")
    return set((await git(worktree, "diff-tree", *options, before, after)).split(b"\0")[:-1])


def _newer_sentence(paths: Sequence[bytes]) -> str | None:
    return f"{_names(paths)} came or changed since work there ended" if paths else None


def _names(paths: Sequence[bytes]) -> str:
    return name_list([quote_path(path or b".") for path in paths])
