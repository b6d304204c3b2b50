"""A provider of models that is asked too much for a while, in trio's time."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from agents.models.port import (
    AnswerFailed,
    AnswerPiece,
    Message,
    ToolDeclaration,
    Trouble,
)

PROVIDER = "stormy"


@dataclass
class StormyProvider:
    """Refuses whatever is asked during the storm, and counts all that is asked.

    Attributes:
        ends_at: trio's time from which it answers.
        retry_after_s: what it asks for when it refuses.
        answer: what it says once it is calm.
        pause_s: how long each answer takes.
    """

    ends_at: float
    retry_after_s: float | None
    answer: Callable[[], Sequence[AnswerPiece]]
    pause_s: float = 0.25
    requests: int = 0
    refused: int = 0
    in_flight: int = 0
    most_in_flight: int = 0

    provider: str = PROVIDER
    id: str = "m"
    context_tokens: int | None = None

    @asynccontextmanager
    async def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AsyncIterator[AsyncIterator[AnswerPiece]]:
        self.requests += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        pieces = self._pieces()
        try:
            yield pieces
        finally:
            self.in_flight -= 1
            await pieces.aclose()

    async def _pieces(self) -> AsyncGenerator[AnswerPiece, None]:
        is_storm = trio.current_time() < self.ends_at
        await trio.sleep(self.pause_s)
        if is_storm:
            self.refused += 1
            yield AnswerFailed(Trouble.RATE_LIMIT, "slow down", retry_after_s=self.retry_after_s)
            return
        for piece in self.answer():
            yield piece
