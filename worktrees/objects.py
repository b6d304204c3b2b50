"""Git objects by id, through libgit2: commits, trees and blobs, never a working tree.

libgit2 objects are not safe to share between threads, so each call opens the repository for itself,
in a worker thread, and only ids and bytes leave it. Trees are read and written in their raw form,
because a path is bytes here and libgit2's own tree builder refuses names that are not UTF-8.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pygit2
from pygit2.enums import ConfigLevel, ObjectType, RepositoryOpenFlag

from engine.core.changes import GITLINK_MODE, quote_path
from engine.core.errors import ConflictError, CorruptionError, ExternalError
from engine.core.ids import BlobId, CommitId, TreeId
from worktrees.hygiene import Repository
from worktrees.machine import in_thread

# Whose repository it is was decided when it was found; whose configuration applies does not
# matter to objects, and a broken file of the user's must not hide them.
pygit2.settings.owner_validation = False
pygit2.settings.set_extensions(["partialclone"])
for _level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL, ConfigLevel.PROGRAMDATA):
    pygit2.settings.search_path[_level] = ""

_COMMITTED_AT = re.compile(rb"\ncommitter [^\n]* (\d+) [+-]\d{4}\n")
_FIRST_PARENT = re.compile(rb"\A[^\n]*\nparent ([0-9a-f]+)\n")
# Old repositories hold modes that Git reads as one of these two.
_CANONICAL = {b"100664": "100644", b"100640": "100644", b"100600": "100644", b"100775": "100755"}
_TREE_MODE = "040000"
_NAME, _EMAIL = "pinata", "pinata@localhost"
# As the commits of the engine's own say it.
OWN_NAME = f"{_NAME} <{_EMAIL}>".encode("ascii")

Answer = TypeVar("Answer")


class UnreadableObjectError(CorruptionError):
    """An object that the repository should hold cannot be read."""

    def __init__(self, object_id: str, reason: str) -> None:
        self.object_id = object_id
        super().__init__(f"object {object_id} cannot be read: {reason}")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What a tree holds under one name.

    Attributes:
        mode: six octal digits, as in `engine.core.changes`; `040000` for a folder.
    """

    mode: str
    object_id: str

    @property
    def is_folder(self) -> bool:
        """Whether the entry is a tree itself."""
        return self.mode == _TREE_MODE


class PathOccupiedError(ConflictError):
    """A file cannot be put where the tree holds something else."""

    def __init__(self, path: bytes, reason: str) -> None:
        self.path = path
        super().__init__(f"{quote_path(path)} cannot be put into the tree: {reason}")


class ObjectStore:
    """The objects of one repository, for use inside one worker thread."""

    def __init__(self, repo: Repository) -> None:
        flags = RepositoryOpenFlag.NO_SEARCH | RepositoryOpenFlag.BARE
        try:
            self._repo = pygit2.Repository(str(repo.common_dir), flags)
        except pygit2.GitError as error:
            raise ConflictError(
                f"the repository at {repo.root} is not supported: {error}"
            ) from error

    def read(self, object_id: str, expected: ObjectType) -> bytes:
        """Return the raw content of an object.

        Raises:
            UnreadableObjectError: it is missing, damaged or of another type.
        """
        try:
            found, data = self._repo.read(object_id)
        except (KeyError, ValueError, pygit2.GitError) as error:
            raise UnreadableObjectError(object_id, str(error)) from error
        if found != expected:
            raise UnreadableObjectError(object_id, f"it is not a {expected.name.lower()}")
        return bytes(data)

    def tree(self, tree_id: str) -> dict[bytes, TreeEntry]:
        """Return the entries of one tree, in its order."""
        entries = _decode_tree(self.read(tree_id, ObjectType.TREE))
        if entries is None:
            # Git itself would check some of them out under names that a look-up does not find.
            raise UnreadableObjectError(tree_id, "its entries have no proper names")
        return entries

    def size(self, object_id: str) -> int:
        """Return how many bytes an object's content takes, without reading it.

        Raises:
            UnreadableObjectError: it is missing.
        """
        try:
            _, size = self._repo.odb.read_header(object_id)
        except (KeyError, ValueError) as error:
            raise UnreadableObjectError(object_id, str(error)) from error
        return int(size)

    def write_tree(self, entries: Mapping[bytes, TreeEntry]) -> TreeId:
        """Store a tree and return its id."""
        return TreeId(str(self._repo.write(ObjectType.TREE, _encode_tree(entries))))

    def write_blob(self, data: bytes) -> BlobId:
        """Store a content and return its id."""
        return BlobId(str(self._repo.write(ObjectType.BLOB, data)))

    def commit_tree(self, commit: str) -> TreeId:
        """Return the tree of a commit."""
        first, _, _ = self.read(commit, ObjectType.COMMIT).partition(b"\n")
        return TreeId(first.removeprefix(b"tree ").decode("ascii"))

    def root_tree(self, object_id: str) -> str:
        """Return the tree of a commit, or the id itself when it is not a commit's."""
        try:
            found, _ = self._repo.odb.read_header(object_id)
        except (KeyError, ValueError) as error:
            raise UnreadableObjectError(object_id, str(error)) from error
        return self.commit_tree(object_id) if found == ObjectType.COMMIT else object_id

    def check_whole(self, commit: str) -> None:
        """Make sure that a commit is there with all that it has beyond its first parent.

        Raises:
            UnreadableObjectError: names the first object that is missing.
        """
        found = _FIRST_PARENT.search(self.read(commit, ObjectType.COMMIT))
        before = self.tree(self.commit_tree(found[1].decode("ascii"))) if found else {}
        self._check_entries(self.tree(self.commit_tree(commit)), before)

    def _check_entries(
        self, entries: Mapping[bytes, TreeEntry], before: Mapping[bytes, TreeEntry]
    ) -> None:
        for name, entry in entries.items():
            old = before.get(name)
            if entry == old or entry.mode == GITLINK_MODE:
                continue
            if entry.is_folder:
                inside = self.tree(old.object_id) if old is not None and old.is_folder else {}
                self._check_entries(self.tree(entry.object_id), inside)
            elif entry.object_id not in self._repo:
                raise UnreadableObjectError(entry.object_id, "it is missing")

    def commit_time_s(self, commit: str) -> int:
        """Return when a commit was made, in seconds since 1970."""
        found = _COMMITTED_AT.search(self.read(commit, ObjectType.COMMIT))
        return int(found[1]) if found else 0

    def commit(self, parents: Sequence[str], tree: str, message: str, at_s: int) -> CommitId:
        """Store a commit of the engine's own and return its id."""
        by = pygit2.Signature(_NAME, _EMAIL, at_s, 0)
        return CommitId(str(self._repo.create_commit(None, by, by, message, tree, list(parents))))

    def find(self, tree_id: str, path: bytes) -> TreeEntry | None:
        """Return what `tree_id` holds at `path`, or None."""
        entry: TreeEntry | None = TreeEntry(_TREE_MODE, tree_id)
        for name in path.split(b"/"):
            if entry is None or not entry.is_folder:
                return None
            entry = self.tree(entry.object_id).get(name)
        return entry

    def edit(self, tree_id: str, edits: Mapping[bytes, TreeEntry | None]) -> TreeId:
        """Return the tree that results from putting and removing entries by path.

        Folders that become empty go. Removals count first, so a file may take the place of a
        folder whose last file is removed by the same call.

        Raises:
            PathOccupiedError: a path lies below a file, or is a folder that is not emptied.
        """
        entries = self._edited(self.tree(tree_id), edits, b"")
        return self.write_tree(entries)

    def _edited(
        self,
        entries: dict[bytes, TreeEntry],
        edits: Mapping[bytes, TreeEntry | None],
        prefix: bytes,
    ) -> dict[bytes, TreeEntry]:
        here: dict[bytes, TreeEntry | None] = {}
        below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
        for path, entry in edits.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = entry
            else:
                here[name] = entry
        for name, entry in here.items():
            if entry is None:
                entries.pop(name, None)
        for name, inner in below.items():
            self._edit_folder(entries, name, inner, prefix)
        for name, entry in here.items():
            if entry is not None:
                if name in entries and entries[name].is_folder:
                    raise PathOccupiedError(prefix + name, "a folder that is not empty lies there")
                entries[name] = entry
        return entries

    def _edit_folder(
        self,
        entries: dict[bytes, TreeEntry],
        name: bytes,
        inner: Mapping[bytes, TreeEntry | None],
        prefix: bytes,
    ) -> None:
        there = entries.get(name)
        if there is not None and not there.is_folder:
            if all(entry is None for entry in inner.values()):
                return
            raise PathOccupiedError(prefix + name, "a file lies where a folder is needed")
        content = {} if there is None else self.tree(there.object_id)
        content = self._edited(content, inner, prefix + name + b"/")
        if content:
            entries[name] = TreeEntry(_TREE_MODE, self.write_tree(content))
        else:
            entries.pop(name, None)


def _decode_tree(data: bytes) -> dict[bytes, TreeEntry] | None:
    """Return a tree's entries; None when a name is empty, holds a slash or comes twice."""
    entries: dict[bytes, TreeEntry] = {}
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = data.index(b"\0", space)
        mode = _CANONICAL.get(data[at:space], data[at:space].decode("ascii").rjust(6, "0"))
        name = data[space + 1 : end]
        if not name or b"/" in name or name in entries:
            return None
        entries[name] = TreeEntry(mode, data[end + 1 : end + 21].hex())
        at = end + 21
    return entries


def _encode_tree(entries: Mapping[bytes, TreeEntry]) -> bytes:
    # Git sorts a folder as if its name ended in a slash, and writes modes without leading zeros.
    def order(name: bytes) -> bytes:
        return name + b"/" if entries[name].is_folder else name

    return b"".join(
        entries[name].mode.lstrip("0").encode("ascii")
        + b" "
        + name
        + b"\0"
        + bytes.fromhex(entries[name].object_id)
        for name in sorted(entries, key=order)
    )


async def with_objects(repo: Repository, use: Callable[[ObjectStore], Answer]) -> Answer:
    """Open the objects of `repo` in a worker thread and return what `use` returns there."""
    try:
        return await in_thread(lambda: use(ObjectStore(repo)))
    except pygit2.GitError as error:
        raise ExternalError(f"the objects of {repo.root} cannot be used: {error}") from error


async def read_commit_tree(repo: Repository, commit: CommitId) -> TreeId:
    """Return the tree of a commit."""
    return await with_objects(repo, lambda store: store.commit_tree(commit))


async def read_entries(
    repo: Repository, tree: TreeId, paths: Sequence[bytes]
) -> dict[bytes, TreeEntry | None]:
    """Return what `tree` holds at each of `paths`; None where it holds nothing."""

    def look_up(store: ObjectStore) -> dict[bytes, TreeEntry | None]:
        return {path: store.find(tree, path) for path in paths}

    return await with_objects(repo, look_up)


async def is_whole(repo: Repository, commit: CommitId) -> bool:
    """Return whether a commit is there with all that it has beyond its first parent."""
    try:
        await with_objects(repo, lambda store: store.check_whole(commit))
    except UnreadableObjectError:
        return False
    return True


async def commit_tree(
    repo: Repository, parents: Sequence[CommitId], tree: TreeId, message: str, at_ms: int
) -> CommitId:
    """Store a commit by the engine's fixed identity, unsigned; no ref points to it yet.

    Args:
        repo: where.
        parents: commits in order; none makes a root commit.
        tree: its content.
        message: its whole message.
        at_ms: author's and committer's time, in milliseconds since 1970, so that equal input
            makes an equal id.
    """
    seconds = at_ms // 1000
    return await with_objects(repo, lambda store: store.commit(parents, tree, message, seconds))
