"""What is to enter the conversation of an agent that is a Pi, until it is there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from agents.herdsman.pi_heard import Entered
from engine.core.errors import ExternalError


@dataclass(eq=False, slots=True)
class Parcel:
    """A message for the model, or an entry that it does not read.

    Attributes:
        id: which our extension in the child asks for it by.
        text: of a message; None for an entry.
        since: how many entries of the herd the session's file was known to hold before.
        is_taken: the extension has it.
        is_dropped: it never enters, on purpose.
    """

    id: str
    kind: str
    details: Mapping[str, Any]
    text: str | None
    since: int
    is_taken: bool = False
    is_dropped: bool = False
    _is_over: trio.Event = field(default_factory=trio.Event)
    _fault: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has entered, or never will."""
        return self._is_over.is_set()

    async def wait_over(self) -> None:
        """Return once it has entered, or was dropped.

        Raises:
            ExternalError: it never will.
        """
        await self._is_over.wait()
        if self._fault is not None:
            raise ExternalError(self._fault)

    def end(self, fault: str | None = None) -> None:
        """Note that it has entered, or why it never will."""
        self._fault = fault
        self._is_over.set()


class Outbox:
    """Parcels in the order in which they were put in."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._parcels: list[Parcel] = []

    @property
    def messages(self) -> tuple[Parcel, ...]:
        """The messages that have not entered yet."""
        return tuple(each for each in self._parcels if each.text is not None)

    def put(self, parcel: Parcel) -> None:
        """Have a parcel ready for the extension."""
        self._parcels.append(parcel)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is under way."""
        return not self._parcels

    @property
    def is_waiting(self) -> bool:
        """Whether there is a message that nobody has taken."""
        return any(not each.is_taken for each in self.messages)

    def take(self, id_: object) -> Mapping[str, Any]:
        """Return what the extension is told that asks for a parcel; nothing for an unknown one.

        Whoever asks for a message gets all that wait.
        """
        parcel = next((each for each in self._parcels if each.id == id_), None)
        if parcel is None or parcel.is_taken:
            return {}
        if parcel.text is not None:
            return self.take_messages()
        parcel.is_taken = True
        return {"entry": {"kind": parcel.kind, "details": dict(parcel.details)}}

    def take_messages(self) -> Mapping[str, Any]:
        """Return what the extension is told that asks for all messages that wait."""
        waiting = [each for each in self.messages if not each.is_taken]
        for each in waiting:
            each.is_taken = True
        shown = [{"kind": p.kind, "text": p.text, "details": dict(p.details)} for p in waiting]
        return {"messages": shown}

    def put_back(self) -> None:
        """Have all messages wait again that were taken and did not enter."""
        for each in self.messages:
            each.is_taken = False

    def withdraw(self, parcel: Parcel) -> None:
        """Take a parcel out that nobody has taken; it may be put in again."""
        if parcel in self._parcels and not parcel.is_taken:
            self._parcels.remove(parcel)

    def entered(self, heard: Entered) -> None:
        """Note that something was seen in the conversation."""
        for each in self._parcels:
            is_same = each.kind == heard.kind and each.details == heard.details
            if each.is_taken and is_same and (each.text is not None) is heard.is_message:
                self.close(each)
                return

    def close(self, parcel: Parcel, fault: str | None = None) -> None:
        """Let a parcel go: it has entered, or never will because of `fault`."""
        if parcel in self._parcels:
            self._parcels.remove(parcel)
            parcel.end(fault)

    def drop_messages(self, *, only_waiting: bool = False) -> None:
        """Let all messages go, on purpose, that have not entered, or that nobody has taken."""
        for each in self.messages:
            if not (only_waiting and each.is_taken):
                each.is_dropped = True
                self.close(each)

    def fail(self, fault: str) -> None:
        """Let all go because of `fault`."""
        for each in tuple(self._parcels):
            self.close(each, fault)

    def fail_taken(self, fault: str) -> None:
        """Let the messages go that were taken, and do not enter because of `fault`."""
        for each in self.messages:
            if each.is_taken:
                self.close(each, fault)
