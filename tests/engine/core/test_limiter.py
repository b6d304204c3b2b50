from contextlib import ExitStack

import pytest
from hypothesis import given, strategies as st

from engine.core.limiter import Limiter, Room
from tests.support.rooms import has_room


def answer(limiter: Limiter, provider: str, times: int) -> None:
    for _ in range(times):
        limiter.answered(provider)


def throttle(limiter: Limiter, provider: str, times: int) -> None:
    for _ in range(times):
        limiter.throttled(provider)


def test_a_provider_that_pushes_back_is_halved_down_to_one_and_grows_again_to_the_cap() -> None:
    limiter, capacities = Limiter(), []
    for throttles, answers in ((0, 0), (1, 0), (5, 0), (0, 9), (0, 1), (0, 1_000)):
        throttle(limiter, "p", throttles)
        answer(limiter, "p", answers)
        capacities.append(limiter.capacity("p"))
    assert capacities == [8, 4, 1, 1, 2, 16]


def test_a_refusal_forgets_the_answers_before_it() -> None:
    limiter = Limiter()
    answer(limiter, "p", 9)
    limiter.throttled("p")
    answer(limiter, "p", 9)
    assert limiter.capacity("p") == 4
    limiter.answered("p")
    assert limiter.capacity("p") == 5


def test_answers_at_the_cap_are_not_saved_up() -> None:
    limiter = Limiter(8)
    answer(limiter, "p", 25)
    with limiter.admit_run(9):
        answer(limiter, "p", 4)
        assert limiter.capacity("p") == 8
        limiter.answered("p")
        assert limiter.capacity("p") == 9


def test_halving_an_odd_capacity_rounds_down() -> None:
    limiter = Limiter()
    answer(limiter, "p", 10)
    limiter.throttled("p")
    assert limiter.capacity("p") == 4
    limiter = Limiter(3)
    limiter.throttled("p")
    assert limiter.capacity("p") == 1


def test_providers_are_independent() -> None:
    limiter = Limiter()
    limiter.throttled("p")
    answer(limiter, "q", 10)
    assert (limiter.capacity("p"), limiter.capacity("q")) == (4, 9)


def test_a_provider_under_a_low_cap_starts_at_the_cap() -> None:
    assert Limiter(3).capacity("p") == 3


def test_slots_of_one_provider_run_out_and_come_back() -> None:
    limiter = Limiter()
    limiter.throttled("p")
    for _ in range(4):
        assert has_room(limiter, "p")
        limiter.start("p")
    assert not has_room(limiter, "p")
    assert has_room(limiter, "q")
    limiter.end("p")
    assert has_room(limiter, "p")


def test_the_cap_holds_over_all_providers_and_a_slot_one_gives_back_serves_another() -> None:
    limiter = Limiter(3)
    for provider in ("p", "p", "q"):
        limiter.start(provider)
    assert limiter.room(("p", "q")) == Room(total=0, free={"p": 1, "q": 2})
    assert not has_room(limiter, "p")
    assert not has_room(limiter, "q")
    limiter.end("p")
    assert has_room(limiter, "q")


def test_a_shrink_below_what_works_leaves_no_room_and_stops_nobody() -> None:
    limiter = Limiter()
    for _ in range(8):
        limiter.start("p")
    limiter.throttled("p")
    assert limiter.room(("p",)) == Room(total=8, free={"p": 0})
    for _ in range(5):
        limiter.end("p")
    assert limiter.room(("p",)) == Room(total=13, free={"p": 1})


def test_the_cap_is_that_of_the_largest_active_run_and_never_below_the_least() -> None:
    limiter = Limiter()
    with ExitStack() as small:
        small.enter_context(limiter.admit_run(4))
        assert limiter.room(()).total == 16
        with limiter.admit_run(64), limiter.admit_run(32):
            assert limiter.room(()).total == 64
        with limiter.admit_run(20):
            assert limiter.room(()).total == 20
        assert limiter.room(()).total == 16
    assert limiter.room(()).total == 16


def test_a_run_that_ends_in_an_error_raises_the_cap_no_longer() -> None:
    limiter = Limiter()
    with pytest.raises(RuntimeError), limiter.admit_run(64):
        raise RuntimeError
    assert limiter.room(()).total == 16


def test_what_a_provider_grew_to_is_given_up_with_the_cap() -> None:
    limiter = Limiter()
    with limiter.admit_run(64):
        answer(limiter, "p", 1_000)
        assert limiter.capacity("p") == 64
    assert limiter.capacity("p") == 16
    with limiter.admit_run(64):
        assert limiter.capacity("p") == 16


def test_more_at_work_than_a_fallen_cap_allows_leave_no_room() -> None:
    limiter = Limiter(1)
    with limiter.admit_run(3):
        for _ in range(3):
            limiter.start("p")
    assert limiter.room(("p", "q")) == Room(total=0, free={"p": 0, "q": 1})


def test_watchers_are_told_when_room_may_have_appeared_and_only_then() -> None:
    limiter, told = Limiter(), []
    unwatch = limiter.watch(lambda: told.append("first"))
    limiter.watch(lambda: told.append("second"))
    limiter.start("p")
    limiter.throttled("p")
    answer(limiter, "p", 9)
    with limiter.admit_run(16):
        assert told == []
    limiter.answered("p")
    assert told == ["first", "second"]
    limiter.end("p")
    assert told == ["first", "second"] * 2
    unwatch()
    unwatch()
    with limiter.admit_run(17):
        assert told == ["first", "second"] * 2 + ["second"]
    assert len(told) == 5


def test_a_watcher_that_leaves_while_it_is_told_keeps_nobody_from_hearing() -> None:
    limiter, told = Limiter(), []

    def leaves() -> None:
        told.append("leaves")
        unwatch()

    unwatch = limiter.watch(leaves)
    limiter.watch(lambda: told.append("stays"))
    for _ in range(2):
        limiter.start("p")
        limiter.end("p")
    assert told == ["leaves", "stays", "stays"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "end", "answered", "throttled"]), st.sampled_from(["p", "q"])
    ),
    max_size=200,
)


@given(STEPS, st.integers(1, 16))
def test_whoever_asks_for_room_first_never_exceeds_it(
    steps: list[tuple[str, str]], global_cap: int
) -> None:
    limiter, working = Limiter(global_cap), {"p": 0, "q": 0}
    for step, provider in steps:
        capacity = limiter.capacity(provider)
        assert 1 <= capacity <= global_cap
        match step:
            case "start" if has_room(limiter, provider):
                assert working[provider] < capacity
                assert sum(working.values()) < global_cap
                limiter.start(provider)
                working[provider] += 1
            case "end" if working[provider]:
                limiter.end(provider)
                working[provider] -= 1
            case "answered":
                limiter.answered(provider)
            case "throttled":
                limiter.throttled(provider)
    assert limiter.room(()).total == global_cap - sum(working.values())
