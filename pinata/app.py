"""Builds the real parts and hands them over; the one place that knows how a face reaches a tool."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from engine.core.errors import ConflictError, UsageError
from engine.system import strays
from engine.system.clock import SystemClock
from pinata.tools.destination import INTEGRATE, ROLLBACK
from pinata.tools.registry import Answer, Tool
from pinata.tools.runs import RUN, STATUS, summarize
from pinata.work.conduct import resume, taken_over
from pinata.work.context import Context, Observer
from pinata.work.history import StoredRun, find_run, read_run
from pinata.work.places import Places
from worktrees.discovery import discover

TOOLS: Final[Mapping[str, Tool[Any]]] = {
    tool.name: tool for tool in (RUN, STATUS, INTEGRATE, ROLLBACK)
}
_AGENT_MARK = "PINATA_AGENT"


def build_context(
    environment: Mapping[str, str], cwd: Path, observer: Observer, *, base: Path | None = None
) -> Context:
    """Return the surroundings of a call made from `cwd`; see `Context` for `base`."""
    shells = (shutil.which(name, path=environment.get("PATH")) for name in ("bash", "sh"))
    return Context(
        environment=environment,
        shell=next((found for found in shells if found), "/bin/sh"),
        cwd=cwd,
        base=base or cwd,
        clock=SystemClock(),
        holder=f"pinata {os.getpid()}",
        observer=observer,
    )


def adopt_orphans() -> None:
    """Let what children of this process leave behind come back to it, so that it can be ended.

    Raises:
        ExternalError: the kernel refused.
    """
    strays.become_subreaper()


def refuse_agents(environment: Mapping[str, str]) -> None:
    """Refuse a call that would change something on behalf of an agent.

    Raises:
        ConflictError: the environment is an agent's, or a check's.
    """
    if environment.get(_AGENT_MARK) == "1":
        raise ConflictError(
            "this is an agent's or a check's environment (PINATA_AGENT=1): "
            "only the coordinator may change anything"
        )


async def call_tool(context: Context, name: str, arguments: object) -> Answer:
    """Call a tool by name.

    Raises:
        PinataError: the arguments do not fit, the call was refused, or it failed.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise UsageError(f"unknown tool '{name}': the tools are {', '.join(TOOLS)}")
    if tool.changes_state:
        refuse_agents(context.environment)
    return await tool.call(context, arguments)


async def resume_run(context: Context, prefix: str) -> Answer:
    """Finish or close a run whose owner died, and return its summary.

    Raises:
        PinataError: a live process owns it, or it cannot go on.
    """
    refuse_agents(context.environment)
    repository = await discover(context.cwd, context.environment)
    places = Places.of(repository, context.environment)
    folder = await trio.to_thread.run_sync(find_run, places.common, prefix)
    assert folder is not None
    async with taken_over(context, folder, context.cwd) as stored:
        await resume(context, stored)
    return await trio.to_thread.run_sync(lambda: summarize(context, places, read_run(folder)))


async def read_stored(context: Context, prefix: str | None) -> StoredRun | None:
    """Return what is stored of a run, or of the latest; None when there is none.

    Raises:
        PinataError: no such run, or it is damaged.
    """
    repository = await discover(context.cwd, context.environment)
    folder = await trio.to_thread.run_sync(find_run, repository.common_dir, prefix)
    return None if folder is None else await trio.to_thread.run_sync(read_run, folder)
