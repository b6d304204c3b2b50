"""A storm of refusals on a real connection: everybody is slowed and nobody fails."""

from math import ceil
from pathlib import Path

import pytest
import trio

from agents.loop import AgentOutcome, Submitted
from agents.traffic import Traffic
from engine.core.limiter import Limiter
from engine.core.spec import Kind
from tests.support.agents import open_studio, submits
from tests.support.model_dialects import Refusal
from tests.support.model_server import Answer, ModelRequest, Spoken, open_model_server
from tests.support.models import open_openai_model

AGENTS = 64
STORM_S = 0.5
RETRY_AFTER_S = 0.05


class Storm:
    """Refuses everything for a while after the first request, and counts.

    Attributes:
        lasted_s: from the first request to the last refusal.
    """

    def __init__(self) -> None:
        self.refused = 0
        self.lasted_s = 0.0
        self._began_at: float | None = None

    def choose(self, _: ModelRequest) -> Answer:
        now = trio.current_time()
        self._began_at = self._began_at or now
        if now - self._began_at < STORM_S:
            self.refused += 1
            self.lasted_s = now - self._began_at
            headers = {"Retry-After-Ms": str(round(RETRY_AFTER_S * 1000))}
            return Refusal(429, "slow down", "rate_limit_exceeded", headers)
        return Spoken(submits())


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_64_agents_at_once_come_through_a_storm(tmp_path: Path) -> None:
    storm, limiter = Storm(), Limiter()
    traffic = Traffic(limiter, lambda: 0.5)
    outcomes: list[AgentOutcome] = []
    async with open_model_server(storm.choose) as server, open_openai_model(server) as model:
        first = limiter.capacity(model.provider)

        async def lead(number: int) -> None:
            folder = tmp_path / str(number)
            folder.mkdir()
            studio = open_studio(folder, Kind.WRITER)
            studio.traffic = traffic
            outcomes.append(await studio.run(model))

        async with trio.open_nursery() as nursery:
            for number in range(AGENTS):
                nursery.start_soon(lead, number)
    assert [type(outcome) for outcome in outcomes] == [Submitted] * AGENTS
    # As many as a new provider gets are refused together, and from then on one at a time, each as
    # late as the one before asked for.
    assert 0 < storm.refused <= first + ceil(storm.lasted_s / RETRY_AFTER_S)
    assert len(server.requests) == AGENTS + storm.refused
    assert limiter.capacity(model.provider) >= 1 + (AGENTS - first) // 10
