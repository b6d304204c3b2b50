"""One measurement for everybody who asks at about the same time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

from engine.core.errors import PinataError

T = TypeVar("T")


@dataclass(slots=True)
class _Round(Generic[T]):
    """Those who wait for the same measurement; exactly one of both is set once it is over."""

    answer: T | None = None
    failure: PinataError | None = None

    @property
    def over(self) -> bool:
        return self.answer is not None or self.failure is not None


class SharedMeasurement(Generic[T]):
    """Measures something that costs much and may change at any time, once for many.

    Whoever asks gets a measurement that began after the question, so it shows everything that had
    happened by then. There is never more than one at a time: who asks while one is going on shares
    the next one with all others who do. Nothing is kept for later, least of all a failure.
    """

    def __init__(self, measure: Callable[[], Awaitable[T]]) -> None:
        """Prepare to call `measure`, whose answer is never None."""
        self._measure = measure
        self._turn = trio.Lock()
        self._next: _Round[T] = _Round()

    async def take(self) -> T:
        """Return a measurement that begins now or later.

        When the one who measures is cancelled, the next of those who share it begins anew.

        Raises:
            PinataError: the measurement failed; everyone who shares it hears of it.
        """
        mine = self._next
        async with self._turn:
            if not mine.over:
                if self._next is mine:
                    self._next = _Round()
                try:
                    mine.answer = await self._measure()
                except PinataError as error:
                    mine.failure = error
        if mine.failure is not None:
            raise mine.failure
        assert mine.answer is not None
        return mine.answer
