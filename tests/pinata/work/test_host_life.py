"""Every way that a host can go, without a process."""

import pytest
from hypothesis import given, strategies as st

from pinata.work.host_life import (
    GRACE_S,
    Act,
    Attached,
    CancelWork,
    Displace,
    Event,
    Goodbye,
    Leave,
    Left,
    Life,
    Looked,
    Phase,
    Stopped,
    advance,
    begin,
)

GONE = Life(Phase.GONE)
LEAVING = Life(Phase.LEAVING)
LATER = [goodbye for goodbye in Goodbye if goodbye is not Goodbye.QUIT] + [None]
QUIT = CancelWork("the session has ended")
TIRED = CancelWork("the session has been away for 60 s")


def attached(client: int = 1) -> Life:
    return Life(Phase.ATTACHED, client)


def away(until_s: float = GRACE_S) -> Life:
    return Life(Phase.AWAY, away_until_s=until_s)


def test_new_host_waits_for_its_first_client_as_long_as_for_one_that_is_away() -> None:
    assert begin(5.0) == away(65.0)


@pytest.mark.parametrize("life", [away(), LEAVING], ids=lambda life: life.phase.value)
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_client_that_attaches_stays_without_a_deadline(life: Life, *, busy: bool) -> None:
    assert advance(life, Attached(7), 3.0, busy=busy) == (attached(7), ())


def test_last_client_displaces_the_one_before_whose_leaving_means_nothing() -> None:
    life, acts = advance(attached(1), Attached(2), 0.0, busy=True)
    assert (life, acts) == (attached(2), (Displace(1),))
    assert advance(life, Left(1, Goodbye.QUIT), 1.0, busy=True) == (life, ())


@pytest.mark.parametrize("goodbye", LATER)
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_client_that_may_come_back_is_waited_for(goodbye: Goodbye | None, *, busy: bool) -> None:
    assert advance(attached(), Left(1, goodbye), 10.0, busy=busy) == (away(70.0), ())


def test_session_that_ends_for_good_has_its_work_cancelled_at_once() -> None:
    assert advance(attached(), Left(1, Goodbye.QUIT), 9.0, busy=True) == (LEAVING, (QUIT,))
    assert advance(attached(), Left(1, Goodbye.QUIT), 9.0, busy=False) == (GONE, (Leave(),))


def test_session_that_stays_away_has_its_work_cancelled_when_the_time_is_over() -> None:
    assert advance(away(), Looked(), 59.9, busy=False) == (away(), ())
    assert advance(away(), Looked(), 60.0, busy=True) == (LEAVING, (TIRED,))
    assert advance(away(), Looked(), 60.0, busy=False) == (GONE, (Leave(),))


def test_what_survives_keeps_the_host_until_it_has_ended() -> None:
    assert advance(LEAVING, Looked(), 1e9, busy=True) == (LEAVING, ())
    assert advance(LEAVING, Looked(), 1e9, busy=False) == (GONE, (Leave(),))


def test_end_of_work_means_nothing_while_a_client_is_attached() -> None:
    assert advance(attached(), Looked(), 1e9, busy=False) == (attached(), ())


@pytest.mark.parametrize("life", [attached(), away(), LEAVING], ids=lambda life: life.phase.value)
def test_signal_ends_it_from_anywhere(life: Life) -> None:
    assert advance(life, Stopped(), 0.0, busy=True) == (GONE, (Leave(),))


@pytest.mark.parametrize("event", [Attached(1), Left(1, None), Looked(), Stopped()])
def test_nothing_happens_to_a_host_that_is_gone(event: Event) -> None:
    assert advance(GONE, event, 1e9, busy=False) == (GONE, ())


clients = st.integers(1, 3)
events = st.one_of(
    st.builds(Attached, clients),
    st.builds(Left, clients, st.one_of(st.none(), st.sampled_from(Goodbye))),
    st.just(Looked()),
    st.just(Stopped()),
)
steps = st.lists(st.tuples(events, st.floats(0, 100), st.booleans()))


@given(steps)
def test_any_history_keeps_a_deadline_while_away_alone_and_leaves_once(
    history: list[tuple[Event, float, bool]],
) -> None:
    now_s, life, done = 0.0, begin(0.0), list[Act]()
    for event, passed_s, busy in history:
        now_s += passed_s
        before = life
        life, acts = advance(life, event, now_s, busy=busy)
        done += acts
        assert (life.away_until_s is not None) == (life.phase is Phase.AWAY)
        assert (life.client is not None) == (life.phase is Phase.ATTACHED)
        assert [act for act in acts if isinstance(act, CancelWork)] == [] or (
            life.phase is Phase.LEAVING and before.phase is not Phase.LEAVING
        )
    assert done.count(Leave()) == (life.phase is Phase.GONE)
