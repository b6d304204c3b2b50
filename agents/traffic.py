"""The traffic to model providers, shared by all agents of a process.

A provider that throttles one agent throttles them all: each of them would make it worse. So the
gate to a provider closes for all of them for as long as it asks to be left alone, and opens to as
many requests at once as the limiter thinks it can bear.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from math import inf

import trio

from agents.line import Line
from agents.retry import Chance, wait_s
from engine.core.limiter import Limiter


class _Gate:
    """The way to one provider.

    Attributes:
        opens_at: trio's time before which nobody passes.
        failures: how often in a row the provider had enough, as far as each was a new surprise.
        line: who waits and who is inside.
    """

    def __init__(self, provider: str, limiter: Limiter) -> None:
        self.opens_at = -inf
        self.failures = 0
        self.line = Line(partial(self._delay_s, provider, limiter))

    @property
    def closed_s(self) -> float:
        """How long it stays closed, in seconds."""
        return max(0.0, self.opens_at - trio.current_time())

    def _delay_s(self, provider: str, limiter: Limiter) -> float:
        if self.line.inside >= limiter.capacity(provider):
            return inf
        return self.closed_s


class Traffic:
    """Lets requests through, as many and as often as their provider bears.

    All methods are for the thread that trio runs in. At rest there is no timer.

    Attributes:
        limiter: what each provider bears.
        chance: draws waits that nobody names, here and for whoever comes this way.
    """

    def __init__(self, limiter: Limiter, chance: Chance) -> None:
        """Begin with all gates open.

        Args:
            limiter: knows what each provider bears, and learns it from here.
            chance: draws the waits that a provider does not name.
        """
        self.chance = chance
        self.limiter = limiter
        self._gates: dict[str, _Gate] = {}

    @asynccontextmanager
    async def request(self, provider: str) -> AsyncIterator[None]:
        """Wait for a turn to ask `provider`, first come, first served; leave it by leaving."""
        async with self._gate(provider).line.passed():
            yield

    def answered(self, provider: str) -> None:
        """Note that `provider` gave an answer; a gate that is closed stays closed."""
        gate = self._gate(provider)
        gate.failures = 0
        self.limiter.answered(provider)
        gate.line.wake()

    def throttled(self, provider: str, retry_after_s: float | None) -> float:
        """Note that `provider` was asked too much, and return for how long its gate is closed now.

        What was under way when the gate closed says nothing new: it can prolong the wait that the
        provider names, and does not make anyone wait longer otherwise.
        """
        gate = self._gate(provider)
        self.limiter.throttled(provider)
        is_news = not gate.closed_s
        if is_news:
            gate.failures += 1
        if is_news or retry_after_s is not None:
            delay_s = wait_s(gate.failures, retry_after_s, self.chance)
            gate.opens_at = max(gate.opens_at, trio.current_time() + delay_s)
        return gate.closed_s

    def _gate(self, provider: str) -> _Gate:
        if provider not in self._gates:
            self._gates[provider] = _Gate(provider, self.limiter)
        return self._gates[provider]
