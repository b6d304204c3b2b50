"""Serves a session: greets its clients, takes their frames, and leaves when it is time to."""

import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, assert_never

import trio

from engine.core.errors import ConflictError, UsageError
from engine.core.ids import RunId
from engine.records.host import (
    AckFrame,
    CallFrame,
    CancelFrame,
    CommandFrame,
    GoodbyeFrame,
    HelloFrame,
    HoldFrame,
    UnknownFrameError,
    call_error,
    decode_client_frame,
    displaced,
    notice,
    refused,
    welcome,
)
from engine.records.host_models import ListingFrame, PiecesFrame, UsesFrame
from engine.records.host_owner import EnteredFrame, HistoryFrame, IdleFrame
from engine.system.bell import Bell
from engine.system.nursery import open_flat_nursery
from pinata.work.frames import FrameError, FrameReader
from pinata.work.host_calls import (
    HOLD,
    Answer,
    Asked,
    Calls,
    Opened,
    Tell,
)
from pinata.work.host_delivery import Dispatch
from pinata.work.host_greeting import HELLO_LIMIT_BYTES, Door
from pinata.work.host_home import ComeHome, Home
from pinata.work.host_life import (
    Act,
    Attached,
    CancelWork,
    Displace,
    Event,
    Goodbye,
    Leave,
    Left,
    Looked,
    Phase,
    Stopped,
    advance,
    begin,
)
from pinata.work.host_person import serve_person
from pinata.work.host_seat import Seat
from pinata.work.host_terms import Runs, Terms

FRAME_LIMIT_BYTES: Final = 16 << 20
# A client that attaches hears at once what the homecoming found, unless that takes long.
HOMECOMING_WAIT_S: Final = 5.0
# Where a person watches; everywhere else, what is shown would be read by nobody.
_WATCHED_MODES: Final = frozenset({"tui", "rpc"})
_LAST_WORDS_S = 1.0
_FAULT = "a fault of pinata has ended this connection; the log of the host tells more"
_log = logging.getLogger(f"pinata.{__name__}")


class HostServer:
    """A host as its clients see it."""

    def __init__(
        self, terms: Terms, runs: Runs, come_home: ComeHome, nursery: trio.Nursery
    ) -> None:
        """Begin without a client; `open_server` says what the arguments are."""
        self._terms = terms
        self._runs = runs
        self._nursery = nursery
        self._door = Door(terms.session, terms.token)
        self._dispatch = Dispatch(terms.owed, self._awaited_by)
        self._calls = Calls(
            self._perform, self._dispatch.key_of, self._dispatch.look, terms.text_of
        )
        self._life = begin(trio.current_time())
        self._changed = Bell()
        self._has_left = trio.Event()
        self._home = Home(come_home, lambda: runs.broken_off, self._came_home)
        self._seats: dict[int, Seat] = {}
        self._clients = 0

    async def watch(self) -> None:
        """Come home, tell what is to be told, and notice when time is up; never returns."""
        async with open_flat_nursery() as nursery:
            nursery.start_soon(self._home.run)
            nursery.start_soon(self._dispatch.run)
            await self._watch_time()

    async def wait_left(self) -> None:
        """Return once nothing is left to do, or the host was stopped."""
        await self._has_left.wait()

    def stop(self) -> None:
        """End the host, whoever is attached."""
        self._step(Stopped())

    def look(self) -> None:
        """Look for what is to be told: a run of the session has ended, or broke off."""
        self._terms.asked()
        self._dispatch.look()
        self._tell_notices()

    async def say_goodbye(self) -> None:
        """Tell whoever is attached that the host ends."""
        last = refused("the host of this session was ended")
        async with open_flat_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + _LAST_WORDS_S
            for seat in self._seats.values():
                nursery.start_soon(seat.dismiss, last)

    async def converse(self, stream: trio.abc.Stream) -> None:
        """Serve one connection to its end; nothing that comes of it ends another, or a run."""
        async with stream:
            try:
                await self._converse(stream)
            except Exception:  # noqa: BLE001 - the runs of this process go on, and other clients
                _log.exception("a connection broke off")

    async def _converse(self, stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, HELLO_LIMIT_BYTES)
        hello = await self._door.greet(reader, stream)
        if hello is None:
            return
        self._terms.asked()
        if hello.role == "nudge":
            self._dispatch.look()
            return
        reader.limit_bytes = FRAME_LIMIT_BYTES
        if hello.role == "person":
            await serve_person(reader, stream, hello, self._terms)
            return
        await self._attend(reader, stream, hello)

    async def _attend(
        self, reader: FrameReader, stream: trio.abc.Stream, hello: HelloFrame
    ) -> None:
        """Have a client attached until it leaves, or is displaced."""
        self._clients += 1
        seat = Seat(self._clients, Path(hello.cwd), trust=hello.trust)
        self._seats[seat.number] = seat
        goodbye = None
        async with open_flat_nursery() as nursery:
            nursery.start_soon(seat.write, stream)
            try:
                with (
                    seat.reading,
                    self._terms.models.attached(
                        seat.send, nursery, lends_models=hello.lends_models
                    ),
                    self._terms.herd.attached(seat, owns_agents=hello.owns_agents),
                ):
                    is_watched = hello.mode in _WATCHED_MODES
                    goodbye = await self._serve(seat, reader, is_watched=is_watched)
            except Exception:  # noqa: BLE001 - as for `converse`; whoever sent it hears more
                _log.exception("the connection of a client broke off")
                await seat.send(refused(_FAULT))
            finally:
                del self._seats[seat.number]
                self._step(Left(seat.number, goodbye))
                seat.close()

    async def _serve(self, seat: Seat, reader: FrameReader, *, is_watched: bool) -> Goodbye | None:
        """Welcome a client and take its frames; return what it says when it goes."""
        self._home.look_again()
        self._step(Attached(seat.number))
        if self._life.client != seat.number:
            return None  # the host is gone already, and the client looks for the next one
        async with open_flat_nursery() as nursery:
            # Whoever comes home may ask the client for models before it is welcome.
            nursery.start_soon(partial(self._welcome, seat, is_watched=is_watched))
            goodbye = await self._listen(seat, reader)
            nursery.cancel_scope.cancel()
        return goodbye

    async def _welcome(self, seat: Seat, *, is_watched: bool) -> None:
        """Tell a client what there is, and show it what works for as long as it stays."""
        with trio.move_on_after(HOMECOMING_WAIT_S):
            await self._home.wait()
        terms, notices = self._terms, list(self._home.notices)
        seat.noticed = set(notices)
        instructions = await terms.herd.instructions(seat)
        await seat.send(welcome(terms.version, list(terms.tools), notices, instructions))
        if self._life.client == seat.number:
            self._dispatch.attach(seat)
        if is_watched:
            await terms.show(seat.send)

    async def _listen(self, seat: Seat, reader: FrameReader) -> Goodbye | None:
        """Take a client's frames; return what it says when it goes."""
        try:
            while (frame := await reader.receive()) is not None:
                try:
                    goodbye = await self._take(seat, frame)
                except UnknownFrameError as error:
                    # A host may be older than its client, and outlives it.
                    await seat.send(call_error(error.id, str(error)))
                    continue
                if goodbye is not None:
                    return goodbye
        except (FrameError, UsageError) as error:
            await seat.send(refused(str(error)))
        return None

    async def _take(self, seat: Seat, received: Mapping[str, Any]) -> Goodbye | None:
        """Do what a frame asks for.

        Raises:
            UsageError: it is none that a client sends.
        """
        match decode_client_frame(received):
            case CallFrame() | HoldFrame() | CommandFrame() as frame:
                self._terms.asked()
                self._home.look_again()
                try:
                    self._calls.begin(self._nursery, seat, frame)
                except ConflictError as error:
                    await seat.send(call_error(frame.id, str(error)))
            case CancelFrame(id=id_):
                self._calls.cancel(seat, id_)
            case AckFrame(delivery=key):
                await self._dispatch.confirm(seat, key)
            case ListingFrame() | PiecesFrame() | UsesFrame() as frame:
                if self._life.client == seat.number:
                    self._terms.models.told(frame)
            case IdleFrame() | HistoryFrame() | EnteredFrame() as frame:
                if self._life.client == seat.number:
                    self._terms.herd.told(frame)
            case GoodbyeFrame(reason=reason):
                return Goodbye(reason)
            case other:
                assert_never(other)
        return None

    async def _perform(self, asked: Asked, opened: Opened, tell: Tell) -> Answer:
        if asked.tool != HOLD:
            return await self._terms.perform(asked, opened, tell)
        await self._home.wait()
        await self._runs.wait_mortal()
        await self._terms.herd.wait_told()
        await self._dispatch.send_pending()
        return {}

    def _came_home(self) -> None:
        self._dispatch.look()
        self._tell_notices()

    def _tell_notices(self) -> None:
        """Tell the attached client what it should know and was not told."""
        seat = self._seats.get(self._life.client or 0)
        if seat is None or seat.noticed is None:
            return  # it is told when it is welcome
        for says in self._home.notices:
            if says not in seat.noticed:
                seat.noticed.add(says)
                self._nursery.start_soon(seat.send, notice(says))

    async def _watch_time(self) -> None:
        while True:
            changed, until_s = self._changed.next, self._life.away_until_s
            with trio.CancelScope(deadline=float("inf") if until_s is None else until_s):
                await changed.wait()
                continue
            self._step(Looked())

    def _step(self, event: Event) -> None:
        was = self._life
        self._life, acts = advance(was, event, trio.current_time(), busy=self._is_busy)
        if self._life != was:
            _log.info("%s -> %s", was.phase.value, self._life.phase.value)
            self._dispatch.attach(None)
            self._changed.ring()
        for act in acts:
            self._do(act)

    def _do(self, act: Act) -> None:
        match act:
            case Displace(client):
                last = displaced("another client of this session has attached")
                self._nursery.start_soon(self._seats[client].dismiss, last)
            case CancelWork(reason):
                self._calls.cancel_mortal(reason)
                self._runs.cancel_mortal(reason)
                self._nursery.start_soon(self._leave_when_idle, reason)
            case Leave():
                self._has_left.set()
            case _:
                assert_never(act)

    @property
    def _is_busy(self) -> bool:
        at_rest = self._runs.is_idle and self._calls.is_idle and self._home.is_home
        return not (at_rest and self._terms.herd.is_idle)

    def _awaited_by(self, seat: Seat) -> Collection[RunId]:
        return self._calls.awaited_by(seat)

    async def _leave_when_idle(self, reason: str) -> None:
        await self._home.wait()
        if self._life.phase is Phase.LEAVING:
            # The homecoming may have begun some more.
            self._runs.cancel_mortal(reason)
        while self._life.phase is Phase.LEAVING:
            await self._runs.wait_idle()
            await self._calls.wait_idle()
            await self._home.wait()
            await self._terms.herd.wait_idle()
            self._step(Looked())


@asynccontextmanager
async def open_server(terms: Terms, runs: Runs, come_home: ComeHome) -> AsyncIterator[HostServer]:
    """Have a server inside the block, ready for connections; on leaving it, all calls are ended.

    Args:
        terms: what it serves.
        runs: of this process; they outlive the calls for them.
        come_home: looks after the session's runs that nobody owns; returns what to tell of them.
    """
    async with open_flat_nursery() as nursery:
        server = HostServer(terms, runs, come_home, nursery)
        nursery.start_soon(server.watch)
        try:
            yield server
        finally:
            await server.say_goodbye()
            nursery.cancel_scope.cancel()
