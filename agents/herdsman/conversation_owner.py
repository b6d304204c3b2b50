"""An agent that delegates, as the owner of its own: what it is told enters its conversation."""

from collections.abc import Mapping, Sequence
from typing import Any

from agents.herdsman.identity import SessionId
from agents.herdsman.runtime import RESULT, Conversation, Entry, Lifecycle, Message
from engine.system.bell import Bell


class ConversationOwner:
    """The conversation of an agent that is there; an `OwnerSession`."""

    def __init__(self, conversation: Conversation) -> None:
        """Begin with a conversation that is open."""
        self._conversation = conversation
        self._changed = Bell()

    def change(self) -> None:
        """Note that the agent may have come to rest, or begun to work."""
        self._changed.ring()

    @property
    def session(self) -> SessionId:
        """See `OwnerSession`."""
        return self._conversation.session

    @property
    def is_idle(self) -> bool:
        """See `OwnerSession`."""
        return self._conversation.lifecycle is Lifecycle.IDLE

    async def wait_changed(self) -> None:
        """See `OwnerSession`."""
        await self._changed.wait()

    async def entries(self) -> Sequence[Entry]:
        """See `OwnerSession`."""
        return await self._conversation.entries()

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """See `OwnerSession`."""
        await self._conversation.append(kind, details)

    async def tell(self, key: str, message: Message, *, only_if_idle: bool) -> bool:
        """See `OwnerSession`."""
        assert message.details["delivery"] == key
        if await self._holds(key):
            return True
        if only_if_idle and not self.is_idle:
            return False
        await self._conversation.say(message, waits=True)
        # It is dropped when the agent is interrupted before it has read it.
        return await self._holds(key)

    async def _holds(self, key: str) -> bool:
        entries = await self._conversation.entries()
        return any(
            entry.details.get("delivery") == key and (entry.kind == RESULT or entry.on_branch)
            for entry in entries
        )
