from math import ceil, inf
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agents.loop import AgentOutcome, Submitted
from agents.traffic import Traffic
from engine.core.events import ModelThrottled
from engine.core.limiter import Limiter
from engine.core.spec import Kind
from tests.support.agents import Studio, free_traffic, open_studio, submits
from tests.support.storms import PROVIDER, StormyProvider

A, B = "acme", "other"


async def _ask(traffic: Traffic, provider: str, log: list[str], name: str = "") -> None:
    async with traffic.request(provider):
        log.append(name)
        await trio.sleep(1)


async def test_no_more_requests_are_under_way_than_the_provider_bears(
    autojump_clock: MockClock,
) -> None:
    limiter, log = Limiter(), list[str]()
    traffic = Traffic(limiter, lambda: 0.5)
    capacity = limiter.capacity(A)
    async with trio.open_nursery() as nursery:
        for _ in range(3 * capacity):
            nursery.start_soon(_ask, traffic, A, log)
        for second in range(3):
            await trio.sleep(0.5)
            assert len(log) == (second + 1) * capacity
            await trio.sleep(0.5)


async def test_a_refusal_closes_the_gate_for_all_and_for_one_provider_only(
    autojump_clock: MockClock,
) -> None:
    traffic, log = free_traffic(), list[str]()
    assert traffic.throttled(A, 30.0) == 30.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ask, traffic, A, log, "a")
        nursery.start_soon(_ask, traffic, B, log, "b")
        await trio.sleep(29)
        assert log == ["b"]
    assert log == ["b", "a"]
    assert trio.current_time() == 31


async def test_an_answer_that_was_under_way_does_not_open_a_closed_gate(
    autojump_clock: MockClock,
) -> None:
    traffic = free_traffic()
    traffic.throttled(A, 30.0)
    traffic.answered(A)
    async with traffic.request(A):
        assert trio.current_time() == 30


async def test_refusals_in_a_row_wait_longer_and_an_answer_ends_the_row(
    autojump_clock: MockClock,
) -> None:
    traffic = Traffic(Limiter(), lambda: 0.5)
    waits = []
    for _ in range(4):
        waits.append(traffic.throttled(A, None))
        await trio.sleep(waits[-1])
    assert waits == [0.5, 1, 2, 4]
    traffic.answered(A)
    assert traffic.throttled(A, None) == 0.5


async def test_refusals_of_requests_that_were_under_way_together_count_as_one(
    autojump_clock: MockClock,
) -> None:
    traffic = Traffic(Limiter(), lambda: 0.5)
    assert [traffic.throttled(A, None) for _ in range(8)] == [0.5] * 8
    assert traffic.throttled(A, 20.0) == 20.0
    assert traffic.throttled(A, 3.0) == 20.0
    await trio.sleep(20)
    assert traffic.throttled(A, None) == 1


async def test_a_cancelled_request_frees_its_place() -> None:
    limiter, log = Limiter(1), list[str]()
    traffic = Traffic(limiter, lambda: 0.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ask, traffic, A, log, "cancelled under way")
        await wait_all_tasks_blocked()
        nursery.start_soon(_ask, traffic, A, log, "cancelled in line")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    async with traffic.request(A):
        log.append("next")
    assert log == ["cancelled under way", "next"]


async def test_at_rest_there_is_no_timer() -> None:
    traffic = free_traffic()
    async with traffic.request(A):
        pass
    traffic.throttled(A, 1_000.0)
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf


async def _lead_all(
    tmp_path: Path, model: StormyProvider, traffic: Traffic, count: int
) -> tuple[list[Studio], list[AgentOutcome]]:
    studios, outcomes = [], []

    async def lead(studio: Studio) -> None:
        outcomes.append(await studio.run(model))

    async with trio.open_nursery() as nursery:
        for number in range(count):
            folder = tmp_path / str(number)
            folder.mkdir()
            studio = open_studio(folder, Kind.WRITER)
            studio.traffic = traffic
            studios.append(studio)
            nursery.start_soon(lead, studio)
    return studios, outcomes


@pytest.mark.slow
async def test_a_storm_slows_64_agents_and_fails_none(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    storm_s, retry_after_s = 30.0, 2.0
    limiter = Limiter()
    first = limiter.capacity(PROVIDER)
    model = StormyProvider(trio.current_time() + storm_s, retry_after_s, submits)
    studios, outcomes = await _lead_all(tmp_path, model, Traffic(limiter, lambda: 0.5), 64)
    assert [type(outcome) for outcome in outcomes] == [Submitted] * 64
    # The first requests are refused together, which leaves room for one; from then on one is made
    # each time that the provider allows it, until the storm is over.
    assert model.refused <= first + ceil(storm_s / retry_after_s)
    assert model.requests == 64 + model.refused
    assert model.most_in_flight == first
    assert limiter.capacity(PROVIDER) == 1 + 64 // 10
    told = [note for studio in studios for note in studio.notes]
    assert sum(isinstance(note, ModelThrottled) for note in told) == model.refused


@pytest.mark.slow
async def test_a_provider_that_names_no_time_is_asked_less_and_less(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    limiter = Limiter()
    first = limiter.capacity(PROVIDER)
    model = StormyProvider(trio.current_time() + 600, None, submits)
    _, outcomes = await _lead_all(tmp_path, model, Traffic(limiter, lambda: 0.5), 64)
    assert [type(outcome) for outcome in outcomes] == [Submitted] * 64
    # Half of 1, 2, 4, 8, 16 and 32 seconds, then half a minute each, for ten minutes.
    assert model.refused <= first + 6 + ceil(600 / 30)
