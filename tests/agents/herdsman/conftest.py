"""What the tests of the herd share."""

import pytest
from trio.testing import MockClock

from tests.support.clock import patient_clock


@pytest.fixture
def herd_clock() -> MockClock:
    """A clock that jumps over waiting, but never while a thread works, such as one that flushes."""
    return patient_clock()
