import pytest

from agents.herdsman.activity import STALE_AFTER_MS, WRITE_EVERY_MS, inactive_ms, is_due
from agents.herdsman.presence import Observed
from agents.herdsman.projection import Evidence
from agents.herdsman.record import Contents
from agents.herdsman.runtime import Lifecycle
from tests.support.herd_records import LOST, NOW_MS, TASK, UNKNOWN, live, mailbox

ACTIVE = mailbox("scout", active=TASK, last_activity_ms=NOW_MS)


def test_agent_is_stale_after_ten_minutes_without_getting_on() -> None:
    working = Evidence(ACTIVE, live(ACTIVE))
    assert inactive_ms(working, NOW_MS + STALE_AFTER_MS - 1) is None
    assert inactive_ms(working, NOW_MS + STALE_AFTER_MS) == STALE_AFTER_MS == 600_000
    assert inactive_ms(working, NOW_MS + 660_000) == 660_000


def test_activity_in_the_future_is_not_stale() -> None:
    assert inactive_ms(Evidence(ACTIVE, live(ACTIVE)), NOW_MS - 3_600_000) is None


@pytest.mark.parametrize(
    ("contents", "observed"),
    [
        (ACTIVE, LOST),
        (ACTIVE, UNKNOWN),
        (ACTIVE, live(ACTIVE, Lifecycle.IDLE)),
        (ACTIVE, live(ACTIVE, Lifecycle.BLOCKED)),
        (mailbox("scout", active=TASK), live(ACTIVE)),
        (mailbox("scout", last_activity_ms=NOW_MS), live(ACTIVE)),
    ],
    ids=["lost", "unknown", "at rest", "blocked", "never active", "without an assignment"],
)
def test_only_an_agent_that_works_can_be_stale(contents: Contents, observed: Observed) -> None:
    assert inactive_ms(Evidence(contents, observed), NOW_MS + STALE_AFTER_MS) is None


def test_activity_is_written_at_once_and_then_every_five_seconds() -> None:
    assert is_due(None, NOW_MS)
    assert not is_due(NOW_MS, NOW_MS)
    assert not is_due(NOW_MS, NOW_MS + WRITE_EVERY_MS - 1)
    assert is_due(NOW_MS, NOW_MS + WRITE_EVERY_MS)


def test_activity_is_written_after_the_clock_was_set_back() -> None:
    assert is_due(NOW_MS, NOW_MS - 1)
