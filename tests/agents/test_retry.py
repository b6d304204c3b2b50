from math import inf, nan
from random import Random

import pytest
from hypothesis import given, strategies as st

from agents.models.port import Trouble
from agents.retry import (
    DISCONNECTED_TRIES,
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    LONGEST_RETRY_AFTER_S,
    THROTTLED_TRIES,
    Patience,
    wait_s,
)

MOST = 1 - 2**-53


def most() -> float:
    return MOST


@given(failures=st.integers(1, 5_000), seed=st.integers())
def test_a_wait_is_drawn_below_a_limit_that_doubles_up_to_a_minute(
    failures: int, seed: int
) -> None:
    limit_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 50))
    chance = Random(seed).random  # noqa: S311 (no secret)
    assert 0 <= wait_s(failures, None, chance) < limit_s


def test_the_limit_doubles_with_every_failure() -> None:
    waits = [wait_s(failures, None, most) for failures in range(1, 9)]
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])


@pytest.mark.parametrize(
    ("asked_s", "waited_s"),
    [(0.25, 0.25), (7.0, 7.0), (10_000.0, LONGEST_RETRY_AFTER_S)],
)
def test_the_providers_word_counts_up_to_a_bound(asked_s: float, waited_s: float) -> None:
    assert wait_s(3, asked_s, most) == waited_s


@pytest.mark.parametrize("asked_s", [None, 0.0, -3.0, nan, inf, -inf])
def test_a_provider_that_names_no_time_gets_the_usual_wait(asked_s: float | None) -> None:
    assert wait_s(2, asked_s, most) == 2 * MOST * FIRST_BACKOFF_S


def _tries(trouble: Trouble) -> int:
    patience = Patience()
    return next(count for count in range(1, 10_000) if not patience.allows(trouble))


def test_throttling_is_borne_patiently_and_broken_connections_a_few_times() -> None:
    assert _tries(Trouble.RATE_LIMIT) == _tries(Trouble.OVERLOADED) == THROTTLED_TRIES
    assert _tries(Trouble.DISCONNECT) == DISCONNECTED_TRIES


@pytest.mark.parametrize(
    "trouble",
    [Trouble.AUTHENTICATION, Trouble.CONTEXT_LENGTH, Trouble.MALFORMED, Trouble.OTHER],
)
def test_other_troubles_are_told_at_once(trouble: Trouble) -> None:
    assert _tries(trouble) == 1


def test_one_kind_of_trouble_does_not_use_up_the_patience_for_the_other() -> None:
    patience = Patience()
    for _ in range(DISCONNECTED_TRIES - 1):
        assert patience.allows(Trouble.DISCONNECT)
        assert all(patience.allows(Trouble.OVERLOADED) for _ in range(9))
    assert not patience.allows(Trouble.DISCONNECT)
