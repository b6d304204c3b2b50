"""What an agent's half does, over and over: a round of steps, each for one thing that can be due.

A step finds out from the mailbox what is due, so what failed, or was cut off by a crash, is done by
a later round. Nothing is looked at while nothing wakes the half and nothing has failed.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace

import trio

from agents.herdsman.answering import Answering
from agents.herdsman.duty import RETRY_S, TROUBLES, Duty
from agents.herdsman.identity import RequestId
from agents.herdsman.publication import Publication, begin_publication, is_there
from agents.herdsman.record import Request, State
from agents.herdsman.retirement import guidance, is_guided, is_retired
from agents.herdsman.settlement import completed
from engine.core.errors import CorruptionError


class Rounds:
    """The rounds of one generation."""

    def __init__(self, duty: Duty, put_in: Callable[[Request], None]) -> None:
        """Begin with a mailbox that an earlier process may have left in the midst of something.

        Args:
            duty: the generation's work.
            put_in: has a task of its own put a request into the conversation.
        """
        self._duty = duty
        self._put_in = put_in
        self._answering = Answering(duty, self._inject)
        self._publication: Publication | None = None
        self._must_resume = True
        self._steps: dict[str, Callable[[], Awaitable[bool]]] = {
            "what was begun before cannot be taken up": self._resume,
            "a request that was put in cannot be noted": self._record,
            "a request cannot be answered": self._answer,
            "a result cannot be begun": self._settle,
            "a result cannot be written": self._publish,
            "the end of the session cannot be told": self._guide,
            "activity cannot be noted": self._note_activity,
        }

    async def go(self) -> None:
        """Do rounds until cancelled.

        Raises:
            GoneError: the mailbox is not this generation's any more.
        """
        while True:
            pause_s = await self._round()
            with trio.move_on_after(pause_s):
                await self._duty.listener.wait()

    async def _round(self) -> float:
        """Take all steps; return for how long nothing is to be done unless something changes."""
        pause_s = math.inf
        for what, step in self._steps.items():
            try:
                is_left = await step()
            except TROUBLES as error:
                await self._duty.report(what, error)
                is_left = True
            if is_left:
                pause_s = RETRY_S
        return pause_s

    def _inject(self, request: Request) -> None:
        self._duty.recorded = trio.Event()
        self._duty.told()
        self._put_in(request)

    async def _resume(self) -> bool:
        """Finish what the mailbox shows as begun, and what this process does not know of."""
        if not self._must_resume:
            return False
        duty = self._duty
        async with duty.own_state() as state:
            if state.active is not None and await self._has_result(state):
                await duty.mailbox.write_state(completed(state, duty.now_ms()))
            elif state.active is not None:
                duty.activity_ms = duty.now_ms()
            if state.injection is not None and duty.recorded.is_set():
                await self._inject_again(state.injection.request)
        if state.active is not None:
            entries = await duty.conversation.entries()
            duty.is_retired = is_retired(entries, duty.identity.session)
            duty.is_retiring = duty.is_retired and not is_guided(entries, duty.identity.session)
        self._must_resume = False
        return False

    async def _inject_again(self, request_id: RequestId) -> None:
        """Put in what was accepted and is not noted as put in; without its text that cannot be."""
        what = f"the accepted request {request_id} cannot be put in"
        try:
            request = await self._duty.mailbox.read_request(request_id)
        except CorruptionError as error:
            await self._duty.report(what, error)
            return
        if request is None:
            await self._duty.report(what, CorruptionError("it is not in the mailbox any more"))
            return
        self._inject(request)

    async def _has_result(self, state: State) -> bool:
        """Return whether the active assignment's result is there; another's is left, and told."""
        try:
            return await is_there(self._duty.mailbox, state)
        except CorruptionError as error:
            await self._duty.report("a result is in the way", error)
            return False

    async def _record(self) -> bool:
        duty = self._duty
        if duty.injected is None:
            return False
        async with duty.own_state() as state:
            if state.injection is not None and state.injection.request == duty.injected:
                cleared = replace(state, injection=None, updated_ms=duty.now_ms())
                await duty.mailbox.write_state(cleared)
            await duty.mailbox.remove_request(duty.injected)
        duty.injected = None
        duty.recorded.set()
        return False

    async def _answer(self) -> bool:
        try:
            await self._answering.look()
        except TROUBLES:
            # An answer may be written all the same, and then its text is due.
            self._must_resume = True
            raise
        return False

    async def _settle(self) -> bool:
        """Begin to write the result, if the agent's rest is the end of its assignment."""
        duty = self._duty
        if duty.rest is None or self._publication is not None:
            return False
        if duty.is_at_work:
            # It was brought something since, and will come to rest again.
            duty.rest = None
            return False
        if duty.rest.was_aborted:
            duty.unread.clear()
        if duty.unread:
            duty.unread -= await duty.has_read(*duty.unread)
        if duty.unread or await duty.undelivered():
            # It goes on by itself: with what it was told, or with what its agents bring it. What it
            # says then counts.
            duty.told()
            return False
        self._publication = await begin_publication(duty)
        duty.is_publishing = self._publication is not None
        return duty.rest is not None

    async def _publish(self) -> bool:
        publication = self._publication
        if publication is None:
            return False
        if publication.is_due and await publication.advance():
            self._publication = None
            self._duty.is_publishing = False
        return self._publication is not None

    async def _guide(self) -> bool:
        """Tell the agent that its session is retired, while it is at work."""
        duty = self._duty
        if duty.is_retiring and duty.is_at_work:
            await duty.conversation.say(guidance(duty.identity.session), waits=False)
            duty.is_retiring = False
        return False

    async def _note_activity(self) -> bool:
        duty = self._duty
        if duty.activity_ms is None:
            return False
        async with duty.own_state() as state:
            if state.active is not None and not duty.is_publishing:
                noted = replace(state, last_activity_ms=duty.activity_ms, updated_ms=duty.now_ms())
                await duty.mailbox.write_state(noted, flush=False)
        duty.activity_ms = None
        return False
