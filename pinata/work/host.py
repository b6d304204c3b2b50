"""A session's host put together: its lock, its runs, its socket, and what clients see of it."""

import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import trio

from agents.traffic import Traffic
from engine.core.errors import HeldElsewhereError
from engine.system import locks, sockets
from engine.system.holder import read_holder
from engine.system.nursery import open_flat_nursery
from pinata.work.host_address import Address
from pinata.work.host_calls import Perform, TextOf, as_it_is
from pinata.work.host_delivery import Owed
from pinata.work.host_herd import HostHerd, no_herd
from pinata.work.host_home import ComeHome
from pinata.work.host_models import HostModels
from pinata.work.host_seat import Send, show_nothing
from pinata.work.host_server import HostServer, open_server
from pinata.work.host_terms import Terms
from pinata.work.observer import NoOnlooker, Onlooker
from pinata.work.owned_run import OwnedRun
from pinata.work.runtime import Runtime, open_runtime
from pinata.work.session import Session, prepare_session

LEAVING: Final = "the host of the session has left"
# Whoever starts a host does so alone, so only one that is leaving can be in its way.
LOCK_WAIT_S: Final = 10.0
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Work:
    """What a host does, which needs its runs.

    Attributes:
        perform: carries out calls.
        owed: what the session has still to be told.
        come_home: looks after the session's runs that nobody owns; returns what to tell of them.
        models: those that clients lend to it.
        text_of: what models read of answers.
    """

    perform: Perform
    owed: Owed
    come_home: ComeHome
    models: HostModels = field(default_factory=HostModels)
    text_of: TextOf = as_it_is


class Display(Onlooker, Protocol):
    """Shows all runs of a host to its client."""

    async def show(self, send: Send) -> None:
        """Keep what a client shows up to date; never returns."""
        ...


class NoDisplay(NoOnlooker):
    """Shows nothing."""

    async def show(self, send: Send) -> None:
        """See `Display`."""
        await show_nothing(send)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a host works.

    Attributes:
        environment: of all calls.
        version: of this program.
        tools: described, as clients are told of them.
        traffic: shared by the agents of all runs.
        display: of clients with a person before them.
        herd: opens the agents of the session, once the host is the only one.
    """

    environment: Mapping[str, str]
    version: str
    tools: Sequence[Mapping[str, Any]]
    traffic: Traffic
    display: Display = field(default_factory=NoDisplay)
    herd: Callable[[], AbstractAsyncContextManager[HostHerd]] = no_herd


@asynccontextmanager
async def open_host(
    session: Session, setting: Setting, work: Callable[[Runtime], Work]
) -> AsyncIterator[HostServer]:
    """Be the session's host inside the block; on leaving it, all that is under way is ended.

    Args:
        session: whose.
        setting: where it works.
        work: what it does with its runs.

    Raises:
        HeldElsewhereError: another process is, and does not leave.
        PinataError: the session's folder cannot be used.
    """
    await prepare_session(session)
    bell = _Bell()
    temporary = await trio.to_thread.run_sync(sockets.temporary_folder, setting.environment)
    address = Address(session, secrets.token_urlsafe(_TOKEN_BYTES), temporary)
    front = _Front()
    async with (
        _claimed(session),
        open_runtime(
            setting.traffic, leaving=LEAVING, announce=bell.ring, onlooker=setting.display
        ) as runtime,
        setting.herd() as herd,
        open_flat_nursery() as nursery,
    ):
        # Before any run is taken over: a host that nobody can reach is none.
        await nursery.start(address.keep, front.converse, nursery)
        does = work(runtime)
        terms = Terms(
            session=session.key,
            token=address.token,
            version=setting.version,
            tools=setting.tools,
            perform=does.perform,
            owed=does.owed,
            show=setting.display.show,
            models=does.models,
            herd=herd,
            text_of=does.text_of,
            asked=address.check,
        )
        async with open_server(terms, runtime, does.come_home) as server:
            bell.rings = server.look
            front.let_in(server)
            yield server
            # Connected clients hear goodbye; nobody else gets in.
            await address.withdraw()
            await server.say_goodbye()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _claimed(session: Session) -> AsyncIterator[None]:
    """Hold the session's lock inside the block, waiting a while for a host that is leaving."""
    async with AsyncExitStack() as held:
        claim = locks.hold(
            session.lock, what="the session", holder=f"its host, process {os.getpid()}"
        )
        with trio.move_on_after(LOCK_WAIT_S) as waiting:
            await held.enter_async_context(claim)
        if waiting.cancelled_caught:
            holder = await trio.to_thread.run_sync(read_holder, session.lock)
            raise HeldElsewhereError("this session", holder)
        yield


class _Front:
    """Takes connections, and has those wait that come before there is a server."""

    def __init__(self) -> None:
        self._server: HostServer | None = None
        self._is_open = trio.Event()

    def let_in(self, server: HostServer) -> None:
        """Pass on those who wait, and all who come."""
        self._server = server
        self._is_open.set()

    async def converse(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end."""
        await self._is_open.wait()
        assert self._server is not None
        await self._server.converse(stream)


class _Bell:
    """Rings when a run has ended, once there is somebody who hears it."""

    def __init__(self) -> None:
        self.rings: Callable[[], None] = lambda: None

    async def ring(self, _: OwnedRun) -> None:
        """Tell that a run has ended."""
        await trio.lowlevel.checkpoint()
        self.rings()
