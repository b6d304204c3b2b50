"""What passes between us and a provider's library: how much, and how it is brought to its end."""

from contextlib import suppress
from typing import Protocol

import trio

# Without a byte for that long an answer counts as dropped. Reasoning models are silent for minutes.
IDLE_TIMEOUT_S = 300.0
# Providers spend some 300 bytes on a token, so this holds the longest answers several times over.
MAX_ANSWER_BYTES = 256 << 20
# A library keeps an event until it is complete, and a call may come with all its arguments in one.
MAX_EVENT_BYTES = 16 << 20
_FINISH_TIMEOUT_S = 1.0
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_LONGEST_END = max(map(len, _EVENT_ENDS))


class WireError(Exception):
    """A server sends what is not read any further; the text says what."""


class Meter:
    """Counts what a server sends in one answer, events and all, and says when it is too much.

    Source of what ends an event: HTML, section 9.2.6, "Interpreting an event stream". A body that
    is no event stream counts as one event.
    """

    def __init__(
        self, *, max_answer_bytes: int = MAX_ANSWER_BYTES, max_event_bytes: int = MAX_EVENT_BYTES
    ) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._max_event_bytes = max_event_bytes
        self._answer_bytes = 0
        self._event_bytes = 0
        self._tail = b""

    def count(self, part: bytes) -> None:
        """Add a part of the answer.

        Raises:
            WireError: the answer, or the event that is not complete yet, is too large.
        """
        seen = self._tail + part
        ends = (seen.rfind(end) + len(end) for end in _EVENT_ENDS if end in seen)
        last_end = max(ends, default=0)
        self._event_bytes = len(seen) - last_end if last_end else self._event_bytes + len(part)
        self._answer_bytes += len(part)
        self._tail = seen[1 - _LONGEST_END :]
        if self._answer_bytes > self._max_answer_bytes:
            raise WireError(f"the answer is larger than {self._max_answer_bytes:,} bytes")
        if self._event_bytes > self._max_event_bytes:
            limit = f"{self._max_event_bytes:,} bytes"
            raise WireError(f"a line or an event of the answer is larger than {limit}")


class LibraryStream(Protocol):
    """What both libraries call a stream of events."""

    async def __anext__(self) -> object:
        """Return the next event."""
        ...

    async def close(self) -> None:
        """Close its connection."""
        ...


async def finish_stream(stream: LibraryStream) -> None:
    """Close a stream's connection and bring the stream to its end, cancelled or not.

    The libraries leave the generators of a stream that is dropped half way where they stand, which
    trio rightly complains about. After the connection they end by themselves, once they are asked.
    """
    with trio.move_on_after(_FINISH_TIMEOUT_S, shield=True):
        with suppress(Exception):  # the answer has been judged; how its connection dies is no news
            await stream.close()
        with suppress(Exception):
            while True:
                await anext(stream)
