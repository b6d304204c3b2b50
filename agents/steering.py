"""Messages that reach an agent while it works."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from engine.core.events import Sender

# Of one agent. Whoever leaves more than it reads would fill the memory of the run's owner.
MAX_UNREAD = 64
MAX_UNREAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Steer:
    """One message.

    Attributes:
        follow_up: it waits until the agent would otherwise stop.
    """

    text: str
    follow_up: bool = False
    sender: Sender = Sender.PARENT

    @property
    def size_bytes(self) -> int:
        """The length of the text as UTF-8."""
        return len(self.text.encode("utf-8", "replace"))


async def _unrecorded(_: Steer) -> None:
    await trio.lowlevel.checkpoint()


class Steers:
    """The messages to one agent that it has not read yet."""

    def __init__(self, record: Callable[[Steer], Awaitable[None]] = _unrecorded) -> None:
        """Begin with no message.

        Args:
            record: makes durable that a message is delivered; called before the agent sees it.
        """
        self._record = record
        self._waiting: list[Steer] = []
        self._posted = trio.Event()
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether a message that is posted now can still be read."""
        return self._is_open

    def has_room_for(self, text: str) -> bool:
        """Whether a message may be left besides those that the agent has not read yet."""
        asked_bytes = Steer(text).size_bytes + sum(steer.size_bytes for steer in self._waiting)
        return len(self._waiting) < MAX_UNREAD and asked_bytes <= MAX_UNREAD_BYTES

    def post(self, text: str, *, follow_up: bool, sender: Sender = Sender.PARENT) -> None:
        """Leave a message for the agent, which must still be reading; returns at once.

        There must be room for it.
        """
        assert self._is_open
        assert self.has_room_for(text)
        self._waiting.append(Steer(text, follow_up, sender))
        self._posted.set()

    async def wait_posted(self) -> None:
        """Return once a message was left since this was last asked."""
        await self._posted.wait()
        self._posted = trio.Event()

    async def take(self, *, follow_ups: bool) -> tuple[Steer, ...]:
        """Return the messages that are due, in the order in which they came, each recorded.

        Args:
            follow_ups: also those that wait until the agent would otherwise stop.
        """
        due = [steer for steer in self._waiting if follow_ups or not steer.follow_up]
        for steer in due:
            await self._record(steer)
            self._waiting.remove(steer)
        return tuple(due)

    @property
    def unread(self) -> tuple[Steer, ...]:
        """The messages that the agent has not read, in the order in which they came."""
        return tuple(self._waiting)

    def close(self) -> None:
        """Take no more messages; once is enough, more changes nothing."""
        self._is_open = False
