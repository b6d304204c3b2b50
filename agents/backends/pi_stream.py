"""The stream between us and a Pi that runs an agent: records come, commands go."""

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import trio

from agents.backends.pi_fields import PiProtocolError

_Heard = TypeVar("_Heard")

# The last record of a conversation repeats all of it.
MAX_LINE_BYTES: Final = 64 << 20
# A Pi at work takes in what it is sent at once; only one that is lost leaves it lying.
PATIENCE_S: Final = 30.0
_PIECE_BYTES = 1 << 16


class PiStream(Generic[_Heard]):
    """Reads one record after the other; several tasks may send at once."""

    def __init__(self, stream: trio.SocketStream, decode: Callable[[bytes], _Heard | None]) -> None:
        """Begin before anything was said.

        Args:
            stream: stdin and stdout of the child.
            decode: returns what a line says, None when nothing in it matters; raises
                `PiProtocolError`.
        """
        self._stream = stream
        self._decode = decode
        self._turn = trio.Lock()
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0

    async def send(self, command: Mapping[str, Any]) -> None:
        """Send a command; a child that has ended hears nothing, which its end tells.

        Raises:
            PiProtocolError: the child takes it in no more.
        """
        line = json.dumps(command).encode() + b"\n"
        with trio.move_on_after(PATIENCE_S) as scope:
            async with self._turn:
                try:
                    await self._stream.send_all(line)
                except trio.BrokenResourceError:
                    await trio.lowlevel.checkpoint()
        if scope.cancelled_caught:
            raise PiProtocolError(f"it took in nothing for {PATIENCE_S:g} s")

    async def receive(self) -> _Heard | None:
        """Return the next thing that matters of what the child says; None when it has ended.

        Raises:
            PiProtocolError: it says what no Pi says.
        """
        while True:
            while self._lines:
                heard = self._decode(self._lines.popleft())
                if heard is not None:
                    return heard
            piece = await self._receive()
            if not piece:
                return None
            self._take(piece)

    def _take(self, piece: bytes) -> None:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            self._lines.append(b"".join([*self._parts, end]))
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > MAX_LINE_BYTES:
            raise PiProtocolError(f"it sent a line of more than {MAX_LINE_BYTES >> 20} MiB")

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_PIECE_BYTES))
        except trio.BrokenResourceError:
            return b""
