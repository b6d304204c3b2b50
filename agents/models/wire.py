"""What passes between us and a provider: how much of it, and what may go wrong. Pure.

* WireError
  - MalformedError     what came is not read any further
    + ShapeError         it is no event of this API
  - DroppedError       the connection failed
  - ReportedError      the provider says what is wrong, in the middle of an answer
    + RefusedError       or instead of one
"""

from collections.abc import Mapping

# Without a byte for that long an answer counts as dropped. Reasoning models are silent for minutes.
IDLE_TIMEOUT_S = 300.0
# Whoever goes away waits no longer for a connection to end.
CLOSE_TIMEOUT_S = 1.0
# Providers spend some 300 bytes on a token, so this holds the longest answers several times over.
MAX_ANSWER_BYTES = 256 << 20
# A library keeps an event until it is complete, and a call may come with all its arguments in one.
MAX_EVENT_BYTES = 16 << 20
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_LONGEST_END = max(map(len, _EVENT_ENDS))


class WireError(Exception):
    """What a request, or the reading of its answer, raises when something outside fails."""


class MalformedError(WireError):
    """A server sends what is not read any further; the text says what."""


class ShapeError(MalformedError):
    """An event does not have the shape that its API promises."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(f"the server does not speak this API: {fault}")


class DroppedError(WireError):
    """A connection could not be made, or broke."""


class ReportedError(WireError):
    """The provider breaks its answer off.

    Attributes:
        code: its own word for what is wrong; empty when it gives none.
        words: what it says to people.
    """

    def __init__(self, code: str, words: str) -> None:
        self.code = code
        self.words = words
        super().__init__(f"{code}: {words}" if code and code not in words else words)


class RefusedError(ReportedError):
    """The provider does not begin to answer.

    Attributes:
        status: of HTTP.
        headers: of the refusal; names in any case.
    """

    def __init__(self, status: int, code: str, words: str, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        super().__init__(code, words)


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
            MalformedError: the answer, or the event that is not complete yet, is too large.
        """
        seen = self._tail + part
        ends = (seen.rfind(end) + len(end) for end in _EVENT_ENDS if end in seen)
        last_end = max(ends, default=0)
        self._event_bytes = len(seen) - last_end if last_end else self._event_bytes + len(part)
        self._answer_bytes += len(part)
        self._tail = seen[1 - _LONGEST_END :]
        if self._answer_bytes > self._max_answer_bytes:
            raise MalformedError(f"the answer is larger than {self._max_answer_bytes:,} bytes")
        if self._event_bytes > self._max_event_bytes:
            limit = f"{self._max_event_bytes:,} bytes"
            raise MalformedError(f"a line or an event of the answer is larger than {limit}")
