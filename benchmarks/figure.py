"""A measured number, what it is compared with, and how both are taken."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median

Step = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Attributes:
        value: in `unit`.
        limit: the most that is promised: in `unit`, or times the baseline when there is one.
        baseline: what the plain tool takes for the same, measured in the same rounds.
    """

    name: str
    value: float
    unit: str
    limit: float
    baseline: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.baseline is None else self.value / self.baseline

    @property
    def holds(self) -> bool:
        return (self.value if self.ratio is None else self.ratio) <= self.limit


async def medians_ms(ours: Step, plain: Step, rounds: int) -> tuple[float, float]:
    """Return the medians of both, taken in turns so that a busy machine slows both."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for step, times in zip((ours, plain), taken, strict=True):
            times.append(await _ms(step))
    return median(taken[0]), median(taken[1])


async def _ms(step: Step) -> float:
    before = time.perf_counter_ns()
    await step()
    return (time.perf_counter_ns() - before) / 1e6


async def seconds(step: Step) -> float:
    """Return how long `step` takes, once."""
    return await _ms(step) / 1000


def percentile(values: list[float], percent: int) -> float:
    """Return the smallest value that `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
