"""One conversation as it grows: what the next request shows, and what the session file keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.compaction import guess_prompt_tokens, guess_tokens, measured_tokens, summary_message
from agents.filetools.tool import ToolAnswer
from agents.models.characters import whole_characters
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AssistantMessage,
    Message,
    StopReason,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)
from agents.session import SessionFile


@dataclass(slots=True)
class Talk:
    """What was said, each message with its entry in the session file.

    Attributes:
        messages: as the model sees them.
        call_ids: of all calls so far, also of those that were cut away since.
    """

    session: SessionFile
    system: str
    tools: tuple[ToolDeclaration, ...]
    messages: list[Message] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    _entries: list[str] = field(default_factory=list)
    _measured: int = 0
    _measured_messages: int = 0

    async def open(self, brief: str) -> None:
        """Begin with the first message.

        Raises:
            ExternalError: the conversation cannot be saved; of every method here.
        """
        first = UserMessage(brief)
        self._keep(first, await self.session.open_conversation(self.system, self.tools, first))

    async def say(self, text: str) -> None:
        """Add something that the engine says."""
        message = UserMessage(text)
        self._keep(message, await self.session.add_user(message))

    async def hear(self, message: AssistantMessage, end: AnswerEnded) -> None:
        """Add an answer of the model."""
        entry = await self.session.add_answer(message, end.stop_reason, end.usage)
        self._keep(message, entry)
        self.call_ids |= {call.id for call in message.calls}
        measured = measured_tokens(end.usage)
        if measured is not None:
            self._measured, self._measured_messages = measured, len(self.messages)

    async def mishear(self, message: AssistantMessage, end: AnswerFailed) -> None:
        """Keep an answer that broke off for people to read; the model does not see it again."""
        await self.session.add_answer(message, StopReason.ERROR, end.usage, end.message)

    async def answer(self, call: ToolCall, answer: ToolAnswer) -> None:
        """Add the answer to a call."""
        text = whole_characters(answer.text)
        message = ToolMessage(call.id, call.name, text, answer.is_error)
        self._keep(message, await self.session.add_tool(message))

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has."""
        unseen = guess_tokens(self.messages[self._measured_messages :])
        if self._measured_messages:
            return self._measured + unseen
        return guess_prompt_tokens(self.system, self.tools) + unseen

    def before(self, cut: int) -> Sequence[Message]:
        """Return the messages before the place `cut`."""
        return self.messages[:cut]

    async def compact(self, cut: int, summary: str, usage: Usage) -> None:
        """Put a summary in the place of all between the first message and the place `cut`."""
        brief, replacement = self.messages[0], summary_message(summary)
        assert isinstance(brief, UserMessage)
        entry = await self.session.add_compaction(
            # Pi shows whoever continues the summary alone, so that it has to hold the task too.
            summary=f"{brief.text}\n\n{replacement.text}",
            first_kept=self._entries[cut],
            tokens_before=self.tokens,
            usage=usage,
        )
        self.messages[1:cut] = [replacement]
        self._entries[1:cut] = [entry]
        self._measured = self._measured_messages = 0

    def _keep(self, message: Message, entry: str) -> None:
        self.messages.append(message)
        self._entries.append(entry)
