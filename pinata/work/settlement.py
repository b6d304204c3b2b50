"""What a call answers that carried a run to its end."""

from collections.abc import Sequence

import trio

from engine.store import RunFolder
from pinata.work.context import Context
from pinata.work.evidence import record_evidence
from pinata.work.history import read_run
from pinata.work.host_client import nudge
from pinata.work.owned_run import Answer
from pinata.work.run_answer import summarize
from pinata.work.session import Session
from worktrees.hygiene import Repository


async def settle(
    context: Context, repository: Repository, folder: RunFolder, notices: Sequence[str] = ()
) -> Answer:
    """Write the evidence of a run that this process owns, and return the run's summary.

    Args:
        context: the caller's.
        repository: the run's.
        folder: the run's.
        notices: what else the caller should know.
    """
    stored = await trio.to_thread.run_sync(read_run, folder)
    written = await record_evidence(context, repository, stored)
    shown = await trio.to_thread.run_sync(context.cache.read, folder)
    summary = await summarize(context, repository, shown)
    await _nudge(context, stored.record.session)
    told = [*summary.get("notices", ()), *notices, *written.get("notices", ())]
    return summary | {"notices": told} if told else summary


async def _nudge(context: Context, key: str | None) -> None:
    """Have the session that started the run be told of its end, unless it is who calls."""
    if key is None or (context.session is not None and context.session.key == key):
        return
    await nudge(Session.of(key, context.environment))
