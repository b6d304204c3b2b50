"""Commands to a Pi in RPC mode, each with its answer, until the child has ended."""

import math
from collections.abc import Mapping
from typing import Any

import trio

from agents.backends.pi_fields import PiProtocolError
from agents.backends.pi_stream import PiStream
from agents.herdsman.pi_heard import Heard, Replied
from engine.core.errors import ExternalError


class _Waiting:
    """A command that is not answered yet."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.reply: Replied | None = None


class PiCommands:
    """Sends commands; several tasks may wait for their answers at once."""

    def __init__(self, stream: PiStream[Heard]) -> None:
        """Begin with a child that may not be ready yet.

        Args:
            stream: to the child; whoever reads it calls `replied` and `hang_up`.
        """
        self._stream = stream
        # Whoever sends a command waits for its answer, so there are never many.
        self._said, self._unsaid = trio.open_memory_channel[Mapping[str, Any]](math.inf)
        self._sent = 0
        self._waiting: dict[str, _Waiting] = {}
        self._ended = trio.Event()
        self._why = ""

    @property
    def has_ended(self) -> bool:
        """Whether the child takes nothing any more."""
        return self._ended.is_set()

    async def wait_ended(self) -> str:
        """Return why the child takes nothing any more, once it does not."""
        await self._ended.wait()
        return self._why

    async def send(self, type_: str, **fields: Any) -> Replied:  # noqa: ANN401 - as JSON has them
        """Send a command and return its answer, also one that says it was not carried out.

        Raises:
            ExternalError: the child takes nothing any more.
        """
        self._sent += 1
        name = f"command-{self._sent}"
        waiting = self._waiting[name] = _Waiting()
        try:
            self.tell({"id": name, "type": type_, **fields})
            await waiting.is_over.wait()
        finally:
            del self._waiting[name]
        if waiting.reply is None:
            raise ExternalError(self._why)
        return waiting.reply

    def check(self) -> None:
        """Accept that something is about to be sent.

        Raises:
            ExternalError: the child takes nothing any more.
        """
        if self._ended.is_set():
            raise ExternalError(self._why)

    def tell(self, record: Mapping[str, Any]) -> None:
        """Send what has no answer.

        Raises:
            ExternalError: the child takes nothing any more.
        """
        self.check()
        self._said.send_nowait(record)

    async def write(self) -> None:
        """Write what is sent, until cancelled.

        By a task of its own: a line of which whoever sent it was cancelled is whole all the same.
        """
        async for record in self._unsaid:
            try:
                await self._stream.send(record)
            except PiProtocolError as error:
                self.hang_up(f"Pi does not answer: {error}")

    def replied(self, reply: Replied) -> None:
        """Take an answer; one that nobody waits for any more is dropped."""
        waiting = self._waiting.get(reply.id)
        if waiting is not None:
            waiting.reply = reply
            waiting.is_over.set()

    def hang_up(self, why: str) -> None:
        """Note that the child takes nothing any more; the first reason stays."""
        if self._ended.is_set():
            return
        self._why = why
        self._ended.set()
        for waiting in self._waiting.values():
            waiting.is_over.set()
