"""Talks with a program for as long as it runs; it ends with the conversation, whatever it does."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import trio

from engine.core.errors import ExternalError
from engine.system.identity import ProcessIdentity
from engine.system.nursery import open_flat_nursery
from engine.system.process import ProcessExit, ProcessSpec, run


@dataclass(slots=True)
class Duplex:
    """A running program and the stream to it.

    Attributes:
        stream: what is sent is on its stdin, and what it writes to stdout is received. It ends when
            the program does, and sending fails then.
        lower: the socket below the stream.
        identity: of the program; None until it has started.
    """

    stream: trio.SocketStream
    lower: socket.socket
    identity: ProcessIdentity | None = None
    _started: trio.Event = field(default_factory=trio.Event)
    _ended: trio.Event = field(default_factory=trio.Event)
    _outcome: ProcessExit | ExternalError | None = None

    async def wait_exit(self) -> ProcessExit:
        """Return how the program ended, once it has and nothing of it is left.

        To be asked inside the block; nobody learns how a program ended that had to be ended.

        Raises:
            ExternalError: it could not be started, or its stderr not be kept.
        """
        await self._ended.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, ExternalError):
            raise self._outcome
        return self._outcome

    async def wait_started(self) -> None:
        """Return once the program runs.

        Raises:
            LaunchError: it could not be started.
        """
        await self._started.wait()
        if self.identity is None:
            await self.wait_exit()

    async def carry(self, spec: ProcessSpec, theirs: socket.socket) -> None:
        """Run the program; whatever comes of it is kept for those who ask."""

        def started(identity: ProcessIdentity) -> None:
            theirs.close()  # or the stream would not end with the program
            self.identity = identity
            self._started.set()

        try:
            self._outcome = await run(replace(spec, duplex=theirs.fileno()), started=started)
        except ExternalError as error:
            self._outcome = error
        finally:
            theirs.close()
            # A stranger may still hold the other end: nobody waits for him.
            self.lower.shutdown(socket.SHUT_RDWR)
            self._started.set()
            self._ended.set()


@asynccontextmanager
async def open_duplex(spec: ProcessSpec, *, grace_s: float) -> AsyncIterator[Duplex]:
    """Start a program and talk with it inside the block.

    On leaving, its stdin ends, and what does not end of it within the grace is ended as `run` does
    it. A cancel gives no grace.

    Args:
        spec: what to run; its stdin is what is sent, and `output` is about stderr.
        grace_s: how long it may take to end by itself.

    Raises:
        LaunchError: it could not be started; the block was not entered.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        talk = Duplex(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), ours)
        async with open_flat_nursery() as nursery:
            nursery.start_soon(talk.carry, spec, theirs)
            await talk.wait_started()
            yield talk
            with trio.move_on_after(grace_s):
                await _end_stdin(talk.stream)
                await talk.wait_exit()
            nursery.cancel_scope.cancel()


async def _end_stdin(stream: trio.SocketStream) -> None:
    try:
        await stream.send_eof()
    except trio.BrokenResourceError:
        await trio.lowlevel.checkpoint()
