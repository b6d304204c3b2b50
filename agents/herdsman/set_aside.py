"""Sets a mailbox aside that cannot be read, as a person asks for: nothing of it is lost.

Its folder is moved as it is, in one step, to where no agent looks. Nobody may live in it: whoever
does would be there without a mailbox.
"""

import itertools
import os
from pathlib import Path

import trio

from agents.herdsman.errors import HerdError, broken, busy, invalid, not_found
from agents.herdsman.launches import end_orphans, left_launches
from agents.herdsman.mailbox import PATIENCE_S
from agents.herdsman.mailbox_folder import MailboxFolder
from agents.herdsman.mailbox_locks import claimed
from agents.herdsman.mailbox_names import is_folder_name
from agents.herdsman.premises import Premises
from agents.herdsman.record_form import UnreadableRecordError
from agents.herdsman.scan import scan
from engine.core.errors import PinataError, reason_of
from engine.core.quote import quote_value
from engine.system import faults, files


async def set_aside(premises: Premises, name: str) -> Path:
    """Move a mailbox that cannot be read to where it is in nobody's way.

    Args:
        premises: of the herd.
        name: of the mailbox's folder, as its diagnostic has it.

    Returns:
        Where it is then. Whoever moves it back under its own name has it as it was.

    Raises:
        HerdError: there is none (TARGET_NOT_FOUND, INVALID_REQUEST), or it can be read, or
            somebody is at work in it or may live in it (AGENT_BUSY): it is where it was. Or the
            machine failed (INTERNAL_FAILURE): it is in one of the two places.
    """
    if not is_folder_name(name):
        raise invalid(
            f"{quote_value(name)} is the name of no mailbox",
            next_action="give the name that agent_list shows: 32 hexadecimal digits",
        )
    folder = MailboxFolder.named(premises, name)
    try:
        await trio.to_thread.run_sync(_check_unreadable, folder)
        await end_orphans(premises)
        what = f"the mailbox {name}"
        async with (
            claimed(premises, folder.start_lock.name, what),
            claimed(premises, folder.lock_name, what, patience_s=PATIENCE_S),
        ):
            await trio.to_thread.run_sync(_check_unreadable, folder)
            await _check_left(premises, name)
            moved = await trio.to_thread.run_sync(_move, folder.path, premises.set_aside)
    except HerdError:
        raise
    except (PinataError, OSError) as error:
        raise broken(f"the mailbox {name} cannot be set aside: {reason_of(error)}") from error
    premises.signals.ring(str(folder.path))
    return moved


def _move(path: Path, place: Path) -> Path:
    """Move whatever stands at `path` into the folder `place`; return where it is then; blocks.

    What is there already is not replaced: nobody else moves this one, whose locks are held.

    Raises:
        ConflictError, OSError: it is in one of the two.
    """
    files.make_private_dir(place)
    numbers = itertools.count(2)
    target = place / path.name
    while os.path.lexists(target):
        target = place / f"{path.name}-{next(numbers)}"
    faults.point("herd.mailbox.set-aside")
    path.rename(target)
    faults.point("herd.mailbox.set-aside.moved")
    files.sync_dir(place)
    files.sync_dir(path.parent)
    return target


def _check_unreadable(folder: MailboxFolder) -> None:
    """Check that a mailbox is there and cannot be read; blocks."""
    name = folder.path.name
    if not os.path.lexists(folder.path):
        raise not_found(f"there is no mailbox {name}")
    try:
        contents = folder.read()
    except UnreadableRecordError:
        return
    if contents is None:
        raise not_found(f"the mailbox {name} is empty, and in nobody's way")
    raise busy(
        f"the mailbox {name} can be read: it is that of the agent {contents.state.of.label!r}",
        next_action="call agent_close for that agent",
    )


async def _check_left(premises: Premises, name: str) -> None:
    """Check that nobody lives in a mailbox that cannot be read.

    It does not say which agent it is of, so every agent that is there must have another one.
    """
    found = await scan(premises)
    known = {one.state.of.generation for one in found.contents}
    running = await trio.to_thread.run_sync(left_launches, premises)
    hosts = sorted({host for generation, host in running.items() if generation not in known})
    if hosts:
        raise busy(
            f"an agent may live in the mailbox {name}: one without a mailbox that can be read is "
            f"run by {', '.join(hosts)}",
            next_action="try again when it has started or ended; it ends with what runs it",
        )
