"""The tools that change the checkout, under a journal."""

from typing import Annotated, Literal

from pydantic import Field

from engine.records.request import Request
from pinata.tools.registry import Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.integration import integrate as integrate_run, roll_back
from pinata.work.lookup import look_up_run


class IntegrateRequest(Request):
    """Which run to integrate."""

    run: RunPrefix


class RollbackRequest(Request):
    """Which run to roll back, and that it is meant."""

    run: RunPrefix
    confirm: Annotated[Literal[True], Field(description="true, since files will be changed")]


async def integrate(context: Context, request: IntegrateRequest) -> Answer:
    """Apply the approved change of a run and verify it."""
    _, folder = await look_up_run(context, request.run)
    return await integrate_run(context, folder, context.cwd)


async def rollback(context: Context, request: RollbackRequest) -> Answer:
    """Take an integration back."""
    _, folder = await look_up_run(context, request.run)
    return await roll_back(context, folder, context.cwd)


_INTEGRATE = Tool(
    name="pinata_integrate",
    description=(
        "Apply the approved change of a run to the checkout it was started from and run its "
        "`integratedChecks` there; pinata_changes shows it beforehand. Refuses before it writes "
        "anything when a task did not succeed, a review is missing or stale, or an affected file "
        "changed since the run began. Never stages or commits. `status` is verified, "
        "applied_unverified (there are no checks) or "
        "verification_failed: then look at `checks`, and mend the checkout or call "
        "pinata_rollback. An interrupted integration is completed by calling again."
    ),
    request=IntegrateRequest,
    handler=integrate,
    changes_state=True,
)
_ROLLBACK = Tool(
    name="pinata_rollback",
    description=(
        "Take back what pinata_integrate did: return every file that it changed to exactly what "
        "it was before, uncommitted edits included. All or nothing: refuses when HEAD, the index "
        "or one of the files changed since. Needs `confirm: true`."
    ),
    request=RollbackRequest,
    handler=rollback,
    changes_state=True,
)
TOOLS = by_name(_INTEGRATE, _ROLLBACK)
