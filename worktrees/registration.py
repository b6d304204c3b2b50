"""What Git writes down about a linked worktree, and how to delete a whole folder.

Source: gitrepository-layout(5), `worktrees`.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worktrees.hygiene import Repository

_GIT_FILE_PREFIX = b"gitdir: "
_OWNER_MAY_ALL = 0o700


@dataclass(frozen=True, slots=True)
class Registration:
    """Git's record of one worktree.

    Attributes:
        git_dir: the worktree's own folder below `<common dir>/worktrees/`.
        reason: why it is locked; None when it is not.
    """

    git_dir: Path
    reason: str | None


def read_git_file(path: Path) -> Path | None:
    """Return the folder that a worktree's `.git` file names, or None if it is no such file."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    if not content.startswith(_GIT_FILE_PREFIX):
        return None
    named = os.fsdecode(content.removeprefix(_GIT_FILE_PREFIX).rstrip(b"\n"))
    # Absolute, or since Git 2.48 relative to the file's own folder.
    return Path(os.path.normpath(path.parent / named))


def find_registration(repo: Repository, path: Path) -> Registration | None:
    """Return Git's record of the worktree at `path`, whether or not its folder is still there."""
    wanted = Path(os.path.realpath(path.parent)) / path.name
    for place, git_dir in _recorded(repo):
        if place == wanted:
            return _registration(git_dir)
    return None


def list_registrations(repo: Repository) -> dict[Path, Registration]:
    """Return Git's records of all linked worktrees, by their places, as those were recorded."""
    return {place: _registration(git_dir) for place, git_dir in _recorded(repo)}


def _recorded(repo: Repository) -> Iterator[tuple[Path, Path]]:
    """Yield the place of each linked worktree and its own folder."""
    try:
        folders = sorted((repo.common_dir / "worktrees").iterdir())
    except FileNotFoundError:
        return
    for git_dir in folders:
        content = _read(git_dir / "gitdir")
        if content is not None:
            recorded = os.path.normpath(git_dir / os.fsdecode(content.rstrip(b"\n")))
            yield Path(recorded).parent, git_dir


def _registration(git_dir: Path) -> Registration:
    reason = _read(git_dir / "locked")
    return Registration(git_dir, None if reason is None else os.fsdecode(reason.strip()))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def remaining_of(path: Path) -> Path:
    """Return where the folder of a removed worktree waits for its deletion."""
    return path.with_name(f".{path.name}.removed")


def delete_tree(path: Path) -> None:
    """Delete a file, a link or a whole folder; nothing to do when nothing is there.

    Folders without write permission, as some package managers make them, go too.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    _unseal(path)
    for parent, names, _ in os.walk(path):
        for name in names:
            _unseal(Path(parent, name))
    shutil.rmtree(path)


def _unseal(folder: Path) -> None:
    mode = folder.lstat().st_mode
    if stat.S_ISDIR(mode) and mode & _OWNER_MAY_ALL != _OWNER_MAY_ALL:
        folder.chmod(_OWNER_MAY_ALL)
