"""Refusals that name paths; apart from what they guard, which takes long to load."""

from collections.abc import Sequence

from engine.core.changes import quote_path
from engine.core.errors import ConflictError

_SHOWN_PATHS = 10


class UnmergedPathsError(ConflictError):
    """The index holds unmerged entries."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        self.paths = tuple(paths)
        super().__init__(
            f"these paths are unmerged: {shown_paths(self.paths)}; "
            "finish or abort the merge, then call again"
        )


def shown_paths(paths: Sequence[bytes]) -> str:
    """Return the first paths as text, and how many more there are."""
    shown = ", ".join(quote_path(path) for path in paths[:_SHOWN_PATHS])
    rest = len(paths) - _SHOWN_PATHS
    return f"{shown} and {rest} more" if rest > 0 else shown
