"""One conversation as it grows: what the next request shows, and what the session file keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.compaction import summary_message
from agents.filetools.tool import ToolAnswer
from agents.history import History, tool_answer
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AssistantMessage,
    Message,
    StopReason,
    ToolCall,
    ToolDeclaration,
    Usage,
    UserMessage,
)
from agents.session import SessionFile


@dataclass(slots=True)
class Talk:
    """What was said, each message with its entry in the session file."""

    session: SessionFile
    system: str
    tools: tuple[ToolDeclaration, ...]
    history: History = field(default_factory=History)

    @property
    def messages(self) -> Sequence[Message]:
        """What was said, as the model sees it."""
        return self.history.messages

    async def open(self, brief: str) -> None:
        """Begin with the first message.

        Raises:
            ExternalError: the conversation cannot be saved; of every method here.
        """
        first = UserMessage(brief)
        entry = await self.session.open_conversation(self.system, self.tools, first)
        self.history.keep(first, entry)

    async def say(self, text: str) -> None:
        """Add something that the engine says."""
        message = UserMessage(text)
        self.history.keep(message, await self.session.add_user(message))

    async def hear(self, message: AssistantMessage, end: AnswerEnded) -> None:
        """Add an answer of the model."""
        entry = await self.session.add_answer(message, end.stop_reason, end.usage)
        self.history.keep_answer(message, entry, end.usage)

    async def mishear(self, message: AssistantMessage, end: AnswerFailed) -> None:
        """Keep an answer that broke off for people to read; the model does not see it again."""
        await self.session.add_answer(message, StopReason.ERROR, end.usage, end.message)

    async def answer(self, call: ToolCall, answer: ToolAnswer) -> None:
        """Add the answer to a call."""
        message = tool_answer(call, answer)
        self.history.keep(message, await self.session.add_tool(message))

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has."""
        return self.history.tokens(self.system, self.tools)

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
            first_kept=self.history.entry_at(cut),
            tokens_before=self.tokens,
            usage=usage,
        )
        self.history.replace(1, cut, replacement, entry)
