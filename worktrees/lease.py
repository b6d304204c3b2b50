"""Making and removing the worktrees that writers work in: detached, locked, and one at a time.

A creation announces itself in a file of the engine's own before Git starts. Whatever a killed
creation left behind is removed by the next one for the same place, and only because that file
says that it was ours.
"""

import os
from collections.abc import Callable
from pathlib import Path

import trio

from engine.core.errors import ConflictError, ExternalError
from engine.core.ids import CommitId
from engine.system.faults import point
from engine.system.files import make_private_dir, sync_dir
from engine.system.locks import hold
from worktrees.contents import copy_index
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread, passed
from worktrees.refusal import shown_paths
from worktrees.registration import (
    Registration,
    delete_tree,
    find_registration,
    read_git_file,
    remaining_of,
)
from worktrees.status import read_status

# What Git shows of every worktree of ours begins with this.
REASON_PREFIX = "pinata "
# Git writes this reason itself until a new worktree is whole.
_UNFINISHED = "initializing"
_MOST_WORKERS = 4


class ForeignWorktreeError(ConflictError):
    """Something that the engine did not make stands where a worktree goes, or is to go."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path} was not made by pinata ({reason}); move it away and try again")


class WorktreeNotWholeError(ExternalError):
    """Git reported success, and the worktree is not the commit that was asked for."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"the worktree at {path} did not come out whole: {reason}")


async def create_worktree(
    repo: Repository, path: Path, commit: CommitId, seed_index: Path, lock: Path, reason: str
) -> Repository:
    """Make a worktree of `commit` and return it as a repository of its own.

    It is detached, so no branch of the user's is involved, and locked, so the user's own
    `git worktree prune` leaves it alone. Missing parents of `path` are made private. A creation
    that failed, was cancelled or was killed may simply be repeated.

    Args:
        repo: the checkout, or any other working tree of the same repository.
        path: where; outside of every working tree.
        commit: kept by a ref.
        seed_index: gets a copy of the new index, which the writer cannot reach.
        lock: the file that serialises this for the whole repository; its folder exists.
        reason: shown by `git worktree list`; names the run and the task.

    Raises:
        ForeignWorktreeError: something that is not ours stands at `path`.
        WorktreeNotWholeError: files are missing after Git reported success.
        GitError: Git failed, for example because the disk is full; nothing of it is left.
    """
    intent = _intent(seed_index)
    locked = REASON_PREFIX + reason
    for folder in (path.parent, seed_index.parent):
        await in_thread(make_private_dir, folder)
    async with hold(lock, what="worktree creation", holder=f"pinata {os.getpid()}"):
        await in_thread(_clear, repo, path, seed_index, locked)
        try:
            await _shielded(lambda: _announce(intent, path))
            await _add(repo, path, commit, locked)
            worktree = await in_thread(_locate, repo, path, commit)
            await in_thread(copy_index, worktree.index, seed_index)
            await _assert_whole(worktree, commit, seed_index)
            passed("lease.created")
        except BaseException:
            await _shielded(lambda: _clear(repo, path, seed_index, locked))
            raise
        await _shielded(intent.unlink)
        passed("lease.published")
    return worktree


async def open_worktree(repo: Repository, path: Path) -> Repository:
    """Return the existing worktree at `path`, whatever became of its `.git` file.

    Raises:
        ForeignWorktreeError: the engine has none there.
    """
    found = await in_thread(find_registration, repo, path)
    if found is None or found.reason is None or not found.reason.startswith(REASON_PREFIX):
        raise ForeignWorktreeError(path, "Git knows no worktree of the engine there")
    return Repository(path, found.git_dir, repo.common_dir, repo.env, repo.mark)


async def remove_worktree(repo: Repository, path: Path, seed_index: Path, lock: Path) -> None:
    """Remove a worktree that `create_worktree` made; nothing to do when it is gone already.

    The folder is renamed first, so that nobody finds half of it; a removal that was interrupted
    may be repeated. A creation that was killed at its very beginning may have left no folder for
    the index, which is made here then.

    Raises:
        ForeignWorktreeError: the worktree at `path` was not made by the engine.
    """
    await in_thread(make_private_dir, seed_index.parent)
    async with hold(lock, what="worktree removal", holder=f"pinata {os.getpid()}"):
        await _shielded(lambda: _take_away(repo, path, seed_index))
    passed("lease.forgotten")
    await in_thread(delete_tree, remaining_of(path))
    passed("lease.removed")


async def forget_worktree(repo: Repository, path: Path, seed_index: Path, lock: Path) -> None:
    """Drop what is known of a worktree whose folder is condemned or gone, and delete that folder.

    Whatever stands at `path` by now is somebody's and stays.

    Raises:
        ForeignWorktreeError: Git's record of the worktree at `path` is not the engine's.
    """
    async with hold(lock, what="worktree removal", holder=f"pinata {os.getpid()}"):
        await _shielded(lambda: _forget(_own_registration(repo, path, seed_index), seed_index))
    passed("lease.forgotten")
    await in_thread(delete_tree, remaining_of(path))
    passed("lease.removed")


def _take_away(repo: Repository, path: Path, seed_index: Path) -> None:
    """Move the folder aside and drop what Git and the engine know of it."""
    intent, registration = _intent(seed_index), _own_registration(repo, path, seed_index)
    if registration is None and os.path.lexists(path) and not _announced(intent, path):
        raise ForeignWorktreeError(path, "Git knows no worktree there")
    # Known to be ours from here on, also for a repetition that finds no registration.
    _announce(intent, path)
    if os.path.lexists(path):
        delete_tree(remaining_of(path))
        path.rename(remaining_of(path))
        point("lease.moved_aside")
    _forget(registration, seed_index)


def _own_registration(repo: Repository, path: Path, seed_index: Path) -> Registration | None:
    found = find_registration(repo, path)
    if found is not None and not _is_ours(found, _intent(seed_index), path):
        raise ForeignWorktreeError(path, f"Git has it locked as {found.reason!r}")
    return found


def _forget(registration: Registration | None, seed_index: Path) -> None:
    if registration is not None:
        delete_tree(registration.git_dir)
    seed_index.unlink(missing_ok=True)
    _intent(seed_index).unlink(missing_ok=True)


def _clear(repo: Repository, path: Path, seed_index: Path, locked: str) -> None:
    """Remove what an unfinished creation left at `path`, if anything, and its announcement.

    Raises:
        ForeignWorktreeError: what is there was not announced.
    """
    intent = _intent(seed_index)
    registration = find_registration(repo, path)
    if registration is None and not os.path.lexists(path):
        intent.unlink(missing_ok=True)
        seed_index.unlink(missing_ok=True)
        return
    if not _announced(intent, path):
        raise ForeignWorktreeError(path, "something is there already")
    if registration is not None:
        if registration.reason not in (locked, _UNFINISHED):
            raise ForeignWorktreeError(path, f"Git has it locked as {registration.reason!r}")
        delete_tree(registration.git_dir)
        point("lease.unregistered")
    delete_tree(path)
    point("lease.cleared")
    seed_index.unlink(missing_ok=True)
    intent.unlink()


def _is_ours(registration: Registration, intent: Path, path: Path) -> bool:
    reason = registration.reason
    return reason is not None and (
        reason.startswith(REASON_PREFIX) or (reason == _UNFINISHED and _announced(intent, path))
    )


def _intent(seed_index: Path) -> Path:
    return seed_index.with_name(f"{seed_index.name}.intent")


def _announce(intent: Path, path: Path) -> None:
    """Write down, durably, that whatever comes to stand at `path` is ours.

    No rename is needed: a file that is not whole yet announces nothing, and nothing stands there.
    """
    with intent.open("wb") as stream:
        stream.write(os.fsencode(path))
        stream.flush()
        os.fsync(stream.fileno())
    sync_dir(intent.parent)
    point("lease.announced")


def _announced(intent: Path, path: Path) -> bool:
    try:
        return intent.read_bytes() == os.fsencode(path)
    except FileNotFoundError:
        return False


async def _add(repo: Repository, path: Path, commit: CommitId, locked: str) -> None:
    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    options = ("--quiet", "--detach", "--lock", "--reason", locked)
    # No index is named: the new worktree writes one of its own.
    await git(
        repo,
        "-c",
        f"checkout.workers={workers}",
        "-c",
        # Relative ones would mark the user's repository as one that older programs cannot open.
        "worktree.useRelativePaths=false",
        "worktree",
        "add",
        *options,
        os.fsencode(path),
        commit,
    )
    passed("lease.added")


def _locate(repo: Repository, path: Path, commit: CommitId) -> Repository:
    """Return the new worktree, whose own folder Git may have named otherwise than `path`."""
    git_dir = read_git_file(path / ".git")
    if git_dir is None or git_dir.parent != repo.common_dir / "worktrees":
        raise WorktreeNotWholeError(path, "it does not belong to the repository")
    if (git_dir / "HEAD").read_text("ascii").strip() != commit:
        raise WorktreeNotWholeError(path, f"its HEAD is not {commit}")
    return Repository(path, git_dir, repo.common_dir, repo.env, repo.mark)


async def _assert_whole(worktree: Repository, commit: CommitId, index: Path) -> None:
    """Check that HEAD, index and files are `commit`; Git only warns when it cannot write a file.

    A file that Git calls modified is let pass: with some filters a fresh checkout already differs.
    """
    status = await read_status(worktree, index, untracked=False)
    if status.head != commit:
        raise WorktreeNotWholeError(worktree.root, f"its HEAD is not {commit}")
    wrong = [e.path for e in status.entries if e.staged != "." or e.unstaged in "DT"]
    if wrong:
        raise WorktreeNotWholeError(worktree.root, f"{shown_paths(wrong)} differ from {commit}")


async def _shielded(work: Callable[[], None]) -> None:
    with trio.CancelScope(shield=True):
        await in_thread(work)
