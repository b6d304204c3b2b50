"""The difference between two trees: as a list of changes, and as a patch that applies exactly."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.changes import Change, ChangeStatus
from engine.core.ids import BlobId, CommitId, TreeId
from engine.system.faults import point
from worktrees.compare import compare
from worktrees.hygiene import Repository, git, git_to_file
from worktrees.machine import in_thread
from worktrees.objects import with_objects

_READ_BYTES = 1 << 20
_MOST_FOLDERS = 200

# Each flag answers a configuration that would otherwise change the bytes: diff.noprefix,
# diff.external, text conversion, color.ui, core.abbrev, diff.renames.
_EXACT = (
    "-c",
    "diff.suppressBlankEmpty=false",
    "diff-tree",
    "-r",
    "--patch",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--indent-heuristic",
    "--diff-algorithm=default",
    "--unified=3",
    "--inter-hunk-context=0",
    "--no-relative",
    "--submodule=short",
    "--ignore-submodules=none",
    "-O/dev/null",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


@dataclass(frozen=True, slots=True)
class PatchFile:
    """A patch on disk, in the form that `git apply` takes.

    Attributes:
        sha256: of its bytes, in hex.
    """

    path: Path
    bytes: int
    sha256: str


async def changes_between(
    repo: Repository, before: TreeId | CommitId, after: TreeId | CommitId
) -> tuple[Change, ...]:
    """Return what differs between two trees or commits, sorted by path; a rename is two changes."""
    if before == after:
        return ()
    # Usually few folders differ, and reading those costs less than starting a program.
    found = await with_objects(repo, lambda store: compare(store, before, after, _MOST_FOLDERS))
    if found is not None:
        return found
    options = ("-r", "-z", "--raw", "--no-renames", "--full-index", "--ignore-submodules=none")
    out = await git(repo, "diff-tree", *options, "-O/dev/null", before, after)
    return await in_thread(_decode_changes, out)


def _decode_changes(out: bytes) -> tuple[Change, ...]:
    fields = out.split(b"\0")
    changes: list[Change] = []
    for facts, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, letter = facts[1:].decode("ascii").split(" ")
        status = ChangeStatus(letter)
        changes.append(Change(path, status, old_mode, new_mode, BlobId(old), BlobId(new)))
    return tuple(sorted(changes, key=lambda change: change.path))


async def write_patch(
    repo: Repository, before: TreeId | CommitId, after: TreeId | CommitId, target: Path
) -> PatchFile:
    """Write the patch from one tree or commit to another into `target`, mode 0600.

    It applies exactly, whatever diff configuration the user has. `target` appears whole or not at
    all.
    """
    partial = target.with_name(f"{target.name}.partial")
    try:
        await git_to_file(repo, *_EXACT, before, after, target=partial)
        return await in_thread(_publish, partial, target)
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(lambda: partial.unlink(missing_ok=True))


async def cut_patch(whole: PatchFile, target: Path, limit_bytes: int) -> PatchFile:
    """Write the first lines of a patch into `target`, mode 0600, and where the rest is.

    What is returned is of what was written.

    Args:
        whole: longer than `limit_bytes`.
        target: must not exist.
        limit_bytes: how much of it is taken at most.
    """
    return await in_thread(_cut, whole, target, limit_bytes)


def _cut(whole: PatchFile, target: Path, limit_bytes: int) -> PatchFile:
    with whole.path.open("rb") as stream:
        start = stream.read(limit_bytes)
    # A line that is longer than the limit is cut in the middle.
    start = start[: start.rfind(b"\n") + 1] or start + b"\n"
    note = f"pinata: cut here, {len(start):,} of {whole.bytes:,} bytes; all of it: {whole.path}\n"
    with open(target, "xb", opener=_private) as out:
        data = start + os.fsencode(note)
        out.write(data)
    return PatchFile(target, len(data), hashlib.sha256(data).hexdigest())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _publish(partial: Path, target: Path) -> PatchFile:
    digest, size = hashlib.sha256(), 0
    with partial.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            digest.update(block)
            size += len(block)
    point("patch.written")
    partial.replace(target)
    return PatchFile(target, size, digest.hexdigest())
