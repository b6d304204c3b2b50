"""The session that owns agents, as the herd tells it things: a port.

A lead's session is a program of its own, reached over its host. A delegating agent's is the
conversation that it leads, in this process.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agents.herdsman.identity import SessionId
from agents.herdsman.runtime import Entry, Message


class OwnerAwayError(Exception):
    """Nobody speaks for the session now; what is to be told waits until somebody does."""


class OwnerSession(Protocol):
    """A session that owns agents."""

    @property
    def session(self) -> SessionId:
        """Its id."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether somebody speaks for it, and no answer is under way."""
        ...

    async def wait_changed(self) -> None:
        """Return at the next change: it became idle or busy, or somebody came to speak for it.

        Whoever looked before waits for nothing else in between, or may miss one.
        """
        ...

    async def entries(self) -> Sequence[Entry]:
        """Return the herd's entries in its history, on all branches, the oldest first.

        Raises:
            OwnerAwayError: nobody is there to ask.
            ExternalError: they cannot be read.
        """
        ...

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """Save an entry that no model reads; return when the session's file holds it.

        Raises:
            OwnerAwayError: nobody is there to do it; it may be done all the same.
            ExternalError: it cannot be saved.
        """
        ...

    async def tell(self, key: str, message: Message, *, only_if_idle: bool) -> bool:
        """Put a message into the conversation, and return when the session's file holds it.

        It wakes the session, or joins what works. A message whose key the history holds in its
        details, under `delivery`, is not put in again.

        Args:
            key: the same whenever the same message is told.
            message: its details hold the key under `delivery`.
            only_if_idle: do nothing while an answer is under way.

        Returns:
            Whether the history holds it.

        Raises:
            OwnerAwayError: nobody is there to do it; it may be done all the same.
            ExternalError: it cannot be saved.
        """
        ...
