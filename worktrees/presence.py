"""Whether a working tree holds certain results, judged as Git would store what lies there."""

from collections.abc import Mapping
from pathlib import Path

import trio

from worktrees.apply_stage import StoredFile, changed_files
from worktrees.apply_state import machine_failures
from worktrees.folders import Folders
from worktrees.hygiene import Repository


async def differing_paths(
    repo: Repository, results: Mapping[bytes, StoredFile | None], index: Path
) -> tuple[bytes, ...]:
    """Return the paths of `results`, sorted, that do not hold now what stands there for them.

    Args:
        repo: whose working tree is looked at.
        results: what each path should hold; None when nothing should be there.
        index: where a private index may be written; nothing is left there.
    """
    present = [stored for stored in results.values() if stored is not None]
    misplaced = await trio.to_thread.run_sync(_misplaced, repo.root, results)
    changed = await changed_files(repo, present, index)
    return tuple(sorted(changed | misplaced))


def _misplaced(root: Path, results: Mapping[bytes, StoredFile | None]) -> frozenset[bytes]:
    """Return the paths that are there and should not be, or should be and are not."""
    with machine_failures("the checkout could not be looked at"), Folders(root) as folders:
        return frozenset(
            path
            for path, stored in results.items()
            if (stored is None) is not folders.is_free(path)
        )
