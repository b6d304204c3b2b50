"""The tool that hands over approved changes without applying them."""

import trio

from engine.records.request import Request
from pinata.tools.registry import Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.handoff import hand_off
from pinata.work.history import read_run
from pinata.work.lookup import look_up_run


class ChangesRequest(Request):
    """Which run's changes to hand over."""

    run: RunPrefix


async def changes(context: Context, request: ChangesRequest) -> Answer:
    """Return the manifest of a run's approved changes."""
    repository, folder = await look_up_run(context, request.run)
    stored = await trio.to_thread.run_sync(read_run, folder)
    return await hand_off(context, repository, stored)


_CHANGES = Tool(
    name="pinata_changes",
    description=(
        "Return what a run's builders changed, as a manifest that never changes: per builder its "
        "base, result tree, fingerprint, changed files, a patch that `git apply` takes, check "
        "evidence and the reviews that approved it. Every task must have succeeded and every "
        "builder must have current approvals. The checkout is left alone; to apply, call "
        "pinata_integrate. To check a checkout that you changed yourself, call pinata_verify."
    ),
    request=ChangesRequest,
    handler=changes,
    changes_state=True,
)
TOOLS = by_name(_CHANGES)
