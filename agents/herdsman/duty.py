"""One generation's work, as the parts of an agent's own half share it.

The mailbox is the truth; what is kept here beside it is what a conversation has shown since this
process took the agent on.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from agents.herdsman.birth import Birth
from agents.herdsman.config import HerdConfig
from agents.herdsman.identity import Identity, RequestId, SessionId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.premises import Premises
from agents.herdsman.record import State
from agents.herdsman.record_form import UnreadableRecordError
from agents.herdsman.runtime import FAULT, REQUEST, Conversation, Ended, Lifecycle
from agents.herdsman.settlement import Undelivered
from agents.herdsman.signals import Listener
from engine.core.errors import ExternalError, PinataError

_log = logging.getLogger(f"pinata.{__name__}")

# What did not work, because of the disk or a lock, is tried again after this long.
RETRY_S: Final = 0.25
# What may pass by itself, or is told to people: everything that is not a bug.
TROUBLES: Final = (PinataError, OSError)


class GoneError(Exception):
    """The mailbox is not this generation's any more; nothing may be written there."""


class Surroundings:
    """What an agent's half is given to work with.

    Attributes:
        config: reads what the user has set; raises `HerdError` where that cannot be read.
        undelivered: tells which agents of a session's own have not brought it their work.
    """

    def __init__(
        self,
        premises: Premises,
        birth: Birth,
        *,
        config: Callable[[], Awaitable[HerdConfig]],
        undelivered: Callable[[SessionId], Awaitable[Undelivered]],
    ) -> None:
        self.premises = premises
        self.birth = birth
        self.config = config
        self.undelivered = undelivered


class Duty:
    """One generation's work.

    Attributes:
        text: what the agent said last, since the last thing that it was told; empty is nothing.
        rest: how it came to rest, until that is dealt with.
        is_retired: its session is retired.
        is_retiring: it is to be told so.
        activity_ms: when it got on, where that is to be written down.
        unread: what it was told, and has not taken into its history.
        recorded: set while no accepted request is on its way into the conversation.
        injected: the request that has reached the conversation, and is not noted in the state.
        is_publishing: a result is being written.
        listener: hears whatever gives this half something to do.
    """

    def __init__(
        self,
        given: Surroundings,
        conversation: Conversation,
        identity: Identity,
        listener: Listener,
    ) -> None:
        """Begin with an agent that has said and been told nothing."""
        self.given = given
        self.conversation = conversation
        self.identity = identity
        self.mailbox = Mailbox.of_generation(given.premises, identity.of)
        self.listener = listener
        self.text = ""
        self.rest: Ended | None = None
        self.is_retired = False
        self.is_retiring = False
        self.activity_ms: int | None = None
        self.unread: set[RequestId] = set()
        self.recorded = trio.Event()
        self.recorded.set()
        self.injected: RequestId | None = None
        self.is_publishing = False
        self._has_answered = False
        self._was_interrupted = False
        self._reported: set[str] = set()

    @property
    def is_at_rest(self) -> bool:
        """Whether the conversation is seen at rest now."""
        return self.conversation.lifecycle in (Lifecycle.IDLE, Lifecycle.DONE)

    @property
    def is_at_work(self) -> bool:
        """Whether the conversation is seen at work now; not all that is not at rest is."""
        return self.conversation.lifecycle in (Lifecycle.WORKING, Lifecycle.BLOCKED)

    def now_ms(self) -> int:
        """Return the time."""
        return self.given.premises.clock.now_ms()

    def wake(self) -> None:
        """Have this half look at what there is to do."""
        self.listener.hear()

    def told(self) -> None:
        """Note that the agent is told something: what it said before counts no more."""
        self.text = ""
        self.rest = None
        self._has_answered = False

    def interrupted(self) -> None:
        """Note that the agent was brought to rest on purpose, and what was queued is gone."""
        self.told()
        self.unread.clear()
        self.is_retiring = self.is_retired
        self._was_interrupted = True

    def answered(self, text: str, *, was_aborted: bool) -> None:
        """Note what the agent said; what was cut off is no answer."""
        if was_aborted and self._was_interrupted:
            return
        self.text = "" if was_aborted else text
        self._has_answered = True
        self._was_interrupted = False

    def came_to_rest(self, ended: Ended) -> None:
        """Note that the agent is at rest, unless it is so because of what came before.

        The news of a rest can come late: when its question is answered already, or what it was
        interrupted at has made room for the replacement. No answer lies between then.
        """
        is_late = not self.recorded.is_set() or (ended.was_aborted and self._was_interrupted)
        if ended.fault is not None or self._has_answered or not is_late:
            self.rest = ended
            self.wake()

    @asynccontextmanager
    async def own_state(self) -> AsyncIterator[State]:
        """Hold the mailbox inside the block, and yield what its state is now.

        Raises:
            GoneError: it was removed, or is another generation's.
            UnreadableRecordError: the state cannot be read.
            ExternalError: the mailbox cannot be locked.
        """
        async with self.mailbox.hold():
            state = await self.mailbox.read_state()
            if state is None or state.identity != self.identity:
                raise GoneError
            yield state

    async def save(self, state: State) -> None:
        """Write the state; `own_state` holds the mailbox.

        Where only the flush of it fails, it is there for all who read it, and so it counts: what
        follows from it must not be left out.

        Raises:
            UnreadableRecordError: whether it is there cannot be told.
            PinataError, OSError: it is not there.
        """
        try:
            await self.mailbox.write_state(state)
        except TROUBLES as error:
            if await self.mailbox.read_state() != state:
                raise
            _log.warning("agent %s: perhaps not flushed: %s", self.identity.of.label, error)

    async def undelivered(self) -> Undelivered:
        """Return which agents of the agent's own have not brought it their work."""
        if not self.given.birth.is_delegating:
            return Undelivered()
        return await self.given.undelivered(self.identity.session)

    async def has_read(self, *requests: RequestId) -> set[RequestId]:
        """Return those of the requests that the agent's history holds.

        Raises:
            ExternalError: the history cannot be read.
        """
        entries = await self.conversation.entries()
        held = {entry.details.get("request") for entry in entries if entry.kind == REQUEST}
        return {request for request in requests if request in held}

    async def report(self, what: str, error: Exception) -> None:
        """Tell people of trouble, in the log and in the session, once for each kind of it."""
        message = f"{what}: {error}"
        if message in self._reported:
            return
        self._reported.add(message)
        _log.warning("agent %s: %s", self.identity.of.label, message)
        try:
            await record_fault(self.conversation, self.identity, message)
        except ExternalError as failure:
            _log.warning("agent %s: %s", self.identity.of.label, failure)


async def record_fault(conversation: Conversation, identity: Identity, message: str) -> None:
    """Save in an agent's session what went wrong with its mailbox.

    Raises:
        ExternalError: it cannot be saved.
    """
    details = {"generation": identity.of.generation, "message": message}
    await conversation.append(FAULT, details)


def is_passing(error: UnreadableRecordError) -> bool:
    """Return whether the machine is why a record cannot be read, so that it may be right."""
    return isinstance(error.__cause__, OSError)
