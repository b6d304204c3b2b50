"""How many measurements a burst of questions costs, and which one each of them gets."""

from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from engine.core.errors import ExternalError
from pinata.work.sharing import SharedMeasurement


@dataclass(slots=True)
class Instrument:
    """Answers with the number of the measurement once the test lets it end.

    Attributes:
        begun: how many measurements began.
        at_once: the most that went on at the same time.
        failing: numbers of measurements that fail.
    """

    begun: int = 0
    at_once: int = 0
    failing: frozenset[int] = frozenset()
    _going: int = 0
    _gates: dict[int, trio.Event] = field(default_factory=dict)

    async def measure(self) -> int:
        self.begun += 1
        number = self.begun
        self._gates[number] = trio.Event()
        self._going += 1
        self.at_once = max(self.at_once, self._going)
        try:
            await self._gates[number].wait()
        finally:
            self._going -= 1
        if number in self.failing:
            raise ExternalError(f"measurement {number} failed")
        return number

    async def finish(self, number: int) -> None:
        """Let a measurement end, and everybody react."""
        self._gates[number].set()
        await wait_all_tasks_blocked()


@dataclass(slots=True)
class Crowd:
    """People who ask."""

    nursery: trio.Nursery
    shared: SharedMeasurement[int]
    answers: list[int | str] = field(default_factory=list)

    async def ask(self, count: int = 1) -> trio.CancelScope:
        """Let `count` people ask; the scope of the last one is returned."""
        scope = trio.CancelScope()
        for _ in range(count):
            scope = trio.CancelScope()
            self.nursery.start_soon(self._one, scope)
        await wait_all_tasks_blocked()
        return scope

    async def _one(self, scope: trio.CancelScope) -> None:
        with scope:
            try:
                self.answers.append(await self.shared.take())
            except ExternalError as error:
                self.answers.append(str(error))


@pytest.fixture
def instrument() -> Instrument:
    return Instrument()


async def test_burst_of_questions_costs_two_measurements(
    instrument: Instrument, nursery: trio.Nursery
) -> None:
    crowd = Crowd(nursery, SharedMeasurement(instrument.measure))
    await crowd.ask()
    await crowd.ask(29)
    assert instrument.begun == 1
    await instrument.finish(1)
    assert (crowd.answers, instrument.begun) == ([1], 2)
    await instrument.finish(2)
    assert crowd.answers == [1] + [2] * 29
    assert (instrument.begun, instrument.at_once) == (2, 1)


async def test_questions_of_one_moment_cost_one_measurement(
    instrument: Instrument, nursery: trio.Nursery
) -> None:
    crowd = Crowd(nursery, SharedMeasurement(instrument.measure))
    await crowd.ask(30)
    await instrument.finish(1)
    assert (crowd.answers, instrument.begun) == ([1] * 30, 1)


async def test_nobody_gets_a_measurement_that_began_before_the_question(
    instrument: Instrument, nursery: trio.Nursery
) -> None:
    crowd = Crowd(nursery, SharedMeasurement(instrument.measure))
    await crowd.ask()
    await crowd.ask(2)
    await instrument.finish(1)
    await crowd.ask(2)
    assert (crowd.answers, instrument.begun) == ([1], 2)
    await instrument.finish(2)
    assert (crowd.answers, instrument.begun) == ([1, 2, 2], 3)
    await instrument.finish(3)
    assert crowd.answers == [1, 2, 2, 3, 3]
    assert (instrument.begun, instrument.at_once) == (3, 1)


async def test_question_after_everything_is_quiet_is_measured_anew(
    instrument: Instrument, nursery: trio.Nursery
) -> None:
    crowd = Crowd(nursery, SharedMeasurement(instrument.measure))
    for number in (1, 2):
        await crowd.ask()
        await instrument.finish(number)
    assert crowd.answers == [1, 2]


async def test_failure_is_told_to_those_who_share_it_and_to_nobody_later(
    nursery: trio.Nursery,
) -> None:
    instrument = Instrument(failing=frozenset({2}))
    crowd = Crowd(nursery, SharedMeasurement(instrument.measure))
    await crowd.ask()
    await crowd.ask(2)
    await instrument.finish(1)
    await instrument.finish(2)
    await crowd.ask()
    await instrument.finish(3)
    assert crowd.answers == [1, "measurement 2 failed", "measurement 2 failed", 3]


async def test_cancelled_measurement_is_begun_anew_for_the_others(
    instrument: Instrument, nursery: trio.Nursery
) -> None:
    crowd = Crowd(nursery, SharedMeasurement(instrument.measure))
    await crowd.ask()
    first = await crowd.ask()
    await crowd.ask()
    await instrument.finish(1)
    first.cancel()
    await wait_all_tasks_blocked()
    await crowd.ask()
    assert instrument.begun == 3
    await instrument.finish(3)
    await instrument.finish(4)
    assert crowd.answers == [1, 3, 4]
    assert instrument.at_once == 1


async def test_who_gives_up_waiting_disturbs_nobody(
    instrument: Instrument, nursery: trio.Nursery
) -> None:
    crowd = Crowd(nursery, SharedMeasurement(instrument.measure))
    await crowd.ask()
    (await crowd.ask()).cancel()
    await crowd.ask()
    await instrument.finish(1)
    await instrument.finish(2)
    assert (crowd.answers, instrument.begun) == ([1, 2], 2)
