"""The command that gives up what runs left; it stands beside the tools, for whoever can confirm."""

from typing import Annotated

from pydantic import Field

from engine.records.fields import Many
from engine.records.request import Request
from pinata.tools.registry import GC, Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.gc import collect_garbage


class GcRequest(Request):
    """Whether to remove anything, and which changes are not wanted."""

    confirm: Annotated[
        bool, Field(description="true removes; otherwise it is only told what would be removed")
    ] = False
    discard: Annotated[
        Many[RunPrefix],
        Field(description="an array of runs whose changes may be lost, each a run's id"),
    ] = ()


async def gc(context: Context, request: GcRequest) -> Answer:
    """Give up what may go of all runs of the repository, or tell what that is."""
    return await collect_garbage(context, confirm=request.confirm, discard=request.discard)


_GC = Tool(
    name=GC,
    description=(
        "Remove the worktrees and keep-refs of runs that are over, whose change is in the checkout "
        "or which changed nothing. Tells what would be removed, and why the rest stays, unless "
        "`confirm` is true. Results, logs, receipts and hand-offs stay."
    ),
    request=GcRequest,
    handler=gc,
    changes_state=True,
)
TOOLS = by_name(_GC)
