"""Taking a writer's worktree up again: as it was left, but tied to its repository and its base."""

from engine.core.ids import CommitId, TreeId
from worktrees.hygiene import Repository, git
from worktrees.lease import open_worktree
from worktrees.machine import in_thread
from worktrees.root import Root


async def reopen_worktree(repo: Repository, root: Root, base: CommitId) -> Repository:
    """Return a worktree with its files as they are.

    Its `.git` file names its repository again and its HEAD stands at `base`, whatever became of
    either. What is staged in it means nothing to a capture and stays.

    Args:
        repo: the checkout.
        root: the folder that `create_worktree` made.
        base: the commit that it was made of.

    Raises:
        ForeignWorktreeError: Git does not know it as a worktree of the engine.
        ReplacedWorktreeError: it does not stand where it stood.
        GitError: Git cannot work in it.
    """
    worktree = await open_worktree(repo, root.path)
    await in_thread(root.put_git_file, b"gitdir: %s\n" % bytes(worktree.git_dir))
    await git(worktree, "update-ref", "--no-deref", "HEAD", base)
    return worktree


async def bring_to(worktree: Repository, base: TreeId, content: TreeId) -> None:
    """Give a new worktree of `base` the files of `content`, as edits that nobody staged.

    Raises:
        GitError: an object is missing, a filter failed, or the disk is full; some files may be
            those of `content` then.
    """
    await git(worktree, "read-tree", "-m", "-u", base, content, index=worktree.index)
    await git(worktree, "read-tree", base, index=worktree.index)
