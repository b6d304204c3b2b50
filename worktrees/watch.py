"""What a writer must leave alone in the repository that its worktree shares with the user.

A linked worktree isolates files and nothing else: from inside it a program can move the user's
branches, change the shared configuration or add a hook. So this is looked at before and after.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread
from worktrees.refs import PREFIX

# Sections of the configuration that decide what Git sees in a working tree or runs.
_DECIDING = (
    "attr.",
    "core.",
    "extensions.",
    "feature.",
    "filter.",
    "include.",
    "includeif.",
    "index.",
    "merge.",
    "sparse.",
    "status.",
    "submodule.",
)
# Files that the configuration names and whose content decides too.
_NAMED_FILES = {"core.attributesfile": "attributes", "core.excludesfile": "ignore"}
# Files in a worktree's own folder that say which repository it belongs to.
_TIES = ("commondir", "gitdir")
# What the name of a rule begins with that is a setting of a worktree.
WORKTREE_SETTING = "worktree config "
_OWN_HEADS = ("HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")

Name = TypeVar("Name", str, bytes)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Digests of what surrounds a writer, by name.

    Attributes:
        rules: configuration, hooks, ignore and attribute files: what decides what Git sees. A
            change to them is a fault of the writer, since it could hide another.
        user_refs: HEAD and every ref that is not ours: branches, tags, stash. The user may move
            these at any time, so a change is worth a notice and proves nothing.
        own_refs: refs below `refs/pinata/` and their object ids.
    """

    rules: Mapping[str, str]
    user_refs: Mapping[str, str]
    own_refs: Mapping[str, str]


def differing(before: Mapping[Name, str], after: Mapping[Name, str]) -> tuple[Name, ...]:
    """Return the names that were added, removed or changed, sorted."""
    names = before.keys() | after.keys()
    return tuple(sorted(name for name in names if before.get(name) != after.get(name)))


async def watch(
    repo: Repository, worktree: Repository | None = None, kept: Sequence[Path] = ()
) -> Surroundings:
    """Return what there is to compare around a writer.

    Args:
        repo: the user's checkout.
        worktree: the writer's; its own configuration and sparse patterns count as rules.
        kept: files of the engine's own that a capture relies on; they count as rules too.
    """
    refs = await git(repo, "for-each-ref", "--format=%(objectname) %(symref) %(refname)")
    listings = [await git(place, *_LIST_CONFIG) for place in (repo, worktree) if place is not None]
    found = await in_thread(_read, repo, worktree, refs, listings)
    return await with_kept(found, kept)


async def with_kept(found: Surroundings, kept: Sequence[Path]) -> Surroundings:
    """Return `found` with the files `kept` among the rules; see `watch`."""
    own = await in_thread(_digests, kept)
    return Surroundings({**found.rules, **own}, found.user_refs, found.own_refs)


_LIST_CONFIG = ("config", "--list", "--null", "--show-scope", "--includes")


def _read(
    repo: Repository, worktree: Repository | None, refs: bytes, listings: list[bytes]
) -> Surroundings:
    rules: dict[str, str] = {}
    for place, listing in zip(("config ", WORKTREE_SETTING), listings, strict=False):
        settings = _settings(listing)
        for name, values in settings.items():
            rules[f"{place}{name}"] = _digest("\0".join(values).encode())
    first = _settings(listings[0])
    rules |= _digests(_rule_files(repo, worktree, first))
    user, own = _heads(repo), dict[str, str]()
    for line in refs.decode("utf-8", "surrogateescape").splitlines():
        object_id, target, ref = line.split(" ", 2)
        (own if ref.startswith(PREFIX) else user)[ref] = f"{object_id} {target}".strip()
    return Surroundings(rules, user, own)


def _digests(paths: Iterable[Path]) -> dict[str, str]:
    digests = ((path, _file_digest(path)) for path in paths)
    return {str(path): digest for path, digest in digests if digest is not None}


def _settings(listing: bytes) -> dict[str, list[str]]:
    """Return the deciding settings with all their values in order, leaving out our own options."""
    settings: dict[str, list[str]] = {}
    fields = listing.decode("utf-8", "surrogateescape").split("\0")
    for scope, setting in zip(fields[0::2], fields[1::2], strict=False):
        name, _, value = setting.partition("\n")
        if scope != "command" and name.startswith(_DECIDING):
            settings.setdefault(name, []).append(value)
    return settings


def _rule_files(
    repo: Repository, worktree: Repository | None, settings: Mapping[str, list[str]]
) -> Iterator[Path]:
    common = repo.common_dir
    folders = [common / "info", common / "hooks"]
    if hooks := settings.get("core.hookspath"):
        folder = _expanded(repo, hooks[-1])
        if folder.is_relative_to(repo.root):
            folders.append(folder)
        else:
            # Below a folder from elsewhere may lie a whole disk.
            yield from _entries(folder.glob("*"))
    if worktree is not None:
        folders.append(worktree.git_dir / "info")
        yield from (worktree.git_dir / name for name in _TIES)
    for folder in folders:
        yield from _entries(folder.rglob("*"))
    yield common / "objects" / "info" / "alternates"
    yield common / "shallow"
    for name, default in _NAMED_FILES.items():
        if name in settings:
            yield _expanded(repo, settings[name][-1])
        elif home := _config_home(repo):
            yield home / "git" / default


def _entries(found: Iterable[Path]) -> list[Path]:
    return sorted(path for path in found if not path.is_dir())


def _config_home(repo: Repository) -> Path | None:
    if configured := repo.env.get("XDG_CONFIG_HOME"):
        return Path(configured)
    home = repo.env.get("HOME")
    return Path(home) / ".config" if home else None


def _expanded(repo: Repository, value: str) -> Path:
    if value.startswith("~/") and (home := repo.env.get("HOME")):
        return Path(home) / value.removeprefix("~/")
    return repo.root / value


def _heads(repo: Repository) -> dict[str, str]:
    heads: dict[str, str] = {}
    for name in _OWN_HEADS:
        try:
            heads[name] = (repo.git_dir / name).read_text("utf-8", "surrogateescape").strip()
        except FileNotFoundError:
            continue
    return heads


def _file_digest(path: Path) -> str | None:
    """Return a digest of a file's permission to run, and content or link target; None if absent."""
    try:
        target = os.fsencode(path.readlink()) if path.is_symlink() else b""
        mode = path.stat().st_mode
        head = b"%o " % (mode & 0o111) + target + b"\0"
        if not stat.S_ISREG(mode):
            # Reading a pipe or a device, which an agent may have put there, might never end.
            return _digest(head + b"%o" % stat.S_IFMT(mode))
        with path.open("rb") as file:
            return _digest(head + hashlib.file_digest(file, "sha256").digest())
    except FileNotFoundError:
        return _digest(os.fsencode(path.readlink())) if path.is_symlink() else None
    except (NotADirectoryError, IsADirectoryError):
        return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
