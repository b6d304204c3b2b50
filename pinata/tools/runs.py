"""The tools that start runs and take them over."""

import trio

from engine.records.job import JobRequest
from engine.records.request import Request
from engine.store import resolve_run
from pinata.tools.registry import RESUME, Answer, RunPrefix, Tool, by_name, with_notices
from pinata.tools.status import summarize
from pinata.work.conduct import conduct, resume as resume_run, taken_over
from pinata.work.context import Context
from pinata.work.creation import new_run
from pinata.work.history import read_run
from pinata.work.places import Places
from pinata.work.planning import changed_definitions, plan_run
from worktrees.discovery import discover


async def run(context: Context, request: JobRequest) -> Answer:
    """Start a run, wait for its end and return its summary."""
    started_in = context.base / (request.cwd or context.cwd)
    repository = await discover(started_in, context.environment)
    spec, definitions = await trio.to_thread.run_sync(plan_run, context, request, repository.root)
    async with new_run(context, spec, definitions, repository) as owned:
        await conduct(owned)
    stored = await trio.to_thread.run_sync(read_run, owned.folder)
    return await summarize(context, owned.places, stored)


class ResumeRequest(Request):
    """Which run to go on with."""

    run: RunPrefix


async def resume(context: Context, request: ResumeRequest) -> Answer:
    """Finish or close a run whose owner died, and return its summary."""
    repository = await discover(context.cwd, context.environment)
    places = Places.of(repository, context.environment)
    folder = await trio.to_thread.run_sync(resolve_run, places.common, request.run)
    async with taken_over(context, folder, context.cwd) as stored:
        notices: list[str] = []
        if stored.view.settled_at_ms is None:
            notices = await trio.to_thread.run_sync(changed_definitions, context, stored.record)
        await resume_run(context, stored)
    after = await trio.to_thread.run_sync(read_run, folder)
    return with_notices(await summarize(context, places, after), notices)


_RUN = Tool(
    name="pinata_run",
    description=(
        "Run a graph of agents on this repository. Scouts read the checkout, builders change the "
        "files they own in worktrees of their own, reviewers judge one builder's exact change. "
        "Nothing reaches the checkout: call pinata_integrate for that. Needs `approval` when a "
        "builder takes part. Waits for all tasks and returns their summaries; read each task's "
        "status, since a finished call may hold failed tasks."
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
