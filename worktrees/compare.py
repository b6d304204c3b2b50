"""Two trees compared in memory: the same answer as `git diff-tree -r --raw --no-renames`."""

from collections.abc import Iterator

from engine.core.changes import ABSENT_MODE, Change, ChangeStatus
from engine.core.ids import BlobId
from worktrees.objects import ObjectStore, TreeEntry

_ABSENT = TreeEntry(ABSENT_MODE, "0" * 40)
# The first three of six digits are the kind of a thing; the rest are permissions.
_KIND_DIGITS = 3


def compare(
    store: ObjectStore, before: str, after: str, most_folders: int
) -> tuple[Change, ...] | None:
    """Return what differs between two trees or commits, sorted by path.

    Args:
        store: where both are.
        before: a commit or tree.
        after: a commit or tree.
        most_folders: None is returned when more folders than this differ; another way is quicker
            then.
    """
    comparison = _Comparison(store, most_folders)
    changes = list(comparison.folder(store.root_tree(before), store.root_tree(after), b""))
    if comparison.left < 0:
        return None
    return tuple(sorted(changes, key=lambda change: change.path))


class _Comparison:
    """One walk through two trees, which stops once it has seen too many folders."""

    def __init__(self, store: ObjectStore, most_folders: int) -> None:
        self.left = most_folders
        self._store = store

    def folder(self, before: str | None, after: str | None, prefix: bytes) -> Iterator[Change]:
        """Yield the changes from one folder to another; None is a folder that is not there."""
        self.left -= 1
        if self.left < 0:
            return
        old = {} if before is None else self._store.tree(before)
        new = {} if after is None else self._store.tree(after)
        for name in old.keys() | new.keys():
            there, here = old.get(name, _ABSENT), new.get(name, _ABSENT)
            if there != here:
                yield from self._entry(there, here, prefix + name)

    def _entry(self, there: TreeEntry, here: TreeEntry, path: bytes) -> Iterator[Change]:
        if there.is_folder or here.is_folder:
            before = there.object_id if there.is_folder else None
            after = here.object_id if here.is_folder else None
            yield from self.folder(before, after, path + b"/")
        there = _ABSENT if there.is_folder else there
        here = _ABSENT if here.is_folder else here
        if there != here:
            yield Change(
                path,
                _status(there.mode, here.mode),
                there.mode,
                here.mode,
                BlobId(there.object_id),
                BlobId(here.object_id),
            )


def _status(there: str, here: str) -> ChangeStatus:
    if there == ABSENT_MODE:
        return ChangeStatus.ADDED
    if here == ABSENT_MODE:
        return ChangeStatus.DELETED
    same_kind = there[:_KIND_DIGITS] == here[:_KIND_DIGITS]
    return ChangeStatus.MODIFIED if same_kind else ChangeStatus.TYPE_CHANGED
