"""Moving a worktree's folder out of everybody's way, and back; all of this blocks.

A folder that was set aside may still be somebody's, and goes back. One that is condemned is
nobody's and is deleted, now or by whoever finds it. The two have different names, so a process that
dies in between leaves no doubt.
"""

import os
from pathlib import Path

from engine.system.faults import point
from worktrees.registration import delete_tree, remaining_of


def aside_of(path: Path) -> Path:
    """Return where the folder of a worktree is while it is found out whether it may go."""
    return path.with_name(f".{path.name}.aside")


def standing_at(path: Path) -> Path:
    """Return where the folder of the worktree at `path` is: there, or set aside."""
    aside = aside_of(path)
    return aside if os.path.lexists(aside) and not os.path.lexists(path) else path


def set_aside(path: Path) -> None:
    """Move the folder of a worktree to where nobody looks for it.

    Raises:
        OSError: there is none, something is there already, or the machine refused.
    """
    path.rename(aside_of(path))
    point("lease.set_aside")


def put_back(path: Path) -> bool:
    """Move a folder that was set aside to its place; return whether none is aside any more.

    Raises:
        OSError: the machine refused.
    """
    if standing_at(path) != path:
        aside_of(path).rename(path)
        point("lease.put_back")
    return not os.path.lexists(aside_of(path))


def condemn(path: Path) -> None:
    """Have a folder that was set aside deleted by the next who comes across it."""
    delete_tree(remaining_of(path))
    aside_of(path).rename(remaining_of(path))
    point("lease.condemned")
