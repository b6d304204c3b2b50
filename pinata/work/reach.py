"""Reaches the process that owns a run, also one that has only just begun to."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio

from engine.core.errors import HeldElsewhereError
from engine.core.ids import RunId
from engine.records.link import Role
from engine.store import RunFolder
from engine.system.holder import read_live_holder
from pinata.work.link_client import LinkClient, open_link
from pinata.work.link_entry import NoLinkError

# An owner needs a moment between its claim and its socket, and so does the next one.
_PATIENCE_S = 2.0
_PAUSE_S = 0.05


class UnreachableError(HeldElsewhereError):
    """A live process owns the run and lets nobody in."""

    def __init__(self, run: RunId, holder: str) -> None:
        super().__init__(f"run {run}", f"{holder}, which lets nobody in: try again in a moment")


@asynccontextmanager
async def reach(folder: RunFolder, lock: Path, *, role: Role) -> AsyncIterator[LinkClient]:
    """Be connected, inside the block, to the process that owns a run.

    Args:
        folder: the run's.
        lock: held by whoever owns the run.
        role: see `open_link`.

    Raises:
        NoLinkError: nobody owns the run.
        UnreachableError: somebody does, and does not let this process in.
        LinkLostError: somebody does, and does not answer.
    """
    async with AsyncExitStack() as stack:
        yield await _enter(stack, folder, lock, role)


async def _enter(stack: AsyncExitStack, folder: RunFolder, lock: Path, role: Role) -> LinkClient:
    deadline_s = trio.current_time() + _PATIENCE_S
    while True:
        try:
            return await stack.enter_async_context(open_link(folder, role=role))
        except NoLinkError:
            holder = await trio.to_thread.run_sync(read_live_holder, lock)
            if holder is None:
                raise
        if trio.current_time() >= deadline_s:
            raise UnreachableError(folder.run, holder)
        await trio.sleep(_PAUSE_S)
