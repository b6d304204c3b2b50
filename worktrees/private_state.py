"""What Git keeps of one worktree alone, and whether somebody put anything of theirs there.

It goes with the worktree: which branch is checked out, refs below `refs/worktree/`, what is staged,
a merge or rebase that was begun, and the log of where HEAD was. As with files, what is as it was
when work there ended was left by the run.

Source: gitrepository-layout(5), `worktrees`; git-worktree(1), "REFS".
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.core.changes import quote_path
from engine.core.ids import TreeId
from engine.core.quote import name_list
from worktrees.hygiene import GitError, Repository, git
from worktrees.machine import in_thread
from worktrees.newer import newer_than

_HEAD, _HEAD_LOG, _INDEX = b"HEAD", b"logs/HEAD", b"index"
# Git writes both while somebody only looks, or packs the repository.
_JUDGED_BY_CONTENT = frozenset({_HEAD_LOG, _INDEX})
# A name that Git cannot resolve is an answer, too.
_OR_NOTHING = (0, 128)


async def find_private_touch(
    repo: Repository, git_dir: Path, captured: TreeId | None, since_ns: int
) -> str | None:
    """Return what in Git's own folder of a worktree is somebody's, as a sentence; None if nothing.

    Args:
        repo: another working tree of the repository; only read.
        git_dir: the folder.
        captured: the tree that the worktree held last.
        since_ns: when work in the worktree ended, in nanoseconds since the epoch.

    Raises:
        ExternalError: Git failed, or the machine did.
    """
    newer = await in_thread(newer_than, git_dir, [b""], since_ns, folders=False)
    if _HEAD in newer or not await in_thread((git_dir / "HEAD").exists):
        return "its HEAD was moved since work there ended"
    if others := [path for path in newer if path not in _JUDGED_BY_CONTENT]:
        return f"{_names(others)} in Git's folder of it came or changed since work there ended"
    if _INDEX in newer and (reason := await _staged(repo, git_dir, captured)) is not None:
        return reason
    if _HEAD_LOG in newer and await _has_unreachable(repo, git_dir / "logs" / "HEAD"):
        return "the log of its HEAD names commits that nothing else leads to"
    return None


async def _staged(repo: Repository, git_dir: Path, captured: TreeId | None) -> str | None:
    """Return what is staged there and nowhere else, as a sentence."""
    there = replace(repo, git_dir=git_dir)
    try:
        listing = await git(there, "ls-files", "--stage", "-z", index=git_dir / "index")
    except GitError as error:
        return f"what is staged there cannot be told: {error}"
    known: set[bytes] = set()
    for tree in ("HEAD", *([] if captured is None else [captured])):
        told = await git(there, "ls-tree", "-r", "-z", tree, ok=_OR_NOTHING)
        known |= {_fields(record)[2] for record in told.split(b"\0")[:-1]}
    staged = {
        record.partition(b"\t")[2]
        for record in listing.split(b"\0")[:-1]
        if _fields(record)[1] not in known
    }
    return f"{_names(sorted(staged))} is staged there and nowhere else" if staged else None


def _fields(record: bytes) -> list[bytes]:
    """Return what stands before the path of an entry: mode, object and stage, or mode, kind, ..."""
    return record.partition(b"\t")[0].split(b" ")


async def _has_unreachable(repo: Repository, log: Path) -> bool:
    """Whether a log of a ref names a commit that no ref of the repository leads to."""
    lines = (await in_thread(log.read_bytes)).splitlines()
    told = {each for line in lines for each in line.partition(b"\t")[0].split(b" ")[:2]}
    commits = sorted(each for each in told if each.strip(b"0"))
    if not commits:
        return False
    asked = b"".join(each + b"\n" for each in commits)
    options = ("--max-count=1", "--ignore-missing", "--stdin", "--not", "--all")
    return bool(await git(repo, "rev-list", *options, stdin=asked))


def _names(paths: Sequence[bytes]) -> str:
    return name_list([quote_path(path) for path in paths])
