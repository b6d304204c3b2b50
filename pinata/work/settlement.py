"""What a call answers that carried a run to its end."""

from collections.abc import Sequence

import trio

from engine.store import RunFolder
from pinata.work.context import Context
from pinata.work.evidence import record_evidence
from pinata.work.history import read_run
from pinata.work.owned_run import Answer
from pinata.work.run_answer import summarize
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
    told = [*summary.get("notices", ()), *notices, *written.get("notices", ())]
    return summary | {"notices": told} if told else summary
