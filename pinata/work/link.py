"""Lets other processes of this user reach the runs that this process owns.

A run has a socket and a `link.json` beside its records for as long as its owner works on it, and
after it has settled while somebody still watches it. Nothing that the other side does, or leaves
undone, slows or breaks a run; what goes wrong here leaves the run out of reach and no more.
"""

import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from engine.core.errors import CorruptionError, PinataError
from engine.core.ids import RunId
from engine.records.link import LIMIT_BYTES, LinkV1, decode_link, encode_link
from engine.store import RunFolder
from engine.system import files
from engine.system.clock import Clock
from engine.system.nursery import open_flat_nursery
from engine.system.sockets import discard_dead, open_listener, temporary_folder
from pinata.work.link_admission import admit
from pinata.work.link_viewer import Bounds, serve_viewer
from pinata.work.linked_run import LinkedRun
from pinata.work.observer import OpenedRun

MOST_STRANGERS: Final = 32
# How long the last words may take when this process ends.
_GOODBYE_S = 1.0
_log = logging.getLogger(f"pinata.{__name__}")


class _Door:
    """What leads into one run.

    Attributes:
        turn: held by the one who listens; the next waits until the socket before is gone.
        uses: how many listen, or are about to.
    """

    def __init__(self, run: LinkedRun) -> None:
        self.run = run
        self.turn = trio.Lock()
        self.uses = 0
        self._strangers: dict[trio.CancelScope, None] = {}

    @contextmanager
    def stranger(self) -> Iterator[None]:
        """Let somebody stand here who has not shown yet whose it is; the first may have to go."""
        if len(self._strangers) >= MOST_STRANGERS:
            self._send_away(next(iter(self._strangers)))
        with trio.CancelScope() as scope:
            self._strangers[scope] = None
            try:
                yield
            finally:
                self._strangers.pop(scope, None)

    def _send_away(self, scope: trio.CancelScope) -> None:
        del self._strangers[scope]
        scope.cancel()

    def leave(self) -> None:
        """Let nobody in any more, and have those who are in told the last."""
        for scope in tuple(self._strangers):
            self._send_away(scope)
        self.run.leave()


_Doors = dict[RunId, _Door]


class Links:
    """The runs of this process that others can reach."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """Begin without a run; `open_links` makes it."""
        self._nursery = nursery
        self._doors: _Doors = {}
        self._bounds = Bounds()

    @asynccontextmanager
    async def reachable(
        self, opened: OpenedRun, environment: Mapping[str, str], clock: Clock, *, is_lean: bool
    ) -> AsyncIterator[LinkedRun]:
        """Let others reach a run inside the block, and afterwards while somebody watches it.

        A run that somebody still watches from the last time goes on for them.

        Args:
            opened: owned by this process.
            environment: says where a socket goes whose path would be too long.
            clock: see `LinkedRun`.
            is_lean: see `LinkedRun`.
        """
        door = self._doors.get(opened.id)
        if door is None:
            door = self._doors[opened.id] = _Door(LinkedRun(opened, clock, is_lean=is_lean))
        else:
            door.run.reopen(opened)
        door.uses += 1
        ready = trio.Event()
        self._nursery.start_soon(self._keep, door, door.run.unneeded, environment, ready)
        try:
            # Whoever sees the run's first event finds its link.
            await ready.wait()
            yield door.run
        finally:
            door.run.finish()

    async def _keep(
        self,
        door: _Door,
        unneeded: trio.Event,
        environment: Mapping[str, str],
        ready: trio.Event,
    ) -> None:
        """Listen for a run until nobody needs its link; whatever goes wrong leaves the run alone.

        Args:
            door: the run's.
            unneeded: set once nobody does.
            environment: see `reachable`.
            ready: is set once others can connect, or never will.
        """
        run = door.run.run
        try:
            async with door.turn:
                await self._listen(door, unneeded, environment, ready)
        except (PinataError, OSError) as error:
            _log.warning("run %s cannot be reached from other processes: %s", run.id, error)
        except Exception:  # noqa: BLE001 - the runs of this process go on
            _log.exception("run %s cannot be reached from other processes any more", run.id)
        finally:
            ready.set()
            door.uses -= 1
            if not door.uses and self._doors.get(run.id) is door:
                del self._doors[run.id]

    async def _listen(
        self,
        door: _Door,
        unneeded: trio.Event,
        environment: Mapping[str, str],
        ready: trio.Event,
    ) -> None:
        folder = RunFolder(door.run.run.folder)
        temporary = await trio.to_thread.run_sync(_make_room, folder, environment)
        async with open_listener(folder.path, folder.link_socket.name, temporary) as listening:
            link = LinkV1(
                run=folder.run,
                socket=str(listening.path),
                token=door.run.token,
                pid=os.getpid(),
            )
            data = encode_link(link)
            await trio.to_thread.run_sync(files.replace_briefly, folder.link_file, data)
            try:
                ready.set()
                async with open_flat_nursery() as nursery:
                    nursery.start_soon(self._accept, door, listening.listener)
                    await unneeded.wait()
                    nursery.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(_remove, folder.link_file, data)

    async def _accept(self, door: _Door, listener: trio.SocketListener) -> None:
        # Whoever is connected stays when the listener goes.
        serve = partial(self._serve, door)
        await trio.serve_listeners(serve, [listener], handler_nursery=self._nursery)

    async def _serve(self, door: _Door, stream: trio.SocketStream) -> None:
        try:
            admitted = None
            with door.stranger():
                admitted = await admit(door.run, stream)
            if admitted is not None:
                await serve_viewer(door.run, stream, *admitted, bounds=self._bounds)
        except Exception:  # noqa: BLE001 - the runs of this process go on, and other viewers
            _log.exception("run %s: a connection to it broke off", door.run.run.id)

    def leave(self) -> None:
        """Let nobody in any more, and have those who are in told the last."""
        for door in tuple(self._doors.values()):
            door.leave()


def _make_room(folder: RunFolder, environment: Mapping[str, str]) -> Path:
    """Remove what a dead owner left elsewhere; return where temporary files go."""
    temporary = temporary_folder(environment)
    with suppress(FileNotFoundError, CorruptionError):
        data = files.read_regular(folder.link_file, LIMIT_BYTES)
        left = decode_link(data, str(folder.link_file))
        discard_dead(Path(left.socket), folder.link_socket.name, temporary)
    return temporary


def _remove(path: Path, data: bytes) -> None:
    """Remove a link, unless it is another owner's by now."""
    with suppress(OSError, CorruptionError):
        if files.read_regular(path, LIMIT_BYTES) == data:
            path.unlink()


@asynccontextmanager
async def open_links() -> AsyncIterator[Links]:
    """Let runs of this process be reached inside the block.

    On leaving it, whoever still watches a run is told the last, for a moment.
    """
    async with open_flat_nursery() as nursery:
        links = Links(nursery)
        yield links
        links.leave()
        nursery.cancel_scope.deadline = trio.current_time() + _GOODBYE_S
