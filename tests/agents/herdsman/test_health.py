from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from agents.herdsman.health import (
    Condition,
    Facts,
    Memory,
    Notice,
    Reason,
    advance,
    after,
    condition_of,
    still_holds,
)
from agents.herdsman.presence import Observed
from agents.herdsman.projection import AgentState, Evidence
from agents.herdsman.record import Contents, RequestKind, UnclearPending
from agents.herdsman.runtime import Lifecycle
from agents.herdsman.tool_names import INSPECT
from tests.support.herd_records import (
    LOST,
    NOW_MS,
    TASK,
    UNKNOWN,
    asking,
    live,
    mailbox,
    request,
    result_error,
    session,
    waiting,
)

IDLE, STUCK = Lifecycle.IDLE, Lifecycle.BLOCKED
SECOND, MINUTE = 1000, 60_000
ACTIVE = mailbox("scout", active=TASK, last_activity_ms=NOW_MS)
ASKING = asking(ACTIVE)
RESULT = frozenset({TASK})
CHILD = mailbox("child", owner=session("scout"), active=request("child"))


def facts(
    contents: Contents, observed: Observed, *children: Contents, delivered: bool = False
) -> Facts:
    return Facts(Evidence(contents, observed, children), (INSPECT,), delivered)


@dataclass
class Owner:
    """An owner that looks at its agents every 30 seconds while it is idle."""

    now_ms: int = NOW_MS
    memory: Memory = field(default_factory=dict)
    told: list[Notice] = field(default_factory=list)

    def look(self, *seen: Facts) -> Notice | None:
        self.memory, notice = advance(self.memory, seen, self.now_ms)
        if notice is not None:
            self.memory = after(self.memory, notice)
            self.told.append(notice)
        return notice

    def look_for(self, minutes: float, *seen: Facts) -> None:
        """Look at what stays the same for some minutes, and stand at the end of them."""
        end_ms = self.now_ms + round(minutes * MINUTE)
        while self.now_ms < end_ms:
            self.look(*seen)
            self.now_ms += 15 * SECOND

    def times(self, reason: Reason) -> list[float]:
        """Return the minutes after which it was told of something."""
        return [
            (one.now_ms - NOW_MS) / MINUTE for one in self.told if one.condition.reason is reason
        ]


def test_unknown_agent_is_told_of_once_in_an_episode() -> None:
    owner = Owner()
    owner.look_for(60, facts(ACTIVE, UNKNOWN))
    assert [one.next_ms for one in owner.told] == [None]
    assert owner.times(Reason.UNKNOWN) == [0]


def test_second_unknown_phase_is_told_of_once_again() -> None:
    owner = Owner()
    owner.look_for(5, facts(ACTIVE, UNKNOWN))
    owner.look_for(1, facts(ACTIVE, live(ACTIVE)))
    owner.look_for(30, facts(ACTIVE, UNKNOWN))
    assert owner.times(Reason.UNKNOWN) == [0, 6]


def test_assignment_that_changes_amid_an_unknown_phase_begins_no_new_one() -> None:
    owner = Owner()
    owner.look_for(5, facts(mailbox("scout"), UNKNOWN))
    owner.look_for(5, facts(ACTIVE, UNKNOWN))
    assert owner.times(Reason.UNKNOWN) == [0]


def test_lost_agent_is_told_of_at_ever_shorter_intervals_down_to_a_minute() -> None:
    owner = Owner()
    owner.look_for(12, facts(ACTIVE, LOST))
    assert owner.times(Reason.LOST) == [0, 5, 7.5, 8.75, 9.75, 10.75, 11.75]


def test_stale_agent_is_told_of_every_five_minutes_and_captured_the_first_time_only() -> None:
    owner = Owner()
    owner.look_for(31, facts(ACTIVE, live(ACTIVE)))
    assert owner.times(Reason.STALE) == [10, 15, 20, 25, 30]
    assert [one.wants_capture for one in owner.told] == [True, False, False, False, False]


def test_stale_agent_that_cannot_be_inspected_is_not_captured() -> None:
    owner = Owner(NOW_MS + 10 * MINUTE)
    notice = owner.look(replace(facts(ACTIVE, live(ACTIVE)), tools=()))
    assert notice is not None
    assert not notice.wants_capture


def test_activity_that_resumes_and_stops_again_is_told_of_and_captured_anew() -> None:
    owner = Owner()
    owner.look_for(11, facts(ACTIVE, live(ACTIVE)))
    later = mailbox("scout", active=TASK, last_activity_ms=owner.now_ms)
    owner.look_for(16, facts(later, live(later)))
    assert owner.times(Reason.STALE) == [10, 21, 26]
    assert [one.wants_capture for one in owner.told] == [True, True, False]


def test_owner_that_was_busy_for_an_hour_is_told_once_when_it_is_idle() -> None:
    owner = Owner()
    owner.look(facts(ACTIVE, LOST))
    owner.now_ms += 60 * MINUTE
    owner.look(facts(ACTIVE, LOST))
    owner.now_ms += 30 * SECOND
    owner.look(facts(ACTIVE, LOST))
    assert owner.times(Reason.LOST) == [0, 60]


def test_delivered_question_is_reminded_of_five_minutes_after_that_was_first_seen() -> None:
    owner = Owner()
    owner.look_for(7, facts(ASKING, live(ASKING, IDLE)))
    assert owner.told == []
    owner.look_for(14, facts(ASKING, live(ASKING, IDLE), delivered=True))
    assert owner.times(Reason.ASK) == [12, 17, 19.5, 20.75]


def test_next_question_is_another_episode() -> None:
    owner = Owner()
    owner.look_for(6, facts(ASKING, live(ASKING, IDLE), delivered=True))
    other = asking(ACTIVE, "another")
    owner.look_for(6, facts(other, live(other, IDLE), delivered=True))
    assert owner.times(Reason.ASK) == [5, 11]


def test_question_whose_answer_is_on_its_way_is_not_reminded_of() -> None:
    answered = replace(ASKING, pending=waiting(ASKING.state, "reply", RequestKind.REPLY))
    owner = Owner()
    owner.look_for(9, facts(answered, live(ASKING, STUCK), delivered=True))
    assert owner.told == []
    owner.look_for(2, facts(answered, live(ASKING, STUCK), delivered=True))
    assert [one.condition.reason for one in owner.told] == [Reason.PENDING_REQUEST]


def test_request_is_told_of_once_it_is_unanswered_for_ten_minutes() -> None:
    contents = replace(ACTIVE, pending=waiting(ACTIVE.state))
    seen = facts(contents, live(contents))
    assert condition_of(seen, NOW_MS + 9 * MINUTE + 50 * SECOND) is None
    assert condition_of(seen, NOW_MS + 10 * MINUTE) == Condition(
        Reason.PENDING_REQUEST, (request("steer"),)
    )
    assert condition_of(seen, NOW_MS - 3600 * SECOND) is None


def test_request_that_cannot_be_told_gives_nothing() -> None:
    contents = replace(ACTIVE, pending=UnclearPending("two"))
    assert condition_of(facts(contents, live(contents)), NOW_MS + 60 * MINUTE) is None


def test_agent_in_a_dialog_is_told_of_and_a_parent_that_waits_for_its_child_is_not() -> None:
    assert condition_of(facts(ACTIVE, live(ACTIVE, STUCK)), NOW_MS) == Condition(
        Reason.BLOCKED, (TASK,)
    )
    parent = facts(ACTIVE, live(ACTIVE, IDLE), CHILD)
    assert parent.evidence.state is AgentState.BLOCKED
    assert condition_of(parent, NOW_MS + 60 * MINUTE) is None


def test_lost_result_comes_before_everything_else() -> None:
    contents = Contents(result_error(ACTIVE.state, failed_ms=7))
    for observed in (LOST, UNKNOWN, live(contents, STUCK)):
        found = condition_of(facts(contents, observed), NOW_MS)
        assert found == Condition(Reason.RESULT_ERROR, (7, TASK))
        assert found.request == TASK


@pytest.mark.parametrize(
    ("contents", "observed"),
    [
        (mailbox("scout"), live(ACTIVE, IDLE)),
        (ACTIVE, live(ACTIVE, IDLE)),
        (replace(ACTIVE, results=RESULT), live(ACTIVE, STUCK)),
        (replace(ACTIVE, results=RESULT), LOST),
        (mailbox("scout", completed=TASK, results=RESULT), LOST),
        (mailbox("scout", completed=TASK), LOST),
        (mailbox("scout", is_starting=True), LOST),
        (mailbox("scout", is_starting=True), UNKNOWN),
        (replace(ASKING, results=RESULT), live(ASKING, IDLE)),
        (ACTIVE, live(ACTIVE, Lifecycle.UNKNOWN)),
    ],
    ids=[
        "nothing assigned",
        "at rest",
        "result there",
        "lost with a result",
        "lost and completed",
        "lost and delivered",
        "starting, nothing there",
        "starting, in doubt",
        "question and result",
        "unseen",
    ],
)
def test_agent_that_settles_or_starts_is_never_told_of(
    contents: Contents, observed: Observed
) -> None:
    owner = Owner()
    owner.look_for(30, facts(contents, observed, delivered=True))
    assert owner.told == []
    assert owner.memory == {}


def others(reason: str) -> Sequence[Facts]:
    return [facts(mailbox(label, active=request(label)), LOST) for label in reason.split()]


def test_one_look_gives_one_notice_and_the_longest_wait_comes_first() -> None:
    owner = Owner()
    seen = others("a b c")
    for _ in range(3):
        assert owner.look(*seen) is not None
        owner.now_ms += 30 * SECOND
    assert owner.look(*seen) is None
    assert {one.facts.generation for one in owner.told} == {one.generation for one in seen}


def test_many_agents_that_repeat_every_minute_are_all_told_of() -> None:
    owner = Owner()
    seen = others("a b c d e f g h")
    owner.look_for(60, *seen)
    counts = [sum(one.facts.generation == each.generation for one in owner.told) for each in seen]
    assert max(counts) - min(counts) <= 2


def test_worse_condition_comes_first_among_those_that_begin_together() -> None:
    blocked = mailbox("a", active=request("a"))
    lost = mailbox("b", active=request("b"))
    notice = Owner().look(facts(blocked, live(blocked, STUCK)), facts(lost, LOST))
    assert notice is not None
    assert notice.condition.reason is Reason.LOST


def test_notice_that_was_not_sent_is_due_again_at_the_next_look() -> None:
    memory, first = advance({}, [facts(ACTIVE, LOST)], NOW_MS)
    _, second = advance(memory, [facts(ACTIVE, LOST)], NOW_MS + 30 * SECOND)
    assert first is not None
    assert second is not None
    assert first.number == second.number == 1


def test_agent_that_is_owned_no_more_is_forgotten() -> None:
    owner = Owner()
    owner.look(facts(ACTIVE, LOST))
    assert owner.memory
    owner.look()
    assert owner.memory == {}


def test_condition_that_gives_way_to_another_is_due_at_once_when_it_comes_back() -> None:
    owner = Owner()
    owner.look_for(1, facts(ACTIVE, LOST))
    owner.look_for(1, facts(ACTIVE, UNKNOWN))
    owner.look_for(1, facts(ACTIVE, LOST))
    assert owner.times(Reason.LOST) == [0, 2]


def test_clock_that_is_set_back_delays_no_reminder_beyond_its_interval() -> None:
    owner = Owner()
    owner.look(facts(ACTIVE, LOST))
    owner.now_ms -= 600 * MINUTE
    owner.look_for(5.25, facts(ACTIVE, LOST))
    assert len(owner.told) == 2


CHANGES: list[tuple[str, Callable[[], Facts]]] = [
    ("it came back", lambda: facts(ACTIVE, live(ACTIVE))),
    ("its result is there", lambda: facts(replace(ACTIVE, results=RESULT), LOST)),
    ("it is another one", lambda: facts(mailbox("scout", active=TASK, cwd="/else"), LOST)),
]


@pytest.mark.parametrize(
    "change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES]
)
def test_notice_whose_condition_has_gone_holds_no_more(change: Callable[[], Facts]) -> None:
    _, notice = advance({}, [facts(ACTIVE, LOST)], NOW_MS)
    assert notice is not None
    assert still_holds(notice, facts(ACTIVE, LOST), NOW_MS + SECOND)
    assert not still_holds(notice, change(), NOW_MS + SECOND)


def test_stale_notice_holds_no_more_after_any_activity() -> None:
    now_ms = NOW_MS + 20 * MINUTE
    _, notice = advance({}, [facts(ACTIVE, live(ACTIVE))], now_ms)
    assert notice is not None
    moved = mailbox("scout", active=TASK, last_activity_ms=NOW_MS + 1)
    assert not still_holds(notice, facts(moved, live(moved)), now_ms)
