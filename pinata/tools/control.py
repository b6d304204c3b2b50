"""The tools that reach into a run at work: a message for an agent, and the end."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, TypeVar

import trio
from pydantic import Field

from engine.core.errors import ConflictError
from engine.core.events import Sender
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.records.fields import NotNull
from engine.records.link import Role
from engine.records.request import Request
from engine.store import RunFolder
from pinata.tools.registry import Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.ending import settled_error
from pinata.work.history import StoredRun, read_run
from pinata.work.link_client import LinkClient
from pinata.work.link_entry import LinkLostError, NoLinkError
from pinata.work.lookup import look_up_run
from pinata.work.owned_run import OwnedRun
from pinata.work.places import Places
from pinata.work.reach import reach
from pinata.work.unknown_task import UnknownTaskError
from worktrees.hygiene import Repository

Answered = TypeVar("Answered")
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
    repository, folder = await look_up_run(context, request.run)
    task, follow_up = TaskId(request.task), request.way == "followUp"
    owned = _owned(context, folder)
    if owned is not None:
        owned.steer(task, request.message, follow_up=follow_up)
    else:

        async def ask(link: LinkClient) -> None:
            await link.steer(task, request.message, follow_up=follow_up)

        elsewhere = _Elsewhere(context, repository, folder, partial(_refuse_steer, task=task))
        await elsewhere.ask(ask)
    return {"run": folder.run, "task": task, "delivered": request.way}


def _refuse_steer(stored: StoredRun, task: TaskId) -> None:
    status = _status(stored, task)
    if status.is_final:
        raise ConflictError(
            f"task '{task}' is {status.value}: only the agent of a running task can be steered"
        )


async def cancel(context: Context, request: CancelRequest) -> Answer:
    """Ask a run, or one task of it, to end."""
    repository, folder = await look_up_run(context, request.run)
    task = None if request.task is None else TaskId(request.task)
    owned = _owned(context, folder)
    if owned is not None:
        has_come = await owned.cancel(_REASON, task)
    else:

        async def ask(link: LinkClient) -> bool:
            return await link.cancel(task)

        elsewhere = _Elsewhere(context, repository, folder, partial(_refuse_cancel, task=task))
        has_come = await elsewhere.ask(ask)
    answer: Answer = {"run": folder.run} if task is None else {"run": folder.run, "task": task}
    return {**answer, "cancelled" if has_come else "requested": True}


def _refuse_cancel(stored: StoredRun, task: TaskId | None) -> None:
    if task is not None and _status(stored, task).is_final:
        raise settled_error(stored.folder.run, task, _status(stored, task))
    if stored.view.settled_at_ms is not None:
        raise settled_error(stored.folder.run, None, stored.view.status)


def _owned(context: Context, folder: RunFolder) -> OwnedRun | None:
    """Return the handle of a run that this process owns."""
    return None if context.runtime is None else context.runtime.find(folder.run)


def _status(stored: StoredRun, task: TaskId) -> Status:
    """Return how a task stands.

    Raises:
        UsageError: the run has no such task.
    """
    if task not in stored.facts:
        raise UnknownTaskError(task, stored.facts)
    return stored.facts[task].status


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A run that another process owns, or nobody.

    Attributes:
        refuse: raises if by its records nothing can be asked of the run.
    """

    context: Context
    repository: Repository
    folder: RunFolder
    refuse: Callable[[StoredRun], None]

    async def ask(self, ask: Callable[[LinkClient], Awaitable[Answered]]) -> Answered:
        """Return what the run's owner answers.

        Raises:
            PinataError: nobody owns the run, or its owner refuses.
        """
        self.refuse(await self._read())
        lock = Places.of(self.repository, self.context.environment).run_lock(self.folder.run)
        try:
            async with reach(self.folder, lock, role=_role(self.context)) as link:
                return await ask(link)
        except (NoLinkError, LinkLostError):
            # It may have ended meanwhile, which says more.
            self.refuse(await self._read())
            raise

    async def _read(self) -> StoredRun:
        return await trio.to_thread.run_sync(read_run, self.folder)


def _role(context: Context) -> Role:
    return "user" if context.sender is Sender.USER else "coordinator"


_STEER = Tool(
    name="pinata_steer",
    description=(
        "Send a message to the agent of a running task, to correct its course or to add what it "
        "should know. It reads it after its current turn or, `as` followUp, when it would "
        "otherwise stop. The message is recorded and shown to the task's reviewers. Answers "
        "`delivered` once the agent is bound to get it. Works on any run that still goes on, "
        "whichever process owns it; a task that has ended is changed with pinata_repair instead."
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
        "tells when that is done. What was finished before stays. Works on any run that goes on, "
        "whichever process owns it; a run that has ended is refused."
    ),
    request=CancelRequest,
    handler=cancel,
    changes_state=True,
)
TOOLS = by_name(_STEER, _CANCEL)
