"""Leaves a request in an agent's mailbox, and waits until the agent has answered it.

Nothing is resubmitted: a request that was not answered may be accepted all the same, later on.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from agents.herdsman.errors import HerdError, busy
from agents.herdsman.identity import Identity, RequestId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.record import Acknowledgement, Contents, Request, State
from engine.core.errors import PinataError

# How long an owner waits for an answer to a steer, an interrupt or a reply.
CONTROL_PATIENCE_S: Final = 5.0
# An answer that nobody rings for is found after this long.
_LOOK_AGAIN_S: Final = 0.25
_log = logging.getLogger(f"pinata.{__name__}")


def _permit(_: Contents) -> None:
    """Allow whatever was found."""


async def leave(
    mailbox: Mailbox,
    identity: Identity,
    request: Request,
    *,
    permit: Callable[[Contents], object] = _permit,
) -> None:
    """Leave a request for exactly this generation, unless it has one that it has not answered.

    Args:
        mailbox: of the agent.
        identity: of the generation that the request is for.
        request: to be left.
        permit: raises for contents with which the request cannot be left; called under the lock.

    Raises:
        HerdError: TARGET_NOT_FOUND where the mailbox is another generation's or nobody's,
            TARGET_AMBIGUOUS where it cannot be read, AGENT_BUSY where somebody has its lock or it
            holds a request that is not answered, and what `permit` raises. Nothing was left then.
    """
    async with mailbox.claim():
        contents = await mailbox.read_exact(identity)
        if contents.has_pending_request:
            raise busy(
                f"agent {identity.of.label!r} has not answered an earlier request yet",
                next_action="wait for its answer; do not send the same again",
            )
        permit(contents)
        await _remove_answered(mailbox, contents.state)
        await _write(mailbox, request)


async def _write(mailbox: Mailbox, request: Request) -> None:
    """Write a request; one that is there, and of which only the flush failed, is left all the same.

    Whoever was told that it is not would send it again.
    """
    try:
        await mailbox.write_request(request)
    except HerdError as error:
        with suppress(PinataError):
            if await mailbox.read_request(request.request) == request:
                _log.warning("a request is perhaps not flushed: %s", error)
                return
        raise


async def wait_answer(
    mailbox: Mailbox, request: Request, *, patience_s: float
) -> Acknowledgement | None:
    """Return the agent's answer to a request that was left; None where there is none in time."""
    signals, owner = mailbox.premises.signals, request.of.owner
    # From now on, so that an answer between the first look and the first wait is heard.
    listener = signals.listen(owner)
    try:
        with trio.move_on_after(patience_s):
            while True:
                answer = await _answer(mailbox, request.request)
                if answer is not None:
                    return answer
                with trio.move_on_after(_LOOK_AGAIN_S):
                    await listener.wait()
    finally:
        signals.leave(owner, listener)
    return None


async def _remove_answered(mailbox: Mailbox, state: State) -> None:
    """Remove what is answered, but for the active task: the next answer would revive it.

    Raises:
        HerdError: AGENT_BUSY where one is not in the agent's history yet, INTERNAL_FAILURE where
            one cannot be removed.
    """
    if state.injection is not None and state.injection.request != state.active:
        raise busy(
            f"agent {state.of.label!r} is still taking in what it was told before",
            next_action="try again in a moment",
        )
    answered = {state.completed}
    if state.acknowledgement is not None:
        answered.add(state.acknowledgement.request)
    for request in answered - {None, state.active}:
        assert request is not None
        await mailbox.remove_request(request)


async def _answer(mailbox: Mailbox, request: RequestId) -> Acknowledgement | None:
    """Return the agent's answer to a request; None where there is none, or that cannot be told."""
    try:
        state = await mailbox.read_state()
    except PinataError:
        return None
    said = None if state is None else state.acknowledgement
    return said if said is not None and said.request == request else None
