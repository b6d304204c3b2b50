"""Composing a base out of a tree and the changes of predecessors, without a checkout."""

from collections.abc import Sequence

from engine.core.changes import ABSENT_MODE, Change, quote_path
from engine.core.errors import ConflictError
from engine.core.ids import TaskId, TreeId
from worktrees.hygiene import Repository
from worktrees.objects import ObjectStore, PathOccupiedError, TreeEntry, with_objects


class PathConflictError(ConflictError):
    """A predecessor's change does not find its path as the predecessor saw it."""

    def __init__(self, path: bytes, task: TaskId) -> None:
        self.path = path
        self.task = task
        super().__init__(
            f"the change that task {task!r} made to {quote_path(path)} does not fit here: "
            "another task changed the same path; order the two tasks or join them"
        )


async def compose(
    repo: Repository, base: TreeId, changes: Sequence[tuple[TaskId, Sequence[Change]]]
) -> TreeId:
    """Return the tree that `base` becomes when each predecessor's changes are made in order.

    Nothing is merged: a change must find its path exactly as the predecessor saw it, or as an
    earlier one of the list left it. The tree is stored, and no ref keeps it yet.

    Args:
        repo: where.
        base: the snapshot's tree.
        changes: predecessors before dependents, each with its captured changes.

    Raises:
        PathConflictError: naming the first path that was found otherwise, and whose change it was.
    """
    return await with_objects(repo, lambda store: _compose(store, base, changes))


def _compose(
    store: ObjectStore, base: TreeId, changes: Sequence[tuple[TaskId, Sequence[Change]]]
) -> TreeId:
    tree = base
    for task, made in changes:
        for change in made:
            found = store.find(tree, change.path)
            # A folder may be about to give way to a file; whether it does shows further down.
            if (None if found is not None and found.is_folder else found) != _seen(change):
                raise PathConflictError(change.path, task)
        try:
            tree = store.edit(tree, {change.path: _left(change) for change in made})
        except PathOccupiedError as error:
            raise PathConflictError(error.path, task) from error
    return tree


def _seen(change: Change) -> TreeEntry | None:
    if change.old_mode == ABSENT_MODE:
        return None
    return TreeEntry(change.old_mode, change.old_blob)


def _left(change: Change) -> TreeEntry | None:
    if change.new_mode == ABSENT_MODE:
        return None
    return TreeEntry(change.new_mode, change.new_blob)
