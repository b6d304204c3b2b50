"""The content tree of a working tree: what is tracked, or untracked and not ignored.

Everything happens in a private index; the working tree and its own index are only read. Snapshot,
measurement and capture share this, so that they cannot disagree about what a file's content is.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.changes import quote_path
from engine.core.ids import CommitId, TreeId
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread
from worktrees.objects import read_commit_tree
from worktrees.refusal import UnmergedPathsError

_STATUS = (
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--no-ahead-behind",
    "--no-renames",
    # A submodule may ask in its configuration to be overlooked; nothing is overlooked here.
    "--ignore-submodules=none",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One path that is not as the last commit has it.

    Attributes:
        staged, unstaged: Git's status letters for index against HEAD and file against index;
            `.` where nothing differs, `?` on both for an untracked path, `U` on both for an
            unmerged one.
        submodule: Git's four letters about a submodule; `N...` for anything else.
        path: ends in a slash where an untracked repository lies.
    """

    staged: str
    unstaged: str
    submodule: str
    path: bytes

    @property
    def nested(self) -> bool:
        """Whether a repository of its own lies here that this one does not know."""
        return self.unstaged == "?" and self.path.endswith(b"/")


@dataclass(frozen=True, slots=True)
class StatusReading:
    """One look at a working tree.

    Attributes:
        head: None on a branch without a commit.
        entries: in Git's order: tracked paths, then untracked ones, each sorted.
    """

    head: CommitId | None
    entries: tuple[Entry, ...]

    @property
    def unmerged(self) -> tuple[bytes, ...]:
        """Paths that a merge has left open."""
        return tuple(entry.path for entry in self.entries if entry.unstaged == "U")

    @property
    def intended(self) -> tuple[bytes, ...]:
        """Paths that `git add --intent-to-add` announced."""
        return tuple(entry.path for entry in self.entries if entry.unstaged == "A")


@dataclass(frozen=True, slots=True)
class ContentTree:
    """The content tree and what it left out.

    Attributes:
        uncommitted: paths whose content differs from HEAD's, sorted.
        nested: places of repositories of their own that are left out, and of submodules with
            changes inside; sorted.
        intended: paths that are in the index by intent only.
        notes: one sentence for each thing left out.
    """

    head: CommitId | None
    tree: TreeId
    uncommitted: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    intended: tuple[bytes, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Edits:
    """What has to happen to a private index so that it holds the content tree."""

    gone: tuple[bytes, ...]
    put: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    notes: tuple[str, ...]


@asynccontextmanager
async def private_index(scratch: Path, seed: Path | None) -> AsyncIterator[Path]:
    """Yield a path for an index that nobody else uses; it and its lock are removed at the end.

    Args:
        scratch: an existing folder that belongs to the engine.
        seed: an index to begin with. When it is None or does not exist, the index is empty.
    """
    folder = await in_thread(_seeded_folder, scratch, seed)
    try:
        yield folder / "index"
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))


def _seeded_folder(scratch: Path, seed: Path | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="index-", dir=scratch))
    if seed is not None:
        copy_index(seed, folder / "index")
    return folder


def copy_index(source: Path, target: Path) -> bool:
    """Copy an index together with its modification time; False when there is none to copy.

    Git takes an entry for clean only if its file is older than the index. A copy with a new time
    would hide an edit of the same size that was made in the same second.
    """
    try:
        facts = source.stat()
        shutil.copyfile(source, target)
    except FileNotFoundError:
        return False
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return True


async def read_status(
    repo: Repository,
    index: Path,
    settings: Sequence[str] = (),
    *,
    untracked: bool = True,
) -> StatusReading:
    """Compare the working tree with `index` and HEAD, once.

    Args:
        repo: where.
        index: usually a private copy; it is not written.
        settings: configuration for this call, each as `name=value`.
        untracked: whether to look for files that `index` does not know.
    """
    shown = "--untracked-files=all" if untracked else "--untracked-files=no"
    out = await git(repo, *_options(settings), *_STATUS, shown, index=index)
    return await in_thread(decode_status, out)


def _options(settings: Sequence[str]) -> tuple[str, ...]:
    return tuple(part for setting in settings for part in ("-c", setting))


def decode_status(out: bytes) -> StatusReading:
    """Read the answer of `git status --porcelain=v2 -z --branch`. Source: git-status(1)."""
    head: CommitId | None = None
    entries: list[Entry] = []
    for record in out.split(b"\0"):
        match record[:2]:
            case b"1 ":
                entries.append(_tracked_entry(record, fields=8))
            case b"u ":
                path = _tracked_entry(record, fields=10).path
                entries.append(Entry("U", "U", "N...", path))
            case b"? ":
                entries.append(Entry("?", "?", "N...", record[2:]))
            case b"# " if record.startswith(b"# branch.oid ") and record[13:] != b"(initial)":
                head = CommitId(record[13:].decode("ascii"))
            case _:
                pass
    return StatusReading(head, tuple(entries))


def _tracked_entry(record: bytes, *, fields: int) -> Entry:
    parts = record.split(b" ", fields)
    letters = parts[1].decode("ascii")
    return Entry(letters[0], letters[1], parts[2].decode("ascii"), parts[fields])


async def content_tree(
    repo: Repository,
    index: Path,
    *,
    refuse_unmerged: bool = True,
    settings: Sequence[str] = (),
) -> ContentTree:
    """Bring the private `index` to the content of the working tree and return its tree.

    Only what differs is written. A submodule's new commit is taken, the absence of its folder is
    not: an empty submodule folder says nothing about what its owner wants.

    Args:
        repo: where.
        index: a private index; afterwards it holds the content tree.
        refuse_unmerged: when False, an unmerged path counts as the file that lies there.
        settings: configuration for the comparison, each as `name=value`.

    Raises:
        UnmergedPathsError: if those are refused.
        GitError: a file or folder cannot be read, or a filter failed.
    """
    reading = await read_status(repo, index, settings)
    if refuse_unmerged and reading.unmerged:
        raise UnmergedPathsError(reading.unmerged)
    edits = await in_thread(_edits, repo, reading)
    await _edit_index(repo, index, edits, settings)
    staged = any(entry.staged not in ".?" for entry in reading.entries)
    if reading.head is not None and not (staged or edits.gone or edits.put):
        # Nothing differs from HEAD, so its tree is the answer and need not be written again.
        tree = await read_commit_tree(repo, reading.head)
    else:
        tree = await write_index_tree(repo, index)
    return ContentTree(
        reading.head,
        tree,
        tuple(sorted(e.path for e in reading.entries if not e.nested and e.submodule == "N...")),
        edits.nested,
        reading.intended,
        edits.notes,
    )


async def write_index_tree(repo: Repository, index: Path) -> TreeId:
    """Store the tree that `index` describes and return its id."""
    return TreeId((await git(repo, "write-tree", index=index)).strip().decode("ascii"))


async def _edit_index(
    repo: Repository, index: Path, edits: _Edits, settings: Sequence[str]
) -> None:
    # With other settings than the comparison had, Git would pass over what that one found.
    update = (*_options(settings), "update-index")
    if edits.gone:
        # `--remove` refuses a path whose folder has become a symbolic link, so these go first.
        listed = _nul_terminated(edits.gone)
        await git(repo, *update, "--force-remove", "-z", "--stdin", index=index, stdin=listed)
    if edits.put:
        options = ("--add", "--remove", "--replace", "-z", "--stdin")
        listed = _nul_terminated(edits.put)
        await git(repo, *update, *options, index=index, stdin=listed)


def _nul_terminated(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _edits(repo: Repository, reading: StatusReading) -> _Edits:
    gone: list[bytes] = []
    put: list[bytes] = []
    nested: list[bytes] = []
    notes: list[str] = []
    for entry in reading.entries:
        if entry.nested:
            nested.append(entry.path.rstrip(b"/"))
            notes.append(f"{quote_path(entry.path)} is a repository of its own and is left out")
        elif entry.submodule.startswith("S"):
            if entry.unstaged == "T" or (entry.submodule[1] == "C" and entry.unstaged != "D"):
                put.append(entry.path)
            for note in _submodule_notes(entry):
                nested.append(entry.path)
                notes.append(note)
        elif entry.unstaged == "D" or (entry.unstaged == "U" and _is_absent(repo, entry.path)):
            gone.append(entry.path)
        elif entry.unstaged != ".":
            put.append(entry.path)
    return _Edits(tuple(gone), tuple(put), tuple(sorted(set(nested))), tuple(notes))


def _submodule_notes(entry: Entry) -> Iterator[str]:
    name = quote_path(entry.path)
    if entry.unstaged == "D":
        yield f"the folder of submodule {name} is absent; the submodule is kept as it was"
    if entry.submodule[2] == "M" or entry.submodule[3] == "U":
        yield f"changes inside submodule {name} are left out"


def _is_absent(repo: Repository, path: bytes) -> bool:
    return not os.path.lexists(repo.root / os.fsdecode(path))
