"""Lets agents of a session's host ask models through the program that is attached to it.

Every stream has a place of its own for what it brings, and at most one frame waits in it: a stream
that nobody takes anything from costs no more than that, and none waits for another. When the
program goes, its streams end; whoever asks then waits for the next one. At rest there is no timer.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import trio

from agents.models.coordinator import Listing
from engine.core.spec import ModelChoice
from engine.records.host_models import (
    ListingFrame,
    PiecesFrame,
    StreamRequest,
    UsesFrame,
    abort,
    find_model,
    more,
    stream,
)
from engine.system.bell import Bell

# A session that starts its host attaches to it a moment later.
ATTACH_WAIT_S: Final = 5.0
FIND_WAIT_S: Final = 10.0
NOBODY: Final = "no session is attached"
SILENT: Final = "the attached session lends no models"
LATE: Final = f"the attached session did not answer within {FIND_WAIT_S:g} s"
LEFT: Final = "the session went away"

Send = Callable[[Mapping[str, Any]], Awaitable[bool]]


class HostModels:
    """The models of whoever is attached; a `Coordinator`.

    All methods are for the thread that trio runs in.
    """

    def __init__(self) -> None:
        """Begin with nobody attached."""
        self._lender: _Lender | None = None
        self._client: object = None
        self._preferred: ModelChoice | None = None
        self._changed = Bell()
        self._last_number = 0

    @property
    def preferred(self) -> ModelChoice | None:
        """The model that the attached session itself works with; None when it is not known."""
        return self._preferred

    @contextmanager
    def attached(self, send: Send, nursery: trio.Nursery, *, lends_models: bool) -> Iterator[None]:
        """Have a client attached inside the block; one that was attached before is no longer asked.

        Args:
            send: hands a frame to the client; tells whether it was still there.
            nursery: open for as long as the block; for what is sent after nobody waits any more.
            lends_models: whether the client understands what it is asked here.
        """
        self._release()
        client = self._client = object()
        self._lender = _Lender(send, nursery) if lends_models else None
        self._changed.ring()
        try:
            yield
        finally:
            if self._client is client:
                self._release()

    def told(self, frame: ListingFrame | PiecesFrame | UsesFrame) -> None:
        """Take what the client says; an answer that nobody waits for any more is dropped."""
        if isinstance(frame, UsesFrame):
            self._preferred = ModelChoice(frame.provider, frame.model, frame.thinking)
        elif self._lender is not None:
            self._lender.answered(frame)

    async def find(self, provider: str, id_: str) -> Listing | str:
        """Return what the attached session knows of a model, or why it cannot be asked."""
        with trio.move_on_after(ATTACH_WAIT_S):
            while self._client is None:
                await self._changed.wait()
        lender = self._lender
        if lender is None:
            return NOBODY if self._client is None else SILENT
        with trio.move_on_after(FIND_WAIT_S):
            return await lender.find(self._next_number(), provider, id_)
        return LATE

    @asynccontextmanager
    async def ask(self, request: StreamRequest) -> AsyncIterator["_Stream"]:
        """Open an answer; leaving the block early drops the rest of it.

        While nobody is attached who lends models, it waits for somebody.
        """
        while (lender := self._lender) is None:
            await self._changed.wait()
        with lender.opened(self._next_number(), request) as answer:
            yield answer

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _release(self) -> None:
        """End what the client that is attached was asked."""
        if self._lender is not None:
            self._lender.leave()
        self._lender = self._client = self._preferred = None


class _Lender:
    """One attached client, and what it was asked."""

    def __init__(self, send: Send, nursery: trio.Nursery) -> None:
        self.send = send
        self.nursery = nursery
        self._streams: dict[int, _Stream] = {}
        self._finds: dict[int, _Find] = {}

    async def find(self, number: int, provider: str, id_: str) -> Listing | str:
        found = self._finds[number] = _Find()
        try:
            if not await self.send(find_model(number, provider, id_)):
                return LEFT
            await found.has_come.wait()
            return found.what
        finally:
            del self._finds[number]

    @contextmanager
    def opened(self, number: int, request: StreamRequest) -> Iterator["_Stream"]:
        answer = _Stream(number, request, self.send)
        self._streams[number] = answer
        try:
            yield answer
        finally:
            # Gone from here when the client has left: it drops all by itself then.
            if self._streams.pop(number, None) is not None and answer.is_under_way:
                self.nursery.start_soon(self.send, abort(number))

    def answered(self, frame: ListingFrame | PiecesFrame) -> None:
        if isinstance(frame, PiecesFrame):
            answer = self._streams.get(frame.request)
            if answer is not None:
                answer.bring(frame.pieces)
        elif frame.request in self._finds:
            self._finds[frame.request].bring(_listing(frame))

    def leave(self) -> None:
        for answer in self._streams.values():
            answer.end()
        self._streams.clear()
        for found in self._finds.values():
            found.bring(LEFT)


class _Find:
    """A question after a model."""

    def __init__(self) -> None:
        self.has_come = trio.Event()
        self.what: Listing | str = LEFT

    def bring(self, what: Listing | str) -> None:
        self.what = what
        self.has_come.set()


class _Stream:
    """An answer under way; a `Pieces`."""

    def __init__(self, number: int, request: StreamRequest, send: Send) -> None:
        self._number = number
        self._request = request
        self._send = send
        self._waiting: Sequence[Mapping[str, Any]] | None = None
        self._was_asked = False
        self._is_complete = False
        self._has_ended = False
        self._changed = trio.Event()

    @property
    def is_under_way(self) -> bool:
        """Whether the client was asked, and has not said all."""
        return self._was_asked and not self._is_complete

    async def receive(self) -> Sequence[Mapping[str, Any]]:
        """Ask for what has come since and return it; nothing when the client is gone."""
        asks = more(self._number) if self._was_asked else stream(self._number, self._request)
        if self._has_ended or not await self._send(asks):
            return ()
        self._was_asked = True
        while self._waiting is None and not self._has_ended:
            await self._changed.wait()
        received, self._waiting = self._waiting or (), None
        self._changed = trio.Event()
        return received

    def bring(self, pieces: Sequence[Mapping[str, Any]]) -> None:
        """Take a frame; one that nobody asked for ends the stream: that client knows no limit."""
        if self._waiting is not None:
            self.end()
            return
        self._waiting = pieces
        if any(piece.get("type") in ("end", "fault") for piece in pieces):
            self._is_complete = True
        self._changed.set()

    def end(self) -> None:
        """Say that nothing more comes."""
        self._has_ended = True
        self._changed.set()


def _listing(frame: ListingFrame) -> Listing | str:
    if frame.fault is not None:
        return frame.fault
    return Listing(frame.context_tokens, frame.has_price)
