"""Puts an answer together from its pieces, bounded and tidied."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import assert_never

from agents.models.arguments import MAX_CALLS
from agents.models.characters import whole_characters
from agents.models.port import (
    UNENDED,
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    AssistantMessage,
    CallReady,
    TextPiece,
    ThinkingPiece,
    Thought,
    ThoughtEnded,
    ToolCall,
)
from agents.models.trouble import MAX_MESSAGE_CHARS
from agents.tidy import TextCollector, tidy_call
from engine.core.events import TextDelta, ThinkingDelta, Trace
from engine.core.ids import AttemptId


@dataclass(slots=True)
class AnswerCollector:
    """One answer while it arrives.

    Attributes:
        attempt: whose answer it is.
        note: told of every piece that people can follow.
        taken: ids that no call of this answer may have; those of its calls join them.
        end: how it ended; a breakdown while it has not.
    """

    attempt: AttemptId
    note: Callable[[Trace], None]
    taken: set[str]
    end: AnswerEnded | AnswerFailed = UNENDED
    _text: TextCollector = field(default_factory=TextCollector)
    _thinking: TextCollector = field(default_factory=TextCollector)
    _thoughts: list[Thought] = field(default_factory=list)
    _calls: list[ToolCall] = field(default_factory=list)

    def add(self, piece: AnswerPiece) -> bool:
        """Take a piece and return whether it was the last one."""
        match piece:
            case TextPiece():
                for part in self._text.add(piece.text):
                    self.note(TextDelta(self.attempt, part))
            case ThinkingPiece():
                for part in self._thinking.add(piece.text):
                    self.note(ThinkingDelta(self.attempt, part))
            case ThoughtEnded():
                self._end_thought(piece)
            case CallReady():
                self._add_call(piece.call)
            case AnswerEnded():
                self.end = piece
            case AnswerFailed():
                message = whole_characters(piece.message[:MAX_MESSAGE_CHARS])
                self.end = replace(piece, message=message)
            case _:
                assert_never(piece)
        return isinstance(piece, AnswerEnded | AnswerFailed)

    @property
    def message(self) -> AssistantMessage:
        """What has arrived so far."""
        thoughts = tuple(self._thoughts)
        if self._thinking.text:
            thoughts += (Thought(self._thinking.text),)
        return AssistantMessage(self._text.text, tuple(self._calls), thoughts)

    def _end_thought(self, piece: ThoughtEnded) -> None:
        self._thoughts.append(Thought(self._thinking.text, piece.signature, piece.is_redacted))
        self._thinking = TextCollector()

    def _add_call(self, call: ToolCall) -> None:
        if len(self._calls) > MAX_CALLS:
            return
        tidied = tidy_call(call, self.taken, len(self.taken) + 1)
        self.taken.add(tidied.id)
        self._calls.append(tidied)
