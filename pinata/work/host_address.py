"""Keeps a host where the clients of its session look for it, also when somebody removed that."""

import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import trio

from engine.core.errors import CorruptionError, PinataError
from engine.system import files
from engine.system.nursery import open_flat_nursery
from engine.system.sockets import open_listener, somebody_listens
from pinata.work.host_record import LIMIT_BYTES, find_host, published
from pinata.work.session import Session, prepare_session

SOCKET_NAME: Final = "host.sock"
_log = logging.getLogger(f"pinata.{__name__}")

Converse = Callable[[trio.SocketStream], Awaitable[None]]


class Address:
    """Where a host listens, and what tells its clients so.

    Somebody may clean up the folder of a session whose host lives: the host has no timer, but looks
    whenever it has something to do.

    Attributes:
        token: what a client must show.
    """

    def __init__(self, session: Session, token: str, temporary: Path) -> None:
        """Begin without listening.

        Args:
            session: its lock is held by this process.
            token: what a client must show.
            temporary: see `engine.system.sockets.temporary_folder`.
        """
        self._session = session
        self.token = token
        self._temporary = temporary
        self._has_begun = False
        self._is_due = trio.Event()
        self._scope = trio.CancelScope()
        self._is_withdrawn = trio.Event()

    def check(self) -> None:
        """Look soon whether the host can still be found."""
        self._is_due.set()

    async def withdraw(self) -> None:
        """Let nobody in any more; return once nothing tells of the host."""
        self._scope.cancel()
        await self._is_withdrawn.wait()

    async def keep(
        self,
        converse: Converse,
        conversations: trio.Nursery,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen until the host is withdrawn, having started once clients can find it.

        Args:
            converse: serves one connection.
            conversations: where that goes on, whatever becomes of the address.
            task_status: see `trio.Nursery.start`.

        Raises:
            PinataError: nobody could ever reach it.
        """
        try:
            with self._scope:
                while True:
                    try:
                        await prepare_session(self._session)
                        await self._listen(converse, conversations, task_status)
                    except (PinataError, OSError) as error:
                        if not self._has_begun:
                            raise
                        _log.warning("clients cannot find this host: %s", error)
                        await self._wait_due()
        finally:
            self._is_withdrawn.set()

    def _begin(self, task_status: trio.TaskStatus[None]) -> None:
        if self._has_begun:
            _log.warning("somebody removed what clients find this host by; it is there again")
        else:
            self._has_begun = True
            task_status.started()

    async def _listen(
        self,
        converse: Converse,
        conversations: trio.Nursery,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Listen until the address is lost."""
        session = self._session
        async with (
            open_listener(session.folder, SOCKET_NAME, self._temporary) as listening,
            published(session, listening.path, self.token) as record,
            open_flat_nursery() as nursery,
        ):
            facts = await trio.to_thread.run_sync(listening.path.lstat)
            serve = partial(trio.serve_listeners, converse, handler_nursery=conversations)
            nursery.start_soon(serve, [listening.listener])
            self._begin(task_status)
            while not await self._is_lost(listening.path, facts, record):
                await self._wait_due()
            nursery.cancel_scope.cancel()

    async def _wait_due(self) -> None:
        await self._is_due.wait()
        self._is_due = trio.Event()

    async def _is_lost(self, socket: Path, facts: os.stat_result, record: bytes) -> bool:
        """Return whether clients would find nobody; where they find another host, they do not."""
        if await trio.to_thread.run_sync(self._is_there, socket, facts, record):
            return False
        others = [self._session.folder / SOCKET_NAME]
        try:
            found = await find_host(self._session)
            if found is not None:
                others.append(Path(found.socket))
            return not await trio.to_thread.run_sync(_is_taken, others, facts)
        except PinataError as error:
            _log.warning("clients may not find this host: %s", error)
            return False

    def _is_there(self, socket: Path, facts: os.stat_result, record: bytes) -> bool:
        try:
            is_told = files.read_regular(self._session.host_file, LIMIT_BYTES) == record
            return is_told and os.path.samestat(socket.lstat(), facts)
        except (OSError, CorruptionError):
            return False


def _is_taken(sockets: list[Path], own: os.stat_result) -> bool:
    """Return whether another process listens at one of these."""
    for path in sockets:
        try:
            is_own = os.path.samestat(path.lstat(), own)
        except OSError:
            continue
        if not is_own and somebody_listens(path):
            return True
    return False
