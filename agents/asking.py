"""Asks a model until it answers, or until it is clear that it will not."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import trio

from agents.answer import AnswerCollector
from agents.budget import Budget
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AssistantMessage,
    Message,
    Model,
    ToolDeclaration,
)
from agents.retry import Patience, wait_s
from agents.traffic import Traffic
from engine.core.events import ModelThrottled, Trace
from engine.core.ids import AttemptId

Broken: TypeAlias = Callable[[AssistantMessage, AnswerFailed], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Question:
    """What one request shows to the model.

    Attributes:
        taken: ids that no call of the answer may have.
        is_aside: the answer is no part of the conversation, and nobody is shown its pieces.
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolDeclaration] = ()
    taken: frozenset[str] = frozenset()
    is_aside: bool = False


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks on behalf of one attempt: in its turn among all agents, and on its account.

    Attributes:
        traffic: shared with all agents of the process.
        budget: every answer is counted, also one that breaks off.
        note: told of every piece of an answer that people can follow.
    """

    attempt: AttemptId
    model: Model
    traffic: Traffic
    budget: Budget
    note: Callable[[Trace], None]

    async def ask(
        self, question: Question, broken: Broken
    ) -> tuple[AssistantMessage, AnswerEnded | AnswerFailed]:
        """Return the answer and how it ended, troubles that may pass waited out up to a limit.

        Args:
            question: shown again as it is after a trouble.
            broken: told of every answer that broke off, the last one included.
        """
        patience = Patience()
        while True:
            message, end = await self._request(question)
            if isinstance(end, AnswerEnded):
                return message, end
            await broken(message, end)
            if self.budget.tripped() is not None or not patience.allows(end.trouble):
                return message, end
            if not end.trouble.is_throttling:
                failures = patience.disconnected
                await trio.sleep(wait_s(failures, end.retry_after_s, self.traffic.chance))

    async def _request(
        self, question: Question
    ) -> tuple[AssistantMessage, AnswerEnded | AnswerFailed]:
        """Make one request, which tells the traffic and the budget how it went."""
        provider = self.model.provider
        async with self.budget.purse.reserved(), self.traffic.request(provider):
            message, end = await self._listen(question)
            self.budget.spend(end.usage)
            if isinstance(end, AnswerEnded):
                self.traffic.answered(provider)
            elif end.trouble.is_throttling:
                closed_s = self.traffic.throttled(provider, end.retry_after_s)
                self.note(ModelThrottled(self.attempt, closed_s))
        return message, end

    async def _listen(
        self, question: Question
    ) -> tuple[AssistantMessage, AnswerEnded | AnswerFailed]:
        """Return what one request brought, bounded and tidied, and how it ended."""
        show = _show_nobody if question.is_aside else self.note
        answer = AnswerCollector(self.attempt, show, set(question.taken))
        async with self.model.stream(question.system, question.messages, question.tools) as pieces:
            async for piece in pieces:
                if answer.add(piece):
                    break
        return answer.message, answer.end


def _show_nobody(_: Trace) -> None:
    """Let a piece of an answer pass unseen."""
