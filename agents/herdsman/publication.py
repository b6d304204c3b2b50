"""Writes the result of an assignment: the result first, then the state that says so.

Nothing is written for an assignment that is not the active one any more, and a mailbox that was
removed stays removed.
"""

from typing import Final

import trio

from agents.herdsman.duty import RETRY_S, TROUBLES, Duty
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.record import Result, State
from agents.herdsman.record_form import RESULT, RESULT_LIMIT_BYTES
from agents.herdsman.settlement import (
    belongs,
    completed,
    may_settle,
    result_of,
    too_large,
    unwritten,
)
from engine.core.errors import CorruptionError

MOST_ATTEMPTS: Final = 8


class Publication:
    """The end of one assignment, on its way into the mailbox."""

    def __init__(self, duty: Duty, result: Result) -> None:
        """Begin with nothing tried."""
        self._duty = duty
        self._result = result
        self._attempts = 0
        self._is_written = False
        self._due_at = trio.current_time()

    @property
    def is_due(self) -> bool:
        """Whether the next try may be made: others can wake this half in between."""
        return trio.current_time() >= self._due_at

    async def advance(self) -> bool:
        """Go on with the writing; return whether nothing is left to be done.

        Waiting for the mailbox's lock is no attempt.

        Raises:
            GoneError: the mailbox is not this generation's any more.
            PinataError, OSError: it did not work; it is to be tried again.
        """
        try:
            async with self._duty.own_state() as state:
                if state.active != self._result.request:
                    return True
                if not self._is_written and not await self._write(state):
                    return True
                await self._duty.mailbox.write_state(completed(state, self._duty.now_ms()))
                return True
        finally:
            self._due_at = trio.current_time() + RETRY_S

    async def _write(self, state: State) -> bool:
        """Write the result; return whether it is there, and not given up."""
        mailbox = self._duty.mailbox
        try:
            if not await is_there(mailbox, state):
                await mailbox.write_result(self._result)
        except TROUBLES as error:
            self._attempts += 1
            if self._attempts < MOST_ATTEMPTS:
                raise
            await self._give_up(state, error)
            return False
        self._is_written = True
        return True

    async def _give_up(self, state: State, error: Exception) -> None:
        """Say in the state that the result is lost.

        Raises:
            PinataError, OSError: not even that can be written. Then the session tells of it, and
                both are tried again: a disk that is full now has room later.
        """
        now_ms = self._duty.now_ms()
        lost = unwritten(state, self._result, str(error), self._attempts, now_ms)
        try:
            await self._duty.mailbox.write_state(lost)
        except TROUBLES as failure:
            await self._duty.report("neither a result nor that it is lost could be saved", failure)
            raise


async def begin_publication(duty: Duty) -> Publication | None:
    """Return the end of the assignment, if the agent's rest is one; the rest is dealt with then.

    Raises:
        GoneError: the mailbox is not this generation's any more.
        PinataError, OSError: that cannot be told now.
    """
    async with duty.own_state() as state:
        if state.injection is not None or duty.is_at_work:
            # The rest can be that of what was put in, once that is noted; or it is over already.
            return None
        ended, duty.rest = duty.rest, None
        if ended is None or not may_settle(state):
            return None
        result = result_of(state, duty.text, ended, duty.now_ms())
        size = await trio.to_thread.run_sync(lambda: len(RESULT.encode(result)))
        if size > RESULT_LIMIT_BYTES:
            result = too_large(state, size, RESULT_LIMIT_BYTES, ended, duty.now_ms())
        return Publication(duty, result)


async def is_there(mailbox: Mailbox, state: State) -> bool:
    """Return whether the result of the active assignment is written.

    Raises:
        UnreadableRecordError: what is there cannot be read.
        CorruptionError: what is there is another assignment's.
    """
    assert state.active is not None
    found = await mailbox.read_result(state.active)
    if found is not None and not belongs(found, state):
        raise CorruptionError(f"the result {state.active} is there, and is another assignment's")
    return found is not None
