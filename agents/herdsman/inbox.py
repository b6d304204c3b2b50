"""What an agent was told and has not read yet."""

from collections import deque
from dataclasses import dataclass, field

import trio

from agents.herdsman.runtime import Message
from agents.herdsman.saved_talk import SavedTalk
from engine.core.errors import ExternalError


@dataclass(slots=True, eq=False)
class Waiting:
    """A message that was left.

    Attributes:
        is_settled: it is in the conversation, was dropped, or could not be saved.
        fault: why it could not be saved.
    """

    message: Message
    is_settled: trio.Event = field(default_factory=trio.Event)
    fault: ExternalError | None = None


class Inbox:
    """Messages to one agent, in the order in which they came; any task may call any method."""

    def __init__(self, talk: SavedTalk) -> None:
        """Begin empty.

        Args:
            talk: what messages are delivered to.
        """
        self._talk = talk
        self._waiting: deque[Waiting] = deque()
        self._has_news = False
        self._lock = trio.Lock()

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def leave(self, *messages: Message) -> list[Waiting]:
        """Leave messages."""
        left = [Waiting(message) for message in messages]
        self._waiting.extend(left)
        return left

    async def deliver(self) -> None:
        """Put all that waits into the conversation; does not wait itself when nothing does.

        When this returns, nobody else is about to put something in either.

        Raises:
            ExternalError: the conversation cannot be saved; what is not in it is dropped.
        """
        while self._waiting or self._lock.locked():
            await self._deliver_first()

    async def deliver_up_to(self, last: Waiting) -> None:
        """Put what waits into the conversation, up to `last`.

        Raises:
            ExternalError: as `deliver` does.
        """
        while not last.is_settled.is_set():
            await self._deliver_first()

    async def settle(self) -> None:
        """Wait for those who are about to put something in, and forget that there is news."""
        async with self._lock:
            self._has_news = False

    async def _deliver_first(self) -> None:
        async with self._lock:
            if not self._waiting:
                return
            first = self._waiting[0]
            try:
                await self._talk.tell(first.message)
            except ExternalError as error:
                self.drop(error)
                raise
            self._has_news = True
            first.is_settled.set()
            # It may have been dropped meanwhile, too late.
            if self._waiting and self._waiting[0] is first:
                self._waiting.popleft()

    def drop(self, fault: ExternalError | None = None) -> None:
        """Forget all that waits."""
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.fault = fault
            waiting.is_settled.set()

    def take_news(self) -> bool:
        """Return whether anything was delivered since this was last asked."""
        had, self._has_news = self._has_news, False
        return had
