"""Finds the runs that a caller means, in the repository that the caller stands in."""

from functools import partial
from pathlib import Path
from typing import Any

import trio

from agents.transcript import SaidMessage
from engine.core.ids import TaskId
from engine.store import RunFolder, resolve_run
from pinata.work import viewed
from pinata.work.context import Context
from pinata.work.conversation import read_conversation
from pinata.work.history import find_run, outlines, read_run
from pinata.work.places import Places
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


async def find_latest(context: Context, prefix: str | None) -> RunFolder | None:
    """Return the run that `prefix` names, or without one the latest; None when there is none.

    Raises:
        PinataError: no such run, or what had to be read to find it is damaged.
    """
    repository = await discover(context.cwd, context.environment)
    return await trio.to_thread.run_sync(find_run, repository.common_dir, prefix)


async def find_viewed(context: Context, prefix: str | None) -> tuple[RunFolder, Path] | None:
    """Return the run that a viewer means, and its lock; see `pinata.work.viewed.find_viewed`.

    Raises:
        PinataError: no such run, or every run is damaged.
    """
    repository = await discover(context.cwd, context.environment)
    folder = await trio.to_thread.run_sync(viewed.find_viewed, repository.common_dir, prefix)
    if folder is None:
        return None
    return folder, Places.of(repository, context.environment).run_lock(folder.run)


async def outline_runs(context: Context) -> dict[str, Any]:
    """Return all `runs` of the repository in a few words; see `pinata.work.history.outlines`.

    Raises:
        PinataError: the caller stands in no repository.
    """
    repository = await discover(context.cwd, context.environment)
    return {"runs": await trio.to_thread.run_sync(outlines, repository.common_dir)}


async def look_up_conversation(
    context: Context, prefix: str, task: str, attempt: int | None
) -> tuple[SaidMessage, ...]:
    """Return all that was said in an attempt at a task, the newest one without a number.

    Raises:
        UsageError: there is no such run, task or attempt, or nothing was said in it yet.
        CorruptionError: what is stored is damaged.
    """
    _, folder = await look_up_run(context, prefix)
    stored = await trio.to_thread.run_sync(read_run, folder)
    tasks = [each.id for each in stored.spec.tasks]
    read = partial(read_conversation, folder, tasks, stored.view, TaskId(task), attempt)
    return await trio.to_thread.run_sync(read)
