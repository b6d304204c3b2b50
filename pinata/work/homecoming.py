"""What a session's host looks after when it starts: runs of the session whose owner died.

It warns of managed agents that work in the session, too.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import trio

from engine.core.errors import HeldElsewhereError, PinataError
from engine.store import RunFolder
from pinata.work.accounts import Accounts
from pinata.work.blocking import in_thread
from pinata.work.context import Context
from pinata.work.herd_intrusion import tell_agents_within
from pinata.work.observer import Observer
from pinata.work.owed import Owed
from pinata.work.owned_run import Answer
from pinata.work.planning import changed_definitions
from pinata.work.resumption import resume
from pinata.work.session import Session
from pinata.work.settlement import settle
from pinata.work.takeover import taken_over
from worktrees.discovery import discover


async def come_home(context: Context, session: Session) -> Sequence[str]:
    """Take over what nobody alive owns of a session's runs, and carry it on in the background.

    What worked when the owner died is cancelled, and the rest goes on. A run that is owned
    elsewhere is left alone, and one that cannot be taken over stays as it is.

    Args:
        context: has the runtime that carries the runs on.
        session: its lock is held by this process.

    Returns:
        What the session should know: of agents that work in it, then of each of these runs, in the
        order of their ids.

    Raises:
        ExternalError: the session's folder cannot be read.
    """
    intrusions = await tell_agents_within(context, session)
    unsettled = await _unsettled(context, session)
    notices = dict.fromkeys((owed.run for owed in unsettled), "")
    async with trio.open_nursery() as nursery:
        for owed in unsettled:

            async def look_after(owed: Owed = owed) -> None:
                notices[owed.run] = await _look_after(context, owed)

            nursery.start_soon(look_after)
    return [*intrusions, *(says for says in notices.values() if says)]


async def carry_on(context: Context, folder: RunFolder, root: Path) -> Answer:
    """Take a run over, bring it to its end and return its summary.

    One that has settled stays as it is; its evidence is written again if it is missing.

    Args:
        context: the caller's.
        folder: the run's.
        root: any working tree of the repository.

    Raises:
        PinataError: a live process owns it, or it cannot go on.
    """
    repository = await discover(root, context.environment)
    async with taken_over(context, folder, root) as stored:
        notices: list[str] = []
        if stored.view.settled_at_ms is None:
            notices = await trio.to_thread.run_sync(changed_definitions, context, stored.record)
        await resume(context, stored)
        return await settle(context, repository, folder, notices)


async def _unsettled(context: Context, session: Session) -> list[Owed]:
    """Return the session's runs that have not settled and are not under way here."""
    assert context.runtime is not None
    busy = context.runtime.runs
    found = await in_thread(
        lambda: [owed for owed in Accounts(session).look(busy) if _is_open(owed)],
        "cannot look for runs of the session that nobody owns",
    )
    return sorted(found, key=lambda owed: owed.run)


def _is_open(owed: Owed) -> bool:
    return owed.damage is None and not owed.is_settled


async def _look_after(context: Context, owed: Owed) -> str:
    """Return what to tell of a run once it is carried on, or cannot be."""
    assert context.runtime is not None
    assert owed.folder is not None
    assert owed.root is not None
    begun = context.runtime.start_in_background(_work(context, owed.folder, owed.root))
    try:
        opened = await begun.wait_begun()
    except HeldElsewhereError as error:
        return f"run {owed.run} goes on in {error.holder}, which owns it; it is left alone here"
    except PinataError as error:
        return f"run {owed.run} has no live owner and cannot be carried on here: {error}"
    if opened is None:
        return ""
    return f"run {owed.run} had lost its owner and goes on here; its end will be told"


def _work(
    context: Context, folder: RunFolder, root: Path
) -> Callable[[Observer], Awaitable[Answer]]:
    return lambda observer: carry_on(replace(context, observer=observer), folder, root)
