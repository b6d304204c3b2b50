"""Which troubles with a model are waited out, and for how long.

A request that failed with a trouble that may pass is made again within the same turn. The wait is
what the provider asks for; where it does not say, it is drawn between nothing and a limit that
doubles with every failure in a row, so that many agents do not come back at the same moment.
"""

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    # A name in a signature: whoever only shares the way to models need not load what they say.
    from agents.models.port import Trouble

# By then a task's deadline is over, unless a provider lets itself be asked every second.
THROTTLED_TRIES = 1_000
DISCONNECTED_TRIES = 5
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0
# A provider that asks for more is asked again after this: its queue may empty sooner than it says.
LONGEST_RETRY_AFTER_S = 300.0

# Gives numbers from 0 up to but not including 1, such as `random.Random(seed).random`.
Chance: TypeAlias = Callable[[], float]


def wait_s(failures: int, retry_after_s: float | None, chance: Chance) -> float:
    """Return how long to wait after `failures` in a row, which is at least one, in seconds.

    Args:
        failures: in a row, the last one included.
        retry_after_s: what the provider asks for; None, or nothing above 0, when it does not say.
        chance: draws the wait where the provider does not say.
    """
    if retry_after_s is not None and isfinite(retry_after_s) and retry_after_s > 0:
        return min(retry_after_s, LONGEST_RETRY_AFTER_S)
    # The exponent is bounded, since a float overflows where a limit would long be reached.
    limit_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 16))
    return limit_s * chance()


class Patience:
    """Counts the failures of one turn and says when it is enough."""

    def __init__(self) -> None:
        """Begin before the first request of the turn."""
        self._throttled = 0
        self._disconnected = 0

    @property
    def disconnected(self) -> int:
        """How many answers broke off in this turn."""
        return self._disconnected

    def allows(self, trouble: "Trouble") -> bool:
        """Count a failure and return whether the request may be made again."""
        if trouble.is_throttling:
            self._throttled += 1
            return self._throttled < THROTTLED_TRIES
        self._disconnected += 1
        return trouble.may_pass and self._disconnected < DISCONNECTED_TRIES
