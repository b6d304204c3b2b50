"""An agent's own half of the herd: it accepts requests, asks, and produces the result.

One loop does all of it, a step at a time, and waits while there is nothing to do. What must be
waited for in the conversation is done by tasks beside it, so that the mailbox is answered always.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import trio

from agents.herdsman.activity import is_due
from agents.herdsman.asking import ask_tool
from agents.herdsman.birth import Birth
from agents.herdsman.config import HerdConfig
from agents.herdsman.duty import RETRY_S, TROUBLES, Duty, GoneError, Surroundings, is_passing
from agents.herdsman.identity import Identity, SessionId
from agents.herdsman.injection import put_in
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.premises import Premises
from agents.herdsman.record import State
from agents.herdsman.record_form import UnreadableRecordError
from agents.herdsman.retirement import Step, is_retired, mark, step
from agents.herdsman.rounds import Rounds
from agents.herdsman.runtime import (
    RETIRED,
    CompactionReason,
    Conversation,
    Ended,
    HerdTool,
    Started,
)
from agents.herdsman.settlement import Undelivered
from engine.core.errors import ConflictError
from engine.system.nursery import open_flat_nursery

_log = logging.getLogger(f"pinata.{__name__}")


class Member:
    """The attendant of one generation."""

    def __init__(
        self,
        premises: Premises,
        birth: Birth,
        *,
        tools: Sequence[HerdTool] = (),
        config: Callable[[], Awaitable[HerdConfig]],
        undelivered: Callable[[SessionId], Awaitable[Undelivered]],
    ) -> None:
        """Begin without a conversation.

        Args:
            premises: where the mailbox is.
            birth: what is known of the generation before it is started.
            tools: those that the agent is offered beside `ask_owner`.
            config: reads what the user has set; raises `HerdError` where that cannot be read.
            undelivered: tells which agents of a session's own have not brought it their work.
        """
        self._given = Surroundings(premises, birth, config=config, undelivered=undelivered)
        self._duty: Duty | None = None
        self._noted_ms: int | None = None
        self._retiring = trio.Lock()
        self._tools = (ask_tool(lambda: self._duty), *tools)

    @property
    def tools(self) -> Sequence[HerdTool]:
        """What the agent is offered beside the tools of its definition."""
        return self._tools

    async def serve(self, conversation: Conversation, started: Started) -> None:
        """See `Attendant`."""
        birth, signals = self._given.birth, self._given.premises.signals
        of = birth.at(started.handle)
        identity = Identity(of, started.session, str(started.session_file), birth.cwd)
        place = str(Mailbox.of(self._given.premises, birth.workspace, birth.label).folder)
        listener = signals.listen(place)
        try:
            duty = Duty(self._given, conversation, identity, listener)
            if await self._take_on(duty, started):
                self._duty = duty
                await _work(duty)
            else:
                # Whoever has started the agent takes that back.
                await trio.sleep_forever()
        finally:
            signals.leave(place, listener)

    def active(self) -> None:
        """Note that the agent got on; at most every few seconds that is written down."""
        duty = self._duty
        if duty is None:
            return
        now_ms = duty.now_ms()
        if is_due(self._noted_ms, now_ms):
            self._noted_ms = duty.activity_ms = now_ms
            duty.wake()
        elif duty.is_retiring:
            duty.wake()

    def answered(self, text: str, *, was_aborted: bool) -> None:
        """Note what the agent said last."""
        if self._duty is not None:
            self._duty.answered(text, was_aborted=was_aborted)

    async def came_to_rest(self, ended: Ended) -> None:
        """Take note that the conversation is at rest."""
        await trio.lowlevel.checkpoint()
        if self._duty is not None:
            self._duty.came_to_rest(ended)

    async def may_compact(self, reason: CompactionReason) -> bool:
        """Return whether the conversation may be shortened; one whose context is full retires."""
        duty = self._duty
        if duty is None:
            await trio.lowlevel.checkpoint()
            return True
        try:
            async with self._retiring:
                return await _retire(duty, reason)
        except TROUBLES as error:
            # Better a shorter conversation than one that can only fail.
            await self._report("the session cannot be retired", error)
            return True

    async def _take_on(self, duty: Duty, started: Started) -> bool:
        """Write the first state, or find the agent's own; return whether there is one.

        What cannot be read or written now is tried again. What is somebody else's is left alone.
        """
        while True:
            try:
                refusal = await _first_state(duty, started)
            except TROUBLES as error:
                if not isinstance(error, UnreadableRecordError) or is_passing(error):
                    await duty.report("the agent cannot begin", error)
                    await trio.sleep(RETRY_S)
                    continue
                refusal = str(error)
            if refusal is not None:
                await duty.report("the agent does not begin", ConflictError(refusal))
            return refusal is None

    async def _report(self, what: str, error: Exception) -> None:
        if self._duty is not None:
            await self._duty.report(what, error)


async def _work(duty: Duty) -> None:
    """Do the agent's part until cancelled, or until the mailbox is not its own any more."""
    async with open_flat_nursery() as nursery:
        rounds = Rounds(duty, lambda request: nursery.start_soon(put_in, duty, request))
        with suppress(GoneError):
            await rounds.go()
        nursery.cancel_scope.cancel()
    _log.info("agent %s has no mailbox any more", duty.identity.of.label)


async def _first_state(duty: Duty, started: Started) -> str | None:
    """Write the first state unless the agent's own is there; return why neither can be.

    Raises:
        PinataError, OSError: the mailbox cannot be locked, read or written.
    """
    mailbox, identity = duty.mailbox, duty.identity
    found = await mailbox.read_state()
    async with mailbox.hold():
        state = await mailbox.read_state()
        if (state is None) is not (found is None):
            return "its mailbox has come or gone while it was looked at"
        if state is not None:
            return None if state.identity == identity else "its mailbox is another generation's"
        first = State(
            of=identity.of,
            session=identity.session,
            session_file=identity.session_file,
            cwd=identity.cwd,
            definition=duty.given.birth.definition.name,
            proof=started.proof,
            updated_ms=duty.now_ms(),
            delegates=duty.given.birth.is_delegating,
        )
        await mailbox.write_state(first, creates=True)
        return None


async def _retire(duty: Duty, reason: CompactionReason) -> bool:
    """Retire the session if that is due; return whether the conversation may be shortened."""
    config, state = await duty.given.config(), await duty.mailbox.read_state()
    has_assignment = state is not None and state.active is not None
    due = step(reason, is_on=config.context_retirement, has_assignment=has_assignment)
    if due is Step.COMPACT:
        return True
    session = duty.identity.session
    if not is_retired(await duty.conversation.entries(), session):
        await duty.conversation.append(RETIRED, mark(session))
        duty.is_retired = duty.is_retiring = True
        duty.wake()
    return due is Step.RETIRE_AND_COMPACT
