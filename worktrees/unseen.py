"""What Git does not look at in a worktree: ignored files, and the insides of submodules.

None of it is in a capture, and a check could read it all the same. So it is compared by what the
system knows of each file, of which a program cannot forge the time of the last change.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.changes import GITLINK_MODE, quote_path, unquote_path
from engine.core.errors import CorruptionError
from engine.system.files import replace_file
from worktrees.contents import private_index
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread
from worktrees.status import read_status

# How an index, of whatever version, writes down the mode of a submodule. Other bytes may look
# the same, so only its absence proves something.
_GITLINK_IN_INDEX = b"\0\0\xe0\0"


@dataclass(frozen=True, slots=True)
class Unseen:
    """Digests of what Git does not look at, by path.

    Attributes:
        ignored: ignored files, and folders that are ignored as a whole, whose paths end in a slash.
        submodules: folders of submodules that hold anything at all.
    """

    ignored: Mapping[bytes, str] = field(default_factory=dict)
    submodules: Mapping[bytes, str] = field(default_factory=dict)


async def look(worktree: Repository, seed_index: Path, scratch: Path) -> Unseen:
    """Return what lies in `worktree` unseen.

    Args:
        worktree: as `create_worktree` returned it.
        seed_index: the engine's own index of what the writer starts from.
        scratch: an existing folder that belongs to the engine.
    """
    async with private_index(scratch, seed_index) as index:
        status = await read_status(worktree, index, ignored=True)
        submodules = await inhabited_submodules(worktree, index)
    return Unseen(await digests(worktree, status.ignored), submodules)


def keep_unseen(seed_index: Path, unseen: Unseen) -> None:
    """Remember, durably, what lay unseen in the worktree of `seed_index`; blocks."""
    parts = {"ignored": unseen.ignored, "submodules": unseen.submodules}
    quoted = {key: {quote_path(p): d for p, d in found.items()} for key, found in parts.items()}
    replace_file(_record_beside(seed_index), json.dumps(quoted).encode(), fault="unseen.record")


def read_unseen(seed_index: Path) -> Unseen | None:
    """Return what `keep_unseen` remembered, None if it was never called; blocks.

    Raises:
        CorruptionError: it cannot be read.
    """
    path = _record_beside(seed_index)
    try:
        parts = json.loads(path.read_bytes())
        ignored, submodules = (
            {unquote_path(quoted): str(found) for quoted, found in parts[key].items()}
            for key in ("ignored", "submodules")
        )
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CorruptionError(f"{path} is damaged: {error}") from error
    return Unseen(ignored, submodules)


def forget_unseen(seed_index: Path) -> None:
    """Forget what lay unseen in the worktree of `seed_index`, now that it is gone; blocks."""
    _record_beside(seed_index).unlink(missing_ok=True)


def _record_beside(seed_index: Path) -> Path:
    return seed_index.with_name(f"{seed_index.name}.unseen")


async def digests(worktree: Repository, paths: Sequence[bytes]) -> dict[bytes, str]:
    """Return a digest of what is known about each file or whole folder; those gone are left out."""
    return await in_thread(_digests, worktree.root, paths) if paths else {}


async def inhabited_submodules(worktree: Repository, index: Path) -> dict[bytes, str]:
    """Return the submodules that `index` knows and whose folders are not empty, with digests.

    Git's status does not look into the folder of a submodule that is not initialised, and believes
    one that is.
    """
    if not await in_thread(lambda: _GITLINK_IN_INDEX in index.read_bytes()):
        return {}
    listing = await git(worktree, "ls-files", "--stage", "-z", index=index)
    links = [
        record.partition(b"\t")[2]
        for record in listing.split(b"\0")
        if record.startswith(GITLINK_MODE.encode("ascii"))
    ]
    held = await in_thread(lambda: [link for link in links if _holds_something(worktree, link)])
    return await digests(worktree, held)


def holds_repository(worktree: Repository, path: bytes) -> bool:
    """Whether a repository of its own seems to lie in the folder `path`; blocks."""
    return os.path.lexists(worktree.root / os.fsdecode(path) / ".git")


def git_names(root: Path, skipped: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the folders below `root` that hold something called `.git`, sorted; blocks.

    Git never looks at anything of that name, whether or not it is a repository. The root's own
    does not count.

    Args:
        root: of a worktree.
        skipped: folders that are not looked into, with or without a slash at the end.
    """
    passed_over = {path.rstrip(b"/") for path in skipped}
    found: list[bytes] = []
    waiting = [b""]
    top = os.fsencode(root)
    while waiting:
        folder = waiting.pop()
        with os.scandir(top + b"/" + folder) as entries:
            for entry in entries:
                if entry.name == b".git":
                    if folder:
                        found.append(folder)
                elif entry.is_dir(follow_symlinks=False):
                    path = folder + b"/" + entry.name if folder else entry.name
                    if path not in passed_over:
                        waiting.append(path)
    return tuple(sorted(found))


def _holds_something(worktree: Repository, path: bytes) -> bool:
    try:
        with os.scandir(worktree.root / os.fsdecode(path)) as entries:
            return next(entries, None) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False


def _digests(root: Path, paths: Sequence[bytes]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for path in paths:
        digest = hashlib.sha256()
        count = 0
        for facts in _facts(os.fsencode(root / os.fsdecode(path))):
            digest.update(facts)
            count += 1
        if count:
            found[path] = digest.hexdigest()
    return found


def _facts(top: bytes) -> Iterator[bytes]:
    """Yield what the system knows of a file, or of everything in a folder, in a fixed order."""
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            known = os.lstat(path)
            inside = _names(path) if _is_folder(known) else []
        except FileNotFoundError:
            continue
        if not _is_folder(known):
            times = (known.st_size, known.st_mtime_ns, known.st_ctime_ns)
            yield b"%b\0%d %d %d %d %d\0" % (path, known.st_mode, known.st_ino, *times)
        elif path != top:
            yield b"%b/\0" % path
        else:
            yield b""
        waiting += [path + b"/" + name for name in inside]


def _names(folder: bytes) -> list[bytes]:
    with os.scandir(folder) as entries:
        return sorted((entry.name for entry in entries), reverse=True)


def _is_folder(facts: os.stat_result) -> bool:
    return stat.S_ISDIR(facts.st_mode)
