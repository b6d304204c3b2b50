"""Whether builders can start from a checkout, and what its user should know before they do."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.changes import GITLINK_MODE
from engine.core.errors import ConflictError
from engine.system.case import folds_case
from worktrees.contents import private_index
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread
from worktrees.refusal import UnmergedPathsError, shown_paths
from worktrees.status import read_status

# What Git keeps in a working tree's own folder while something is unfinished. A bisection is not
# among them: it moves HEAD, and leaves index and files as a commit has them.
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply/applying": "git am",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}
_SETTINGS = r"^(core\.ignorecase|extensions\.partialclone|remote\..*\.promisor)$"
_TRUE = ("", "true", "yes", "on", "1")
_ORDINARY = (b"H 100", b"H 120")


class UnfinishedOperationError(ConflictError):
    """A merge, a rebase or the like was begun in the checkout and not finished."""

    def __init__(self, root: Path, operation: str) -> None:
        self.root = root
        self.operation = operation
        super().__init__(
            f"a {operation} is in progress in {root}; finish or abort it, then call again"
        )


class MistakenCaseError(ConflictError):
    """The configuration says that the disk does not tell `a` from `A`, and it does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(
            f"core.ignoreCase is true and the disk of {root} tells small letters from capitals, "
            "so Git misses renames there; run: git config core.ignoreCase false"
        )


@dataclass(frozen=True, slots=True)
class Examination:
    """What is worth knowing about a checkout that builders can start from.

    Attributes:
        submodules: where they lie, sorted.
        notices: one sentence for each thing that is handled otherwise than one might expect.
    """

    submodules: tuple[bytes, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _IndexFacts:
    """What the index holds besides ordinary entries of files and links.

    Attributes:
        flagged: assumed unchanged, or to be skipped, and on disk.
        absent: to be skipped, and not on disk.
    """

    unmerged: tuple[bytes, ...]
    submodules: tuple[bytes, ...]
    flagged: tuple[bytes, ...]
    absent: int


async def examine(repo: Repository) -> Examination:
    """Return what there is to know before a builder starts from the working tree of `repo`.

    Raises:
        UnmergedPathsError: the index holds unmerged paths.
        UnfinishedOperationError: a merge, a rebase or the like is in progress.
        MistakenCaseError: Git would misread the disk.
        ConflictError: there is no commit yet.
    """
    verify = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not await git(repo, *verify, ok=(0, 1)):
        raise ConflictError(f"{repo.root} has no commit yet; make one, then call again")
    # One listing answers all: the letter tells the flags, the mode tells submodules from files.
    listing = await git(repo, "ls-files", "--stage", "-v", "-z", index=repo.index)
    facts = await in_thread(_index_facts, repo.root, listing)
    if facts.unmerged:
        raise UnmergedPathsError(facts.unmerged)
    if (operation := await in_thread(_unfinished, repo.git_dir)) is not None:
        raise UnfinishedOperationError(repo.root, operation)
    settings = _decode(await git(repo, "config", "--null", "--get-regexp", _SETTINGS, ok=(0, 1)))
    if settings.get("core.ignorecase", "no").lower() in _TRUE and not await in_thread(
        folds_case, repo.git_dir, "HEAD"
    ):
        raise MistakenCaseError(repo.root)
    notices = []
    if facts.submodules:
        named = shown_paths(facts.submodules)
        notices.append(f"in a builder's worktree these submodules are empty folders: {named}")
    if facts.absent:
        notices.append(
            f"builders see the same part of a sparse checkout; outside of it {facts.absent:,} "
            "paths stay as they are committed"
        )
    if any(name != "core.ignorecase" for name in settings):
        notices.append(
            "this is a partial clone and nothing is fetched: a builder that needs a missing "
            "object fails"
        )
    if hidden := await _hidden_edits(repo, facts.flagged):
        notices.append(
            "edits of these paths are left out, since they are marked as assumed unchanged or "
            f"to be skipped: {shown_paths(hidden)}"
        )
    return Examination(facts.submodules, tuple(notices))


def _index_facts(root: Path, listing: bytes) -> _IndexFacts:
    unmerged: list[bytes] = []
    submodules: list[bytes] = []
    flagged: list[bytes] = []
    absent = 0
    for record in listing.split(b"\0")[:-1]:
        if record.startswith(_ORDINARY):
            continue
        facts, _, path = record.partition(b"\t")
        letter, mode, _, _ = facts.decode("ascii").split(" ")
        if letter in "Mm":
            unmerged.append(path)
        elif mode == GITLINK_MODE:
            submodules.append(path)
        elif os.path.lexists(root / os.fsdecode(path)):
            flagged.append(path)
        elif letter in "Ss":
            absent += 1
    return _IndexFacts(tuple(dict.fromkeys(unmerged)), tuple(submodules), tuple(flagged), absent)


def _unfinished(git_dir: Path) -> str | None:
    return next((what for name, what in _UNFINISHED.items() if (git_dir / name).exists()), None)


def _decode(listing: bytes) -> dict[str, str]:
    """Return the last value of each setting; one without any is the same as true."""
    settings = {}
    for record in listing.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        name, _, value = record.partition("\n")
        settings[name] = value
    return settings


async def _hidden_edits(repo: Repository, flagged: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return those of the `flagged` paths whose content is not what the index says."""
    if not flagged:
        return ()
    listed = b"".join(path + b"\0" for path in flagged)
    # The run has no folder yet, and gets none if it is refused.
    async with private_index(Path(tempfile.gettempdir()), repo.index) as index:
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            await git(repo, "update-index", flag, "-z", "--stdin", index=index, stdin=listed)
        status = await read_status(repo, index, untracked=False)
    marked = frozenset(flagged)
    return tuple(e.path for e in status.entries if e.unstaged != "." and e.path in marked)
