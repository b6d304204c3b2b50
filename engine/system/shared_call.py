"""A call whose answer serves all who wanted it before it began."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Makes one call at a time, however many want its answer.

    Nobody gets an answer that is older than the wish: the call that serves it began after it. So
    who comes while a call is under way waits for the next one, together with all others who do.
    """

    def __init__(self) -> None:
        """Begin without any call."""
        self._turn = trio.Lock()
        self._begun = 0
        self._answer: tuple[int, T] | None = None

    async def get(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of a call that begins from now on.

        What the call raises reaches the one who made it; the next one who waits makes another.

        Args:
            call: of all who share the answer the same.
        """
        earliest = self._begun + 1
        async with self._turn:
            if self._answer is not None and self._answer[0] >= earliest:
                return self._answer[1]
            self._begun += 1
            number = self._begun
            answer = await call()
            self._answer = number, answer
            return answer
