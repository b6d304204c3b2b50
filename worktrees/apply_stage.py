"""Git's part of an integration: files as a checkout would write them, and as Git would store them.

Both go through a private index that holds nothing but the paths in question. Git decides about
line ends, filters, encodings, links and executable bits; nothing here reads an attribute.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pygit2
import trio
from pygit2.enums import FileMode

from engine.core.changes import ABSENT_MODE, Change
from engine.core.ids import BlobId, TreeId
from worktrees.folders import ancestors, split_path
from worktrees.hygiene import Repository, git
from worktrees.objects import read_entries

_ATTRIBUTES = b".gitattributes"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A path with the mode and the blob that Git has for it."""

    path: bytes
    mode: str
    blob: BlobId


async def changed_files(
    repo: Repository, expected: Sequence[StoredFile], index: Path
) -> frozenset[bytes]:
    """Return the paths of `expected` whose file Git would store differently, or that are missing.

    Args:
        repo: whose working tree is looked at.
        expected: at least what is asked about.
        index: where a private index may be written; nothing is left there.
    """
    if not expected:
        return frozenset()
    # With the expected blob in the index, Git judges line ends and, where the file system has no
    # executable bit, the mode as it did when that blob was stored.
    async with _private_index(index, expected):
        out = await git(repo, "ls-files", "--modified", "-z", index=index)
    return frozenset(out.split(b"\0")[:-1])


async def check_out(
    repo: Repository, changes: Sequence[Change], live: TreeId, target: Path, index: Path
) -> None:
    """Write what `changes` lead to into the empty folder `target`, below their paths.

    Args:
        repo: whose attributes, configuration and objects apply.
        changes: their deletions write nothing.
        live: what the working tree holds now.
        target: where the files go.
        index: where a private index may be written; nothing is left there.

    Raises:
        GitError: a filter failed, or an object is missing.
    """
    results = [
        StoredFile(change.path, change.new_mode, change.new_blob)
        for change in changes
        if change.new_mode != ABSENT_MODE
    ]
    if not results:
        return
    wanted = b"".join(result.path + b"\0" for result in results)
    if not any(split_path(change.path)[1] == _ATTRIBUTES for change in changes):
        prefix = f"--prefix={target}/"
        async with _private_index(index, results):
            await git(repo, "checkout-index", "-z", "--stdin", prefix, index=index, stdin=wanted)
        return
    # Git takes attributes from the files of a working tree, and only where there are none from the
    # index. New attributes must count already, so the working tree is the empty target.
    rows = [*await _other_attributes(repo, changes, live), *results]
    there = replace(repo, root=target)
    async with _private_index(index, rows):
        await git(there, "checkout-index", "-z", "--stdin", index=index, stdin=wanted)


async def _other_attributes(
    repo: Repository, changes: Sequence[Change], live: TreeId
) -> list[StoredFile]:
    """Return the attribute files that apply to `changes` and that they leave alone."""
    touched = {change.path for change in changes}
    folders = {b""} | {folder for path in touched for folder in ancestors(path)}
    paths = {folder + b"/" + _ATTRIBUTES if folder else _ATTRIBUTES for folder in folders}
    found = await read_entries(repo, live, sorted(paths - touched))
    return [
        StoredFile(path, entry.mode, BlobId(entry.object_id))
        for path, entry in found.items()
        if entry is not None and not entry.is_folder
    ]


@asynccontextmanager
async def _private_index(index: Path, rows: Sequence[StoredFile]) -> AsyncIterator[None]:
    try:
        await trio.to_thread.run_sync(_write_index, index, rows)
        yield
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lambda: index.unlink(missing_ok=True))


def _write_index(index: Path, rows: Sequence[StoredFile]) -> None:
    index.unlink(missing_ok=True)
    written = pygit2.Index(str(index))
    for row in rows:
        mode, object_id = FileMode(int(row.mode, 8)), pygit2.Oid(hex=row.blob)
        written.add(pygit2.IndexEntry(row.path.decode("utf-8", "surrogateescape"), object_id, mode))
    written.write()
