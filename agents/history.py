"""What was said in a conversation, as its model sees it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.compaction import guess_prompt_tokens, guess_tokens, measured_tokens
from agents.filetools.tool import ToolAnswer
from agents.models.characters import whole_characters
from agents.models.port import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    Usage,
)


@dataclass(slots=True)
class History:
    """Messages in order, each with its entry in the session file.

    Attributes:
        call_ids: of all calls so far, also of those that were cut away since.
    """

    messages: list[Message] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    _entries: list[str] = field(default_factory=list)
    _measured: int = 0
    _measured_messages: int = 0

    def keep(self, message: Message, entry: str) -> None:
        """Add a message that stands in the session file as `entry`."""
        self.messages.append(message)
        self._entries.append(entry)
        if isinstance(message, AssistantMessage):
            self.call_ids |= {call.id for call in message.calls}

    def keep_answer(self, message: AssistantMessage, entry: str, usage: Usage) -> None:
        """Add an answer of the model, which also says how long the conversation is."""
        self.keep(message, entry)
        measured = measured_tokens(usage)
        if measured is not None:
            self._measured, self._measured_messages = measured, len(self.messages)

    def entry_at(self, place: int) -> str:
        """Return the entry of the message at `place`."""
        return self._entries[place]

    def replace(self, start: int, end: int, message: Message, entry: str) -> None:
        """Put one message in the place of those from `start` up to `end`."""
        self.messages[start:end] = [message]
        self._entries[start:end] = [entry]
        self._measured = self._measured_messages = 0

    def tokens(self, system: str, tools: Sequence[ToolDeclaration]) -> int:
        """Return about how many tokens the next request has, with what comes before it all."""
        unseen = guess_tokens(self.messages[self._measured_messages :])
        if self._measured_messages:
            return self._measured + unseen
        return guess_prompt_tokens(system, tools) + unseen

    def unanswered(self) -> tuple[ToolCall, ...]:
        """Return the calls of the last answer that no tool has answered yet, in order."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage):
                return tuple(call for call in message.calls if call.id not in answered)
            if not isinstance(message, ToolMessage):
                break
            answered.add(message.call)
        return ()


def tool_answer(call: ToolCall, answer: ToolAnswer) -> ToolMessage:
    """Return an answer of a tool as a message."""
    return ToolMessage(call.id, call.name, whole_characters(answer.text), answer.is_error)
