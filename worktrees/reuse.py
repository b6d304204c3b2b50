"""Taking a writer's worktree up again: as it was left, but tied to its repository and its base."""

from pathlib import Path

from engine.core.ids import CommitId, TreeId
from engine.system.files import replace_file
from worktrees.hygiene import Repository, git
from worktrees.lease import open_worktree
from worktrees.machine import in_thread
from worktrees.registration import read_git_file


async def reopen_worktree(repo: Repository, path: Path, base: CommitId) -> Repository | None:
    """Return the worktree at `path` with its files as they are, or None when it has none any more.

    Its `.git` file names its repository again and its HEAD stands at `base`, whatever became of
    either. What is staged in it means nothing to a capture and stays.

    Args:
        repo: the checkout.
        path: where `create_worktree` made it.
        base: the commit that it was made of.

    Raises:
        ForeignWorktreeError: something stands at `path` that Git does not know as a worktree.
        GitError: Git cannot work in it.
    """
    if not await in_thread(path.is_dir):
        return None
    worktree = await open_worktree(repo, path)
    await in_thread(_tie, worktree)
    await git(worktree, "update-ref", "--no-deref", "HEAD", base)
    return worktree


def _tie(worktree: Repository) -> None:
    file = worktree.root / ".git"
    if file.is_symlink() or read_git_file(file) != worktree.git_dir:
        replace_file(file, b"gitdir: %s\n" % bytes(worktree.git_dir), fault="reuse.git_file")


async def bring_to(worktree: Repository, base: TreeId, content: TreeId) -> None:
    """Give a new worktree of `base` the files of `content`, as edits that nobody staged.

    Raises:
        GitError: an object is missing, a filter failed, or the disk is full; some files may be
            those of `content` then.
    """
    await git(worktree, "read-tree", "-m", "-u", base, content, index=worktree.index)
    await git(worktree, "read-tree", base, index=worktree.index)
