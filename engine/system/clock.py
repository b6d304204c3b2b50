"""The time of day, as something that is passed in."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC; may jump when the machine's clock is set."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000
