"""The net effect of several writers on one checkout, path by path."""

from collections.abc import Sequence

from engine.core.changes import ABSENT_MODE, Change, ChangeStatus, quote_path
from engine.core.errors import ConflictError
from engine.core.ids import TaskId


class BrokenSequenceError(ConflictError):
    """A writer's change does not start where the previous writer's ended."""

    def __init__(self, task: TaskId, path: bytes) -> None:
        self.task = task
        self.path = path
        super().__init__(
            f"task {task}: its change to {quote_path(path)} does not start where the earlier "
            f"change to that path ended: run it again after the other"
        )


def net_changes(steps: Sequence[tuple[TaskId, Sequence[Change]]]) -> tuple[Change, ...]:
    """Return one change per path that has the effect of all `steps` in order, sorted by path.

    A path that ends as it began is left out.

    Raises:
        BrokenSequenceError: a step sees something else at a path than the step before it left.
    """
    net: dict[bytes, Change] = {}
    for task, changes in steps:
        for change in changes:
            earlier = net.get(change.path)
            if earlier is None:
                net[change.path] = change
                continue
            if (earlier.new_mode, earlier.new_blob) != (change.old_mode, change.old_blob):
                raise BrokenSequenceError(task, change.path)
            net[change.path] = _joined(earlier, change)
    kept = (c for c in net.values() if (c.old_mode, c.old_blob) != (c.new_mode, c.new_blob))
    return tuple(sorted(kept, key=lambda change: change.path))


def _joined(first: Change, second: Change) -> Change:
    return Change(
        path=first.path,
        status=_status(first.old_mode, second.new_mode),
        old_mode=first.old_mode,
        new_mode=second.new_mode,
        old_blob=first.old_blob,
        new_blob=second.new_blob,
    )


def _status(old_mode: str, new_mode: str) -> ChangeStatus:
    if old_mode == ABSENT_MODE:
        return ChangeStatus.ADDED
    if new_mode == ABSENT_MODE:
        return ChangeStatus.DELETED
    # The first three digits name the type: a file, a symbolic link or a submodule.
    return ChangeStatus.MODIFIED if old_mode[:3] == new_mode[:3] else ChangeStatus.TYPE_CHANGED
