"""A session that is told of its agents: a history that lasts, and who speaks for it or not.

book = Book()
controller = telling(stage.controller(), book)
async with keeping(controller):
    ...
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from agents.herdsman.controller import Controller
from agents.herdsman.identity import SessionId
from agents.herdsman.keeper import keep
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.runtime import RESULT, Entry, Message
from engine.core.errors import ExternalError
from tests.support.deaths import Died


@dataclass
class Book:
    """What a session's file holds, whoever speaks for it.

    Attributes:
        entries: the oldest first.
        told: the messages among them, with their texts.
        is_idle: no answer is under way.
        is_away: nobody speaks for it.
        faults: how many more times nothing can be saved.
        dies_after_telling: the process that tells it something ends once that is saved.
    """

    entries: list[Entry] = field(default_factory=list)
    told: list[Message] = field(default_factory=list)
    is_idle: bool = True
    is_away: bool = False
    faults: int = 0
    dies_after_telling: bool = False
    changed: trio.Event = field(default_factory=trio.Event)

    def change(self, **changes: bool) -> None:
        """Change who speaks for the session, or whether it is idle."""
        for name, value in changes.items():
            setattr(self, name, value)
        self.changed.set()
        self.changed = trio.Event()

    def leave_branch(self) -> None:
        """Go on from the beginning: nothing that is there lies on the session's branch any more."""
        self.entries = [replace(entry, on_branch=False) for entry in self.entries]

    @property
    def results(self) -> list[Message]:
        """The results that were told, in order."""
        return [one for one in self.told if one.kind == RESULT]


@dataclass(frozen=True)
class ToldOwner:
    """An `OwnerSession` that writes into a book."""

    session: SessionId
    book: Book

    @property
    def is_idle(self) -> bool:
        return self.book.is_idle and not self.book.is_away

    async def wait_changed(self) -> None:
        await self.book.changed.wait()

    async def entries(self) -> Sequence[Entry]:
        await self._check()
        return tuple(self.book.entries)

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        await self._check()
        self.book.entries.append(Entry(kind, details))

    async def tell(self, key: str, message: Message, *, only_if_idle: bool) -> bool:
        assert message.details["delivery"] == key
        await self._check()
        if only_if_idle and not self.is_idle:
            return False
        if self.book.faults > 0:
            self.book.faults -= 1
            raise ExternalError("the session cannot do it: the disk is full")
        if not self._holds(key, message.kind):
            self.book.entries.append(Entry(message.kind, message.details))
            self.book.told.append(message)
        if self.book.dies_after_telling:
            raise Died(key)
        return True

    def _holds(self, key: str, kind: str) -> bool:
        return any(
            one.details.get("delivery") == key and (kind == RESULT or one.on_branch)
            for one in self.book.entries
        )

    async def _check(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.book.is_away:
            raise OwnerAwayError


def telling(controller: Controller, book: Book) -> Controller:
    """Return a controller whose owner is told into a book."""
    return replace(controller, owner=ToldOwner(controller.caller.session, book))


@asynccontextmanager
async def keeping(controller: Controller) -> AsyncIterator[None]:
    """Have an owner's side do what it does by itself inside the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep, controller)
        yield
        nursery.cancel_scope.cancel()
