"""Finds the run that a caller means, in the repository that the caller stands in."""

import trio

from engine.store import RunFolder, resolve_run
from pinata.work.context import Context
from worktrees.discovery import discover
from worktrees.hygiene import Repository


async def look_up_run(context: Context, prefix: str) -> tuple[Repository, RunFolder]:
    """Return the caller's repository and the run whose id is or begins with `prefix`.

    Raises:
        UsageError: no run's id does, or several do.
        ConflictError: the caller stands in no repository.
    """
    repository = await discover(context.cwd, context.environment)
    return repository, await trio.to_thread.run_sync(resolve_run, repository.common_dir, prefix)
