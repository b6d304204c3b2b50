"""Clocks that move only as a test says."""

import trio
import trio.testing

from engine.system.family import has_children


class FakeClock:
    """Tells the time that it was given."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, delta_ms: int) -> None:
        """Move the clock forward."""
        self._now_ms += delta_ms


class LoopClock:
    """Tells trio's time as a time of day, so that a mock clock moves it."""

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(trio.current_time() * 1000)


def patient_clock() -> trio.testing.MockClock:
    """Return a mock clock that jumps over waiting, never while a thread or a child works."""
    clock = trio.testing.MockClock(autojump_threshold=0.001)
    jump = clock._autojump

    def jump_if_idle() -> None:
        threads = trio.to_thread.current_default_thread_limiter()
        # What waits for a program waits for its end or its output, and not for a time.
        if threads.borrowed_tokens == 0 and not has_children():
            jump()

    clock._autojump = jump_if_idle  # type: ignore[method-assign]  # there is no other way in
    return clock
