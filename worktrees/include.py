"""Ignored files that every worktree is to have, such as local settings: `.worktreeinclude`.

A person names them by patterns in the checkout's root. They are copied as they lie there now, and
the engine remembers which they are, so that no capture ever takes one for a writer's change.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from engine.core.changes import quote_path
from engine.core.errors import ConflictError, CorruptionError, ExternalError, reason_of
from engine.core.quote import MOST_NAMES
from engine.system.files import read_regular, replace_file
from worktrees.folders import Folders, ancestors, split_path
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread

INCLUDE_FILE = ".worktreeinclude"
MOST_COPIES = 1000
COPY_LIMIT_BYTES = 16 << 20
_RULES_LIMIT_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Gone, a link, a file where a folder was, a socket; or already there on the other side.
_NOT_AS_JUDGED = frozenset(
    {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EEXIST, errno.EISDIR}
)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TooManyIncludedError(ConflictError):
    """The patterns name more files than are copied into a worktree."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(
            f"{INCLUDE_FILE} matches {count:,} files, and {MOST_COPIES:,} is the most: "
            "name fewer, and let setup make the rest"
        )


class IncludeRulesError(ConflictError):
    """The file of patterns cannot be understood."""


@dataclass(frozen=True, slots=True)
class Included:
    """What was brought into a worktree.

    Attributes:
        copied: sorted.
        notes: sentences about files that were asked for and not copied.
    """

    copied: tuple[bytes, ...] = ()
    notes: tuple[str, ...] = ()


async def copy_included(checkout: Repository, worktree: Repository, seed_index: Path) -> Included:
    """Copy the files that the checkout's `.worktreeinclude` names into a new worktree.

    Only regular files count that are ignored in the worktree, are not there yet, and are reached
    without links on both sides. They keep their permission bits.

    Args:
        checkout: the user's.
        worktree: as `create_worktree` returned it.
        seed_index: the engine's own index of the worktree; what was copied is remembered beside it.

    Raises:
        IncludeRulesError: a pattern cannot be understood.
        TooManyIncludedError: more than 1,000 files are ignored and named; none was copied.
        ExternalError: a file cannot be read or written.
    """
    try:
        rules = await in_thread(_read_rules, checkout.root)
    except CorruptionError as error:
        return Included(notes=(f"nothing was copied into the worktree: {error}",))
    if rules is None:
        return Included()
    # Without a list of what is ignored, this shows all that is not tracked.
    listing = await git(checkout, "ls-files", "--others", "-z", index=checkout.index)
    named = await in_thread(_missing, worktree.root, rules, listing)
    ignored = await _ignored(worktree, named)
    if len(ignored) > MOST_COPIES:
        raise TooManyIncludedError(len(ignored))
    wanted, notes = await in_thread(_copyable, checkout.root, ignored)
    if wanted:
        # First, so that not even a copy that was interrupted shows in a capture.
        await in_thread(_remember, seed_index, wanted)
    copied = [p for p in wanted if await in_thread(_copy, checkout.root, worktree.root, p)]
    return Included(tuple(copied), notes)


def read_included(seed_index: Path) -> tuple[bytes, ...]:
    """Return the paths that were ever copied into the worktree of `seed_index`; blocks."""
    try:
        return tuple(_list_beside(seed_index).read_bytes().split(b"\0")[:-1])
    except FileNotFoundError:
        return ()


def forget_included(seed_index: Path) -> None:
    """Forget what was copied into the worktree of `seed_index`, now that it is gone; blocks."""
    _list_beside(seed_index).unlink(missing_ok=True)


def _remember(seed_index: Path, paths: Sequence[bytes]) -> None:
    known = sorted({*read_included(seed_index), *paths})
    data = b"".join(path + b"\0" for path in known)
    replace_file(_list_beside(seed_index), data, fault="include.list")


def _list_beside(seed_index: Path) -> Path:
    return seed_index.with_name(f"{seed_index.name}.included")


def _read_rules(root: Path) -> GitIgnoreSpec | None:
    try:
        data = read_regular(root / INCLUDE_FILE, _RULES_LIMIT_BYTES)
    except FileNotFoundError:
        return None
    # As Git reads such a file: a mark at the beginning and carriage returns do not count, and a
    # character is a byte, whatever the encoding of a name.
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    try:
        # The faster engines are chosen by what happens to be installed, and do not agree in all.
        return GitIgnoreSpec.from_lines((e.removesuffix("\r") for e in lines), backend="simple")
    except ValueError as error:
        raise IncludeRulesError(f"{INCLUDE_FILE} cannot be understood: {error}") from error


def _missing(root: Path, rules: GitIgnoreSpec, listing: bytes) -> tuple[bytes, ...]:
    """Return the listed paths that `rules` name and for which the worktree has room, sorted."""
    # A repository of its own is listed as a folder, and nothing of it is copied.
    listed = sorted(p for p in listing.split(b"\0") if p and not p.endswith(b"/"))
    named = [path for path in listed if rules.match_file(path.decode("latin-1"))]
    with Folders(root) as folders:
        return tuple(path for path in named if _has_room(folders, path))


def _has_room(folders: Folders, path: bytes) -> bool:
    """Whether `path` is absent and could be made without passing a link or replacing a file."""
    for folder in ancestors(path):
        found = folders.lstat(folder)
        if found is None:
            return True
        if not stat.S_ISDIR(found.st_mode):
            return False
    return folders.lstat(path) is None


async def _ignored(worktree: Repository, paths: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return those of `paths` that are ignored in the worktree and not tracked, in order."""
    if not paths:
        return ()
    # This command wants paths to be read as patterns; behind the dot none of them looks like one.
    asked = b"".join(b"./" + path + b"\0" for path in paths)
    command = ("--no-literal-pathspecs", "check-ignore", "-z", "--stdin")
    # Git answers with 1 when none is ignored.
    answer = await git(worktree, *command, index=worktree.index, stdin=asked, ok=(0, 1))
    return tuple(path.removeprefix(b"./") for path in answer.split(b"\0")[:-1])


def _copyable(root: Path, paths: Sequence[bytes]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """Return the paths that may be copied, and sentences about those that may not."""
    wanted: list[bytes] = []
    refused: list[str] = []
    with Folders(root) as folders:
        for path in paths:
            found = folders.lstat(path)
            if found is None:
                continue
            if not stat.S_ISREG(found.st_mode):
                refused.append(f"{quote_path(path)} is not a regular file")
            elif found.st_size > COPY_LIMIT_BYTES:
                refused.append(f"{quote_path(path)} is larger than {COPY_LIMIT_BYTES >> 20} MiB")
            else:
                wanted.append(path)
    notes = [f"{each} and was not copied into the worktree" for each in refused[:MOST_NAMES]]
    if more := refused[MOST_NAMES:]:
        notes.append(f"{len(more)} more files that {INCLUDE_FILE} names were not copied")
    return tuple(wanted), tuple(notes)


def _copy(source_root: Path, target_root: Path, path: bytes) -> bool:
    """Copy one file; False when it was gone, or not what it had been, at the moment of the copy.

    Raises:
        ExternalError: it cannot be read or written; names the path.
    """
    folder, name = split_path(path)
    try:
        with Folders(source_root) as sources, Folders(target_root) as targets:
            found = _read_source(name, sources.open(folder))
            if found is None:
                return False
            data, mode = found
            _make_folders(targets, path)
            target = os.open(name, _CREATE, 0o600, dir_fd=targets.open(folder))
            with os.fdopen(target, "wb") as file:
                file.write(data)
                os.fchmod(target, mode)
    except OSError as error:
        if error.errno in _NOT_AS_JUDGED:
            return False
        raise ExternalError(
            f"{quote_path(path)} cannot be copied into the worktree: {reason_of(error)}"
        ) from error
    return True


def _read_source(name: bytes, folder: int) -> tuple[bytes, int] | None:
    """Return content and permission bits of a regular file, None for anything else."""
    source = os.open(name, _READ, dir_fd=folder)
    try:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode):
            return None
        with os.fdopen(source, "rb", closefd=False) as file:
            # A file that grows meanwhile is cut: no more is copied than was judged.
            data = file.read(min(facts.st_size, COPY_LIMIT_BYTES))
    finally:
        os.close(source)
    return data, stat.S_IMODE(facts.st_mode) & 0o777


def _make_folders(folders: Folders, path: bytes) -> None:
    for folder in ancestors(path):
        above, name = split_path(folder)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folders.open(above))
