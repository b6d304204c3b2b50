import time

from engine.system.clock import Clock, SystemClock
from tests.support.clock import FakeClock


def test_the_systems_clock_tells_milliseconds_since_1970() -> None:
    clock: Clock = SystemClock()
    before = int(time.time() * 1000)
    assert before <= clock.now_ms() <= int(time.time() * 1000)


def test_the_fake_clock_stands_still_until_it_is_moved() -> None:
    fake = FakeClock(5)
    clock: Clock = fake
    assert (clock.now_ms(), clock.now_ms()) == (5, 5)
    fake.advance(3)
    assert clock.now_ms() == 8
