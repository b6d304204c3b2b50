"""The tool that has a builder mend its change."""

from functools import partial
from typing import Annotated

import trio
from pydantic import Field

from engine.core.errors import UsageError
from engine.records.request import Request
from pinata.tools.carrying import carry
from pinata.tools.registry import Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.lookup import look_up_run
from pinata.work.planning import changed_definitions
from pinata.work.repair import repair as repair_task
from pinata.work.settlement import settle
from pinata.work.takeover import taken_over

MAX_FEEDBACK_BYTES = 64 << 10


class RepairRequest(Request):
    """Which task to repair, and what to mend."""

    run: RunPrefix
    task: Annotated[str, Field(min_length=1, description="the id of a builder of the run")]
    feedback: Annotated[str, Field(min_length=1, description="text that says what to mend")]


async def repair(context: Context, request: RepairRequest) -> Answer:
    """Rerun a builder with feedback, wait for the run's end and return its summary."""
    if not request.feedback.strip():
        raise UsageError("feedback: is blank: say what to mend")
    if len(request.feedback.encode("utf-8", "replace")) > MAX_FEEDBACK_BYTES:
        limit = f"{MAX_FEEDBACK_BYTES >> 10} KiB"
        raise UsageError(f"feedback: is longer than {limit}: put the rest into a file")
    return await carry(context, partial(_repair, request=request))


async def _repair(context: Context, request: RepairRequest) -> Answer:
    repository, folder = await look_up_run(context, request.run)
    async with taken_over(context, folder, context.cwd) as stored:
        notices = await trio.to_thread.run_sync(changed_definitions, context, stored.record)
        await repair_task(context, stored, request.task, request.feedback)
        return await settle(context, repository, folder, notices)


_REPAIR = Tool(
    name="pinata_repair",
    description=(
        "Rerun a builder of a run that has ended, in its worktree and with your feedback; it mends "
        "its change, and its reviews run again, since earlier approvals are void. Allowed at most "
        "`limits.repairs` times for each builder, and only while nothing but reviews was done with "
        "its result. Waits for the end and returns the summaries of all tasks, as pinata_run does."
    ),
    request=RepairRequest,
    handler=repair,
    changes_state=True,
)
TOOLS = by_name(_REPAIR)
