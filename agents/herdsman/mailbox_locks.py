"""The locks that keep calls on the same agents apart; mailboxes and labels have theirs by them.

They are taken in this order, and never an earlier one while a later one is held: delegation,
activation, startup, label, mailbox, lifecycle. The kernel lets go of those of a process that dies.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from agents.herdsman.errors import HerdError, broken, busy, label_exists
from agents.herdsman.identity import Label, SessionId
from agents.herdsman.premises import Premises
from engine.core.errors import HeldElsewhereError, PinataError, reason_of
from engine.system import locks
from engine.system.files import make_private_dir

# How long to wait for another start or end of an agent in the same workspace.
LIFECYCLE_PATIENCE_S: Final = 30.0
_DIGEST_CHARS: Final = 32


def refuse_busy(reason: str) -> HerdError:
    """Return that somebody has the lock, and that it will not be for long."""
    return busy(reason, next_action="try again in a moment")


def delegation_lock(
    premises: Premises, workspace: str, session: SessionId
) -> AbstractAsyncContextManager[None]:
    """Return what keeps a session that works for another from changing what works for it.

    Raises:
        HerdError: AGENT_BUSY, on entering: it changes it now, or is being closed.
    """
    name = f"delegation-{_digest(workspace, session)}.lock"
    return claimed(premises, name, f"what works for session {session}")


@asynccontextmanager
async def activation_lock(premises: Premises, session_file: str) -> AsyncIterator[None]:
    """Have a saved session, by whatever path it is reached, to oneself inside the block.

    Raises:
        HerdError: AGENT_BUSY: somebody continues it now.
    """
    real = await trio.to_thread.run_sync(os.path.realpath, session_file)
    async with claimed(premises, f"activation-{_digest(real)}.lock", f"the session {session_file}"):
        yield


def label_lock(
    premises: Premises, session: SessionId, label: Label
) -> AbstractAsyncContextManager[None]:
    """Be the only one inside the block to start an agent of a session with a label, anywhere.

    Raises:
        HerdError: AGENT_LABEL_EXISTS, on entering: another place of the session does so now.
    """
    return claimed(
        premises,
        f"label-{_digest(session, label)}.lock",
        f"the label {label} of session {session}",
        refuse=lambda _: label_exists(label, "another workspace of this session"),
    )


def lifecycle_lock(premises: Premises, workspace: str) -> AbstractAsyncContextManager[None]:
    """Be the only one to start and end agents in a workspace inside the block; waits for a while.

    Raises:
        HerdError: AGENT_BUSY, on entering: others take too long.
    """
    what = f"starting and ending agents in {workspace}"
    too_long = f"{what} takes others longer than {LIFECYCLE_PATIENCE_S:g} s"
    return claimed(
        premises,
        f"lifecycle-{_digest(workspace)}.lock",
        what,
        patience_s=LIFECYCLE_PATIENCE_S,
        refuse=lambda _: refuse_busy(too_long),
    )


@asynccontextmanager
async def claimed(
    premises: Premises,
    name: str,
    what: str,
    *,
    patience_s: float = 0,
    refuse: Callable[[str], HerdError] = refuse_busy,
) -> AsyncIterator[None]:
    """Have a lock inside the block, waiting for it for so long at most.

    Within this process, whoever waits for it already comes first.

    Args:
        premises: whose lock it is.
        name: of its file.
        what: the thing locked, as an error message begins with it.
        patience_s: how long to wait; without it, the lock must be free now.
        refuse: makes the error for a lock that somebody else has, of a sentence that says who.

    Raises:
        HerdError: what `refuse` made; INTERNAL_FAILURE: nothing can be locked there.
    """
    async with AsyncExitStack() as stack:
        try:
            path = await _lock_file(premises, name)
            is_late = patience_s <= 0
            if not is_late:
                with trio.move_on_after(patience_s) as scope:
                    lock = locks.hold(path, what=what, holder=premises.holder)
                    await stack.enter_async_context(lock)
                is_late = scope.cancelled_caught
            if is_late:
                # It may have become free just now; else this tells who has it.
                lock = locks.claim(path, what=what, holder=premises.holder)
                await stack.enter_async_context(lock)
        except HeldElsewhereError as error:
            raise refuse(str(error)) from error
        except (PinataError, OSError) as error:
            raise broken(f"cannot lock {what}: {reason_of(error)}") from error
        yield


async def _lock_file(premises: Premises, name: str) -> Path:
    await trio.to_thread.run_sync(make_private_dir, premises.locks)
    return premises.locks / name


def _digest(*parts: str) -> str:
    return hashlib.sha256(b"\0".join(map(os.fsencode, parts))).hexdigest()[:_DIGEST_CHARS]
