"""Keeping commits although Git's garbage collection may run at any time.

`git gc` deletes what no ref named when it looked. What was written before that and given a ref
after it is deleted all the same, and a ref without its objects breaks every later collection. So a
new ref counts once no collection is at work that may have looked before, and all is still there.
"""

import os
import socket
from pathlib import Path

import trio

from engine.core.errors import ExternalError
from engine.core.ids import CommitId
from worktrees.hygiene import Repository
from worktrees.machine import in_thread
from worktrees.objects import is_whole
from worktrees.refs import delete_refs, keep

# Nothing tells when it ends, so we look again after this long.
_PAUSE_S = 0.02


class CollectedError(ExternalError):
    """A garbage collection deleted what was about to be kept."""

    def __init__(self, ref: str) -> None:
        self.ref = ref
        super().__init__(
            f"a garbage collection deleted objects before {ref} kept them; call again once it ended"
        )


async def keep_whole(
    repo: Repository, ref: str, commit: CommitId, expect: CommitId | None = None
) -> None:
    """Make `ref` hold `commit`, and be sure that everything new in it stays.

    Waits for a collection that is at work. Unless this returns, the ref is as it was.

    Args:
        repo: where.
        ref: below `refs/pinata/`.
        commit: its first parent is kept already.
        expect: what the ref holds now; None when there is none yet.

    Raises:
        RefMovedError: the ref holds something else.
        CollectedError: a part of `commit` is gone.
    """
    await keep(repo, ref, commit, expect or "absent")
    try:
        await _ensure_kept(repo, ref, commit)
    except BaseException:
        with trio.CancelScope(shield=True):
            if expect is None:
                await delete_refs(repo, {ref: commit})
            else:
                await keep(repo, ref, expect, commit)
        raise


async def _ensure_kept(repo: Repository, ref: str, commit: CommitId) -> None:
    while await in_thread(_is_collecting, repo.common_dir / "gc.pid"):  # noqa: ASYNC110 - not ours
        await trio.sleep(_PAUSE_S)
    if not await is_whole(repo, commit):
        raise CollectedError(ref)


def _is_collecting(note: Path) -> bool:
    """Return whether the process that wrote `note`, its id and its host's name, is alive.

    Source: builtin/gc.c. A collection that was killed leaves its note behind.
    """
    try:
        pid, host = note.read_text("utf-8", "replace").split()
    except (FileNotFoundError, ValueError):
        return False
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
