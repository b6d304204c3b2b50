"""What agents write at the moment, before it is a message of their conversations. Pure."""

from dataclasses import dataclass

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    ContextCompacted,
    Event,
    MessageEnded,
    SteerDelivered,
    TextDelta,
    ToolEnded,
    Trace,
    TurnStarted,
)
from engine.core.ids import AttemptId
from engine.records.event import Logged

# More than fits on any screen.
_MOST_CHARS = 8_000
# After each of these there may be a new message.
_GROWTH = (
    AttemptSettled,
    AttemptStarted,
    ContextCompacted,
    MessageEnded,
    SteerDelivered,
    ToolEnded,
    TurnStarted,
)


@dataclass(frozen=True, slots=True)
class _Text:
    """What is being written; it is a message once the conversation is of length `whole_at`."""

    text: str
    whole_at: int | None = None


class Writing:
    """What each attempt writes, and how often its conversation may have grown."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self._noted = set[AttemptId]()
        self._texts: dict[AttemptId, _Text] = {}
        self._lengths: dict[AttemptId, int] = {}

    def noted(self, event: Trace) -> None:
        """Take in what an agent does."""
        self._noted.add(event.attempt)
        self._take(event)

    def happened(self, logged: Logged) -> None:
        """Take in an event of the log; what was noted before comes once more in it."""
        event = logged.event
        if not (isinstance(event, Trace) and event.attempt in self._noted):
            self._take(event)

    def forget(self) -> None:
        """Drop what is being written: some of it may have been missed."""
        self._texts.clear()
        self._lengths = {attempt: length + 1 for attempt, length in self._lengths.items()}

    def length(self, attempt: AttemptId) -> int:
        """Return a number that is larger once the conversation may have grown."""
        return self._lengths.get(attempt, 0)

    def text(self, attempt: AttemptId, read: int) -> str:
        """Return the end of what is being written, to follow on what was read.

        Args:
            attempt: whose.
            read: the length of the conversation when it was asked for.
        """
        found = self._texts.get(attempt, _Text(""))
        is_message = found.whole_at is not None and read >= found.whole_at
        return "" if is_message else found.text

    def _take(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            before = self._texts.get(event.attempt, _Text(""))
            text = event.text if before.whole_at is not None else before.text + event.text
            self._texts[event.attempt] = _Text(text[-_MOST_CHARS:])
        elif isinstance(event, _GROWTH):
            attempt = event.attempt
            self._lengths[attempt] = self.length(attempt) + 1
            found = self._texts.get(attempt)
            if found is not None and found.whole_at is None:
                self._texts[attempt] = _Text(found.text, self._lengths[attempt])
