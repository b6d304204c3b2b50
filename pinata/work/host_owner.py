"""A session as the owner of agents: told things, and asked what it was told, over its client.

While no client is attached, or one that does not know of agents, whoever wants something hears that
the owner is away, and tries again when one attaches. At rest there is no timer.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import trio

from agents.herdsman.identity import SessionId
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.runtime import (
    ATTENTION,
    BINDING,
    FAULT,
    QUESTION,
    RESULT,
    Entry,
    Message,
)
from engine.core.errors import ExternalError
from engine.records.host_owner import EnteredFrame, HistoryFrame, IdleFrame, enter, read_history
from engine.system.bell import Bell

Send = Callable[[Mapping[str, Any]], Awaitable[bool]]
OwnerFrame = IdleFrame | HistoryFrame | EnteredFrame
F = TypeVar("F", HistoryFrame, EnteredFrame)
# What a session that owns agents holds of the herd.
KINDS: Final = (RESULT, QUESTION, ATTENTION, BINDING, FAULT)


class LeadSession:
    """The session of a host; an `OwnerSession`.

    All methods are for the thread that trio runs in.
    """

    def __init__(self, session: SessionId) -> None:
        """Begin with nobody attached."""
        self._session = session
        self._client: _Client | None = None
        self._changed = Bell()
        self._sent = Bell()
        self._last_number = 0

    @contextmanager
    def attached(self, send: Send, *, owns_agents: bool) -> Iterator[None]:
        """Have a client attached inside the block; one that was attached before is asked no more.

        Args:
            send: hands a frame to the client; tells whether it was still there.
            owns_agents: whether the client understands what it is asked here.
        """
        self._release()
        client = self._client = _Client(send, self._sent.ring) if owns_agents else None
        self._changed.ring()
        try:
            yield
        finally:
            if self._client is client:
                self._release()

    def told(self, frame: OwnerFrame) -> None:
        """Take what the client says; an answer that nobody waits for any more is dropped."""
        client = self._client
        if client is None:
            return
        if isinstance(frame, IdleFrame):
            client.is_idle = frame.idle
            self._changed.ring()
        else:
            client.answered(frame)

    @property
    def session(self) -> SessionId:
        """See `OwnerSession`."""
        return self._session

    @property
    def is_idle(self) -> bool:
        """See `OwnerSession`."""
        return self._client is not None and self._client.is_idle

    @property
    def being_told(self) -> int:
        """How many things the attached client was given to put in, and has not put in yet."""
        return 0 if self._client is None else len(self._client.told)

    async def wait_changed(self) -> None:
        """See `OwnerSession`."""
        await self._changed.wait()

    @property
    def sent(self) -> trio.Event:
        """Set when a client is given one more thing to put in; each time it is another event."""
        return self._sent.next

    async def entries(self) -> Sequence[Entry]:
        """See `OwnerSession`."""
        answer = await self._ask(HistoryFrame, lambda number: read_history(number, KINDS))
        return [Entry(one.kind, one.details, one.on_branch) for one in answer.entries]

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """See `OwnerSession`."""
        await self._ask(EnteredFrame, lambda number: enter(number, kind, details))

    async def tell(self, key: str, message: Message, *, only_if_idle: bool) -> bool:
        """See `OwnerSession`."""
        assert message.details["delivery"] == key
        answer = await self._ask(
            EnteredFrame,
            lambda number: enter(
                number,
                message.kind,
                message.details,
                text=message.text,
                only_if_idle=only_if_idle,
            ),
        )
        return answer.entered

    async def _ask(self, kind: type[F], frame: Callable[[int], Mapping[str, Any]]) -> F:
        """Return the client's answer.

        Raises:
            OwnerAwayError: there is no client, or it left before it had answered.
            ExternalError: it could not do it.
        """
        client = self._client
        if client is None:
            raise OwnerAwayError
        self._last_number += 1
        answer = await client.ask(self._last_number, frame(self._last_number))
        if answer is None:
            raise OwnerAwayError
        if answer.fault is not None:
            raise ExternalError(f"the session cannot do it: {answer.fault}")
        if not isinstance(answer, kind):
            raise ExternalError("the session answered something else than it was asked")
        return answer

    def _release(self) -> None:
        if self._client is not None:
            self._client.leave()
        self._client = None


class _Client:
    """One attached client, and what it was asked."""

    def __init__(self, send: Send, sent: Callable[[], None]) -> None:
        self.is_idle = False
        self._send = send
        self._sent = sent
        # The numbers of messages that it was sent and has not put in.
        self.told: set[int] = set()
        self._waiting: dict[int, _Answer] = {}
        self._has_left = False

    async def ask(
        self, number: int, frame: Mapping[str, Any]
    ) -> HistoryFrame | EnteredFrame | None:
        """Return its answer; None when it left without one."""
        answer = self._waiting[number] = _Answer()
        try:
            if self._has_left or not await self._send(frame):
                return None
            if frame.get("text") is not None:
                self.told.add(number)
                self._sent()
            await answer.has_come.wait()
            return answer.frame
        finally:
            del self._waiting[number]
            self.told.discard(number)

    def answered(self, frame: HistoryFrame | EnteredFrame) -> None:
        waiting = self._waiting.get(frame.request)
        if waiting is not None:
            waiting.bring(frame)

    def leave(self) -> None:
        self._has_left = True
        for waiting in self._waiting.values():
            waiting.bring(None)


class _Answer:
    """A question that was asked."""

    def __init__(self) -> None:
        self.has_come = trio.Event()
        self.frame: HistoryFrame | EnteredFrame | None = None

    def bring(self, frame: HistoryFrame | EnteredFrame | None) -> None:
        self.frame = frame
        self.has_come.set()
