"""What a run may spend, held for all of its agents together.

An agent may alone use up all that is left when it starts, and only together can several pass the
limit. What keeps them from passing it by far is a reservation: before a request is made, as much
is set aside for it as the dearest answer of the run cost so far. A request for which that is not
left waits until the ones under way have come in, unless none is under way.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

from agents.line import Line
from engine.core.cost import is_over


class Purse:
    """The dollars of a run, spent and set aside. Without a limit nobody ever waits."""

    def __init__(self, limit_usd: float | None = None, spent_usd: float = 0.0) -> None:
        """Begin with what was spent before, by earlier attempts and processes too."""
        self._limit_usd = limit_usd
        self._spent_usd = spent_usd
        self._dearest_usd = 0.0
        self._line = Line(self._delay_s)

    @property
    def spent_usd(self) -> float:
        """What all agents of the run spent, as far as prices are known."""
        return self._spent_usd

    @property
    def left_usd(self) -> float | None:
        """What an agent that starts now may spend; None when there is no limit."""
        if self._limit_usd is None:
            return None
        return max(0.0, self._limit_usd - self._spent_usd)

    def spend(self, cost_usd: float | None) -> None:
        """Take out what an answer cost; something unknown counts for nothing."""
        self._spent_usd += cost_usd or 0.0
        self._dearest_usd = max(self._dearest_usd, cost_usd or 0.0)
        self._line.wake()

    @asynccontextmanager
    async def reserved(self) -> AsyncIterator[None]:
        """Set aside what a request may cost, as soon as there is enough, until it has come in.

        Once the limit is passed this waits for ever: the run is being cancelled.
        """
        async with self._line.passed():
            yield

    def _delay_s(self) -> float:
        if self._limit_usd is None:
            return 0.0
        under_way = self._line.inside
        if not under_way:
            return inf if is_over(self._spent_usd, self._limit_usd) else 0.0
        expected_usd = self._spent_usd + (under_way + 1) * self._dearest_usd
        return inf if is_over(expected_usd, self._limit_usd) else 0.0
