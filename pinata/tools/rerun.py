"""The command that starts again what was lost; it stands beside the tools."""

from functools import partial

import trio

from engine.records.request import Request
from pinata.tools.carrying import carry
from pinata.tools.registry import RERUN, Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.lookup import look_up_run
from pinata.work.planning import changed_definitions
from pinata.work.rerun import rerun as rerun_lost
from pinata.work.settlement import settle
from pinata.work.takeover import taken_over


class RerunRequest(Request):
    """Of which run to start again what was lost."""

    run: RunPrefix


async def rerun(context: Context, request: RerunRequest) -> Answer:
    """Start what was lost of a run again, wait for the run's end and return its summary."""
    return await carry(context, partial(_rerun, request=request))


async def _rerun(context: Context, request: RerunRequest) -> Answer:
    repository, folder = await look_up_run(context, request.run)
    async with taken_over(context, folder, context.cwd) as stored:
        notices = await trio.to_thread.run_sync(changed_definitions, context, stored.record)
        await rerun_lost(context, stored)
        return await settle(context, repository, folder, notices)


_RERUN = Tool(
    name=RERUN,
    description="Start again what a run lost when its process died, and all that depends on it.",
    request=RerunRequest,
    handler=rerun,
    changes_state=True,
)
TOOLS = by_name(_RERUN)
