"""Frames between processes of one user: JSON objects, one a line, over a stream.

Nothing that the other side does, or leaves undone, costs more than a known amount of memory and
time.
"""

import json
from collections.abc import Mapping
from typing import Any

import trio

from engine.core.errors import ExternalError

_READ_BYTES = 64 << 10
# Sent piece by piece, so that a slow reader of a long frame is told from one that does not read.
_PIECE_BYTES = 64 << 10


class FrameError(ExternalError):
    """The other side sent what is no frame, or takes nothing any more."""


class FrameReader:
    """Reads frames from a stream.

    Attributes:
        limit_bytes: the longest frame that is taken, without its line feed; it may be changed
            between two frames. Hardly more than that is ever held.
    """

    def __init__(self, stream: trio.abc.ReceiveStream, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._stream = stream
        self._buffer = bytearray()
        self._seen = 0

    async def receive(self) -> dict[str, Any] | None:
        """Return the next frame; None when the other side has ended, be it within a frame.

        Cancelled, it loses nothing: the next call goes on.

        Raises:
            FrameError: what came is too long, or no JSON object in UTF-8. Nothing more can be read.
        """
        while (end := self._buffer.find(b"\n", self._seen)) < 0:
            self._seen = len(self._buffer)
            self._refuse_longer_than_allowed(self._seen)
            # No more than what could still be part of a frame that is taken.
            room = self.limit_bytes + 1 - self._seen
            try:
                data = await self._stream.receive_some(min(_READ_BYTES, room))
            except trio.BrokenResourceError:
                return None
            if not data:
                return None
            self._buffer += data
        self._refuse_longer_than_allowed(end)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._seen = 0
        return _decode(line)

    def _refuse_longer_than_allowed(self, size_bytes: int) -> None:
        if size_bytes > self.limit_bytes:
            raise FrameError(f"a frame is longer than {self.limit_bytes:,} bytes")


def _decode(line: bytes) -> dict[str, Any]:
    try:
        frame = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame is not a line of JSON in UTF-8") from error
    if not isinstance(frame, dict):
        raise FrameError("a frame is not a JSON object")
    return frame


def encode_frame(frame: Mapping[str, Any]) -> bytes:
    """Return the line of `frame`, its line feed included."""
    # In ASCII, so that half of a surrogate pair, which models do send, survives too.
    return json.dumps(frame, separators=(",", ":")).encode("ascii") + b"\n"


async def send_frame(
    stream: trio.abc.SendStream, frame: Mapping[str, Any], *, patience_s: float
) -> None:
    """Send `frame`; one task at a time may do so.

    Args:
        stream: to the other side; of no use any more after an error or a cancel.
        frame: what to say.
        patience_s: how long the other side may take nothing.

    Raises:
        FrameError: it took nothing for so long, or is gone.
    """
    await send_bytes(stream, encode_frame(frame), patience_s=patience_s)


async def send_bytes(stream: trio.abc.SendStream, data: bytes, *, patience_s: float) -> None:
    """Send frames that are encoded already, as `send_frame` does.

    Raises:
        FrameError: the other side took nothing for `patience_s`, or is gone.
    """
    rest = memoryview(data)
    while rest:
        piece, rest = rest[:_PIECE_BYTES], rest[_PIECE_BYTES:]
        try:
            with trio.fail_after(patience_s):
                await stream.send_all(piece)
        except trio.TooSlowError as error:
            message = f"the other side took nothing for {patience_s:g} s"
            raise FrameError(message) from error
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise FrameError("the other side is gone") from error
