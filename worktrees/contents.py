"""The content tree of a working tree: what is tracked, or untracked and not ignored.

Everything happens in a private index; the working tree and its own index are only read. Snapshot,
measurement and capture share this, so that they cannot disagree about what a file's content is.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from engine.core.changes import quote_path
from engine.core.ids import CommitId, TreeId
from engine.system.nursery import open_flat_nursery
from worktrees.hygiene import GitError, Repository, git
from worktrees.machine import in_thread
from worktrees.objects import read_commit_tree
from worktrees.refusal import UnmergedPathsError
from worktrees.status import Entry, StatusReading, options, read_status

# Storing a file takes its time, and hosts commonly refuse to take one of this size.
BIG_FILE_BYTES = 100 << 20


@dataclass(frozen=True, slots=True)
class ContentTree:
    """The content tree and what it left out.

    Attributes:
        uncommitted: paths whose content differs from HEAD's, sorted.
        nested: places of repositories of their own that are left out, and of submodules with
            changes inside; sorted.
        intended: paths that are in the index by intent only.
        notes: one sentence for each thing left out, and for each very big file.
        ignored: see `StatusReading`.
    """

    head: CommitId | None
    tree: TreeId
    uncommitted: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    intended: tuple[bytes, ...]
    notes: tuple[str, ...]
    ignored: tuple[bytes, ...] = ()


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


async def content_tree(
    repo: Repository,
    index: Path,
    *,
    refuse_unmerged: bool = True,
    settings: Sequence[str] = (),
    ignored: bool = False,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> ContentTree:
    """Bring the private `index` to the content of the working tree and return its tree.

    Only what differs is written. A submodule's new commit is taken, the absence of its folder is
    not: an empty submodule folder says nothing about what its owner wants.

    Args:
        repo: where.
        index: a private index; afterwards it holds the content tree.
        refuse_unmerged: when False, an unmerged path counts as the file that lies there.
        settings: configuration for the comparison, each as `name=value`.
        ignored: whether to name also what is ignored.
        meanwhile: done beside writing the tree, when the index holds the content already.

    Raises:
        UnmergedPathsError: if those are refused.
        GitError: a file or folder cannot be read, or a filter failed.
    """
    reading = await read_status(repo, index, settings, ignored=ignored)
    if refuse_unmerged and reading.unmerged:
        raise UnmergedPathsError(reading.unmerged)
    edits = await in_thread(_edits, repo, reading)
    await _edit_index(repo, index, edits, settings)
    staged = any(entry.staged not in ".?" for entry in reading.entries)
    async with open_flat_nursery() as nursery:
        if meanwhile is not None:
            nursery.start_soon(meanwhile)
        if reading.head is not None and not (staged or edits.gone or edits.put):
            # Nothing differs from HEAD, so its tree is the answer and need not be written again.
            tree = await read_commit_tree(repo, reading.head)
        else:
            tree = await _write_tree(repo, index, edits, settings)
    return ContentTree(
        reading.head,
        tree,
        tuple(sorted(e.path for e in reading.entries if not e.nested and e.submodule == "N...")),
        edits.nested,
        reading.intended,
        edits.notes,
        reading.ignored,
    )


async def _write_tree(
    repo: Repository, index: Path, edits: _Edits, settings: Sequence[str]
) -> TreeId:
    try:
        return await write_index_tree(repo, index)
    except GitError:
        # Nothing names the files just stored, so a garbage collection may have deleted them. The
        # index takes them for stored, so it has to forget them first.
        if not edits.put:
            raise
    await _edit_index(repo, index, replace(edits, gone=edits.put), settings)
    return await write_index_tree(repo, index)


async def write_index_tree(repo: Repository, index: Path) -> TreeId:
    """Store the tree that `index` describes and return its id."""
    return TreeId((await git(repo, "write-tree", index=index)).strip().decode("ascii"))


async def _edit_index(
    repo: Repository, index: Path, edits: _Edits, settings: Sequence[str]
) -> None:
    # With other settings than the comparison had, Git would pass over what that one found.
    update = (*options(settings), "update-index")
    if edits.gone:
        # `--remove` refuses a path whose folder has become a symbolic link, so these go first.
        listed = _nul_terminated(edits.gone)
        await git(repo, *update, "--force-remove", "-z", "--stdin", index=index, stdin=listed)
    if edits.put:
        from_list = ("--add", "--remove", "--replace", "-z", "--stdin")
        listed = _nul_terminated(edits.put)
        await git(repo, *update, *from_list, index=index, stdin=listed)


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
    notes += _big_file_notes(repo, put)
    return _Edits(tuple(gone), tuple(put), tuple(sorted(set(nested))), tuple(notes))


def _big_file_notes(repo: Repository, paths: Sequence[bytes]) -> Iterator[str]:
    for path in paths:
        try:
            facts = (repo.root / os.fsdecode(path)).lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISREG(facts.st_mode) and facts.st_size > BIG_FILE_BYTES:
            name = quote_path(path)
            yield f"{name} is {facts.st_size >> 20} MiB and is stored in the repository's objects"


async def notes_about(repo: Repository, scratch: Path) -> tuple[str, ...]:
    """Return what a snapshot of the working tree would note, without storing anything.

    Args:
        repo: where.
        scratch: an existing folder that belongs to the engine.

    Raises:
        GitError: a folder cannot be read.
    """
    async with private_index(scratch, repo.index) as index:
        reading = await read_status(repo, index)
    return (await in_thread(_edits, repo, reading)).notes


def _submodule_notes(entry: Entry) -> Iterator[str]:
    name = quote_path(entry.path)
    if entry.unstaged == "D":
        yield f"the folder of submodule {name} is absent; the submodule is kept as it was"
    if entry.submodule[2] == "M" or entry.submodule[3] == "U":
        yield f"changes inside submodule {name} are left out"


def _is_absent(repo: Repository, path: bytes) -> bool:
    return not os.path.lexists(repo.root / os.fsdecode(path))
