"""Tells the attached client of every settlement that it has not confirmed, each of them once."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import trio

from engine.core.errors import PinataError
from engine.core.ids import RunId
from engine.core.outcome import Status
from engine.records.host import Told, delivery
from pinata.work.host_seat import Seat

_log = logging.getLogger(f"pinata.{__name__}")


class Settlement(Protocol):
    """What a run came to."""

    @property
    def key(self) -> str:
        """The same whenever it is told again."""
        ...

    @property
    def run(self) -> RunId:
        """Whose end it is."""
        ...

    @property
    def status(self) -> Status:
        """How the run ended."""
        ...

    @property
    def text(self) -> str:
        """What a person, or a model, reads of it."""
        ...

    @property
    def answer(self) -> Mapping[str, Any]:
        """What a call would have answered."""
        ...


class Owed(Protocol):
    """What a session has still to be told."""

    async def pending(self) -> Sequence[Settlement]:
        """Return what nobody has confirmed, the oldest first.

        Raises:
            PinataError: that cannot be told.
        """
        ...

    async def confirm(self, key: str) -> None:
        """Make durable that the session has been told.

        Raises:
            PinataError: that cannot be written.
        """
        ...


class Dispatch:
    """Sends settlements to whoever is attached, when there is a reason to look for some."""

    def __init__(self, owed: Owed, awaited_by: Callable[[Seat], Collection[RunId]]) -> None:
        """Begin without a client.

        Args:
            owed: to the session.
            awaited_by: which runs a call of the client waits for; its answer tells of them.
        """
        self._owed = owed
        self._awaited_by = awaited_by
        self._seat: Seat | None = None
        self._news = trio.Event()
        self._turn = trio.Lock()
        self._sending = trio.CancelScope()

    def attach(self, seat: Seat | None) -> None:
        """Send to this client from now on, or to nobody; the one before holds nobody up."""
        if seat is not self._seat:
            self._sending.cancel()
        self._seat = seat
        self.look()

    def look(self) -> None:
        """Look soon for what is to be told."""
        self._news.set()

    async def key_of(self, run: RunId) -> str | None:
        """Return the key of the newest settlement of `run` that nobody has confirmed.

        None also when that cannot be told: then it is told again.
        """
        return next((one.key for one in reversed(await self._pending()) if one.run == run), None)

    async def confirm(self, seat: Seat, key: str) -> None:
        """Make durable that the session has been told what a client was sent.

        Keys that it was not sent mean nothing. If it cannot be written, it is told again.
        """
        if key not in seat.sent:
            return
        try:
            await self._owed.confirm(key)
        except PinataError as error:
            _log.warning("delivery %s: cannot be confirmed: %s", key, error)

    async def run(self) -> None:
        """Look and send whenever there is a reason to; never returns."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            await self.send_pending()

    async def send_pending(self) -> None:
        """Send the attached client what it was not sent yet; return when that is done."""
        async with self._turn:
            while (seat := self._seat) is not None:
                with trio.CancelScope() as self._sending:
                    await self._send_pending(seat)
                    return

    async def _send_pending(self, seat: Seat) -> None:
        for one in await self._pending():
            if seat is not self._seat:
                return
            if one.key in seat.sent or one.run in self._awaited_by(seat):
                continue
            seat.sent.add(one.key)
            told = Told(one.key, one.run, one.status.value, one.text, one.answer)
            await seat.send(delivery(told))

    async def _pending(self) -> Sequence[Settlement]:
        try:
            return await self._owed.pending()
        except PinataError as error:
            _log.warning("cannot look for what the session is to be told: %s", error)
            return ()
        except Exception:  # noqa: BLE001 - the runs of this process go on
            _log.exception("cannot look for what the session is to be told")
            return ()
