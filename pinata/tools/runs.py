"""The tools that start runs and take them over."""

from functools import partial

import trio

from engine.core.outcome import Status
from engine.records.job import JobRequest
from engine.records.request import Request
from pinata.tools.carrying import carry, carry_in_background
from pinata.tools.registry import RESUME, Answer, RunPrefix, Tool, by_name, with_notices
from pinata.work.conduct import conduct
from pinata.work.context import Context
from pinata.work.creation import new_run
from pinata.work.homecoming import carry_on
from pinata.work.lookup import look_up_run
from pinata.work.planning import plan_run
from pinata.work.settlement import settle
from worktrees.discovery import discover


async def run(context: Context, request: JobRequest) -> Answer:
    """Start a run and wait for its end, or begin it in the background."""
    work = partial(_run, request=request)
    if not request.background:
        return await carry(context, work)
    begun = await carry_in_background(context, work)
    answer: Answer = {
        "run": begun.id,
        "dir": str(begun.folder),
        "status": Status.RUNNING.value,
        "background": True,
    }
    return with_notices(answer, begun.notices)


async def _run(context: Context, request: JobRequest) -> Answer:
    started_in = context.base / (request.cwd or context.cwd)
    repository = await discover(started_in, context.environment)
    spec, definitions = await trio.to_thread.run_sync(plan_run, context, request, repository.root)
    async with new_run(context, spec, definitions, repository) as owned:
        await conduct(owned)
        return await settle(context, repository, owned.folder)


class ResumeRequest(Request):
    """Which run to go on with."""

    run: RunPrefix


async def resume(context: Context, request: ResumeRequest) -> Answer:
    """Finish or close a run whose owner died, and return its summary."""
    return await carry(context, partial(_resume, request=request))


async def _resume(context: Context, request: ResumeRequest) -> Answer:
    _, folder = await look_up_run(context, request.run)
    return await carry_on(context, folder, context.cwd)


_RUN = Tool(
    name="pinata_run",
    description=(
        "Run a graph of agents on this repository. Scouts read the checkout, builders change the "
        "files they own in worktrees of their own, reviewers judge one builder's exact change, or "
        "with `reviewBase` or `reviewPr` a change that exists already. Nothing reaches the "
        "checkout: call pinata_integrate for that. pinata_agents tells whom tasks can name. Needs "
        "`approval` when a builder takes part, and a reviewer for each builder whose change shall "
        "be integrated. Waits for all tasks and returns their summaries; read each task's status, "
        "since a finished call may hold failed tasks: pinata_status tells more of one, and "
        "pinata_repair has a builder mend its change. With `background: true` it returns `run` at "
        "once and the run goes on: pinata_status tells how it stands, pinata_steer and "
        "pinata_cancel reach into it."
    ),
    request=JobRequest,
    handler=run,
    changes_state=True,
)
_RESUME = Tool(
    name=RESUME,
    description="Finish or close a run whose owner died.",
    request=ResumeRequest,
    handler=resume,
    changes_state=True,
)
TOOLS = by_name(_RUN, _RESUME)
