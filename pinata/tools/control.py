"""The tools that reach into a run at work: a message for an agent, and the end."""

from typing import Annotated, Literal

import trio
from pydantic import Field

from engine.core.errors import ConflictError
from engine.core.ids import TaskId
from engine.records.fields import NotNull
from engine.records.request import Request
from engine.store import RunFolder
from engine.system.holder import read_live_holder
from pinata.tools.registry import Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.ending import settled_error
from pinata.work.history import StoredRun, read_run
from pinata.work.lookup import look_up_run
from pinata.work.owned_run import OwnedRun
from pinata.work.places import Places
from pinata.work.unknown_task import UnknownTaskError

_REASON = "cancelled by the coordinator"


class SteerRequest(Request):
    """Whom to tell what."""

    run: RunPrefix
    task: Annotated[str, Field(min_length=1, description="the id of a running task")]
    message: Annotated[
        str, Field(min_length=1, description="text of at most 64 KiB for the task's agent")
    ]
    way: Annotated[
        Literal["steer", "followUp"],
        Field(
            alias="as",
            description='"steer" to be read after the current turn, or "followUp" to be read once '
            "the agent would otherwise stop",
        ),
    ] = "steer"


class CancelRequest(Request):
    """What to end."""

    run: RunPrefix
    task: Annotated[
        str | None,
        NotNull(),
        Field(min_length=1, description="the id of a task of the run; the whole run without it"),
    ] = None


async def steer(context: Context, request: SteerRequest) -> Answer:
    """Leave a message for a running agent."""
    folder, owned = await _find(context, request.run)
    task = TaskId(request.task)
    if owned is None:
        stored = await _stored(folder, task)
        status = stored.facts[task].status
        if status.is_final:
            raise ConflictError(
                f"task '{task}' is {status.value}: only the agent of a running task can be steered"
            )
        raise await _not_ours(context, stored, "steer")
    owned.steer(task, request.message, follow_up=request.way == "followUp")
    return {"run": folder.run, "task": task, "delivered": request.way}


async def cancel(context: Context, request: CancelRequest) -> Answer:
    """Ask a run, or one task of it, to end."""
    folder, owned = await _find(context, request.run)
    task = None if request.task is None else TaskId(request.task)
    if owned is None:
        stored = await _stored(folder, task)
        if task is not None and stored.facts[task].status.is_final:
            raise settled_error(folder.run, task, stored.facts[task].status)
        if stored.view.settled_at_ms is not None:
            raise settled_error(folder.run, None, stored.view.status)
        raise await _not_ours(context, stored, "cancel")
    has_come = await owned.cancel(_REASON, task)
    answer: Answer = {"run": folder.run} if task is None else {"run": folder.run, "task": task}
    return {**answer, "cancelled" if has_come else "requested": True}


async def _find(context: Context, prefix: str) -> tuple[RunFolder, OwnedRun | None]:
    """Return the run that is meant, and its handle if this process owns it."""
    _, folder = await look_up_run(context, prefix)
    return folder, None if context.runtime is None else context.runtime.find(folder.run)


async def _stored(folder: RunFolder, task: TaskId | None) -> StoredRun:
    """Return what is stored of a run.

    Raises:
        UsageError: it has no such task.
    """
    stored = await trio.to_thread.run_sync(read_run, folder)
    if task is not None and task not in stored.facts:
        raise UnknownTaskError(task, stored.facts)
    return stored


async def _not_ours(context: Context, stored: StoredRun, verb: str) -> ConflictError:
    """Return the refusal to reach into a run that goes on elsewhere, or nowhere."""
    run = stored.folder.run
    repository, _ = await look_up_run(context, run)
    lock = Places.of(repository, context.environment).run_lock(run)
    holder = await trio.to_thread.run_sync(read_live_holder, lock)
    if holder is None:
        return ConflictError(
            f"no live process owns run {run}, so nothing of it is running: "
            f"`pinata resume {run}` finishes or closes it"
        )
    return ConflictError(f"run {run} is owned by {holder}: {verb} it where it was started")


_STEER = Tool(
    name="pinata_steer",
    description=(
        "Send a message to the agent of a running task, to correct its course or to add what it "
        "should know. It reads it after its current turn or, `as` followUp, when it would "
        "otherwise stop. The message is recorded and shown to the task's reviewers. Answers "
        "`delivered` once the agent is bound to get it. Works on runs that this session started "
        "with `background` and that still go on; a task that has ended is changed with "
        "pinata_repair instead."
    ),
    request=SteerRequest,
    handler=steer,
    changes_state=True,
)
_CANCEL = Tool(
    name="pinata_cancel",
    description=(
        "End a run that is going on, or with `task` one task of it; tasks that wait for a "
        "cancelled one are blocked, and the others go on. Answers `cancelled: true` if it has "
        "ended already, or `requested: true` while agents are still being ended: pinata_status "
        "tells when that is done. What was finished before stays. Works on runs that this session "
        "started with `background`; a run that has ended is refused."
    ),
    request=CancelRequest,
    handler=cancel,
    changes_state=True,
)
TOOLS = by_name(_STEER, _CANCEL)
