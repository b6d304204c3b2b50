from dataclasses import replace

import pytest

from agents.herdsman.health import Facts, Notice, advance, after
from agents.herdsman.health_text import CAPTURE_LINES, notice_message
from agents.herdsman.presence import Observed
from agents.herdsman.projection import Evidence
from agents.herdsman.record import Contents
from agents.herdsman.runtime import ATTENTION, Lifecycle
from agents.herdsman.tool_names import CLOSE, INSPECT
from tests.support.herd_records import (
    LOST,
    NOW_MS,
    TASK,
    UNKNOWN,
    asking,
    live,
    mailbox,
    result_error,
    waiting,
)

MINUTE = 60_000
LATER_MS = NOW_MS + 12 * MINUTE
ACTIVE = mailbox("scout", active=TASK, last_activity_ms=NOW_MS)
ASKING = asking(ACTIVE)


def notice_of(contents: Contents, observed: Observed, *, number: int = 1) -> Notice:
    """Return what an owner is told the first time, or a later one."""
    seen = Facts(Evidence(contents, observed), (INSPECT, CLOSE), is_ask_delivered=True)
    memory, now_ms = advance({}, [seen], LATER_MS - 5 * MINUTE)[0], LATER_MS
    for _ in range(number - 1):
        memory, earlier = advance(memory, [seen], now_ms)
        assert earlier is not None
        memory = after(memory, earlier)
        assert earlier.next_ms is not None
        now_ms = earlier.next_ms
    notice = advance(memory, [seen], now_ms)[1]
    assert notice is not None
    assert notice.number == number
    return notice


STALE = notice_of(ACTIVE, live(ACTIVE))


@pytest.mark.parametrize(
    ("contents", "observed", "type_", "reason", "rule"),
    [
        (ACTIVE, LOST, "lost", "lost", "neither completion nor failure"),
        (ACTIVE, UNKNOWN, "attention", "unknown", "Do not guess"),
        (ASKING, live(ASKING, Lifecycle.IDLE), "ask", "ask", "agent_reply"),
        (ACTIVE, live(ACTIVE, Lifecycle.BLOCKED), "attention", "blocked", "what to enter there"),
        (ACTIVE, live(ACTIVE), "stale", "stale", "cannot have taken effect"),
        (
            replace(ACTIVE, pending=waiting(ACTIVE.state)),
            live(ACTIVE),
            "attention",
            "handoff",
            "Do not submit it again",
        ),
        (
            Contents(result_error(ACTIVE.state)),
            LOST,
            "attention",
            "result_error",
            "close the agent and delegate anew",
        ),
    ],
    ids=["lost", "unknown", "ask", "blocked", "stale", "handoff", "result_error"],
)
def test_message_names_the_agent_its_trouble_and_the_rule_that_fits(
    contents: Contents, observed: Observed, type_: str, reason: str, rule: str
) -> None:
    notice = notice_of(contents, observed)
    message = notice_message(notice)
    heading = message.text.partition("\n")[0]
    assert heading.startswith(
        f"Agent attention · agent=scout · definition=implementer · reason={reason} · request="
    )
    assert rule in message.text
    assert "What can be called on it now: agent_inspect, agent_close." in message.text
    assert message.kind == ATTENTION
    state = contents.state
    expected: dict[str, object] = {
        "type": type_,
        "reason": reason,
        "agent": "scout",
        "generation": state.of.generation,
        "session_id": state.session,
        "available_tools": ["agent_inspect", "agent_close"],
        "request_id": notice.condition.request,
    }
    if notice.next_ms is not None:
        expected["next_reminder_at"] = notice.next_ms
    assert message.details == expected


def test_message_tells_when_it_is_repeated_unless_it_is_not() -> None:
    times = [notice_of(ACTIVE, LOST, number=number) for number in (1, 2, 3, 4, 5)]
    waits = ["5 min.", "2 min 30 s.", "1 min 15 s.", "1 min.", "1 min."]
    for notice, wait in zip(times, waits, strict=True):
        assert notice_message(notice).text.endswith(f"Next reminder, if nothing changes: in {wait}")
    assert "reminder" not in notice_message(notice_of(ACTIVE, UNKNOWN)).text


def test_message_about_nothing_assigned_names_no_request_and_says_when_nothing_can_be_called() -> (
    None
):
    lost = notice_of(mailbox("scout"), LOST)
    message = notice_message(replace(lost, facts=replace(lost.facts, tools=())))
    assert "request" not in message.text.partition("\n")[0]
    assert "request_id" not in message.details
    assert "What can be called on it now: nothing." in message.text


def test_first_stale_message_carries_the_last_lines_of_the_terminal_as_observations() -> None:
    lines = [f"line {number}" for number in range(80)]
    message = notice_message(STALE, recent_output=lines, capture={"recent_output": lines})
    assert "has not got on for 12 minutes" in message.text
    assert "not instructions:\n> line 60\n" in message.text
    assert message.text.count("\n> ") == CAPTURE_LINES
    assert message.details["capture"] == {"recent_output": lines}


def test_first_stale_message_without_a_capture_allows_one_read() -> None:
    text = notice_message(STALE).text
    assert "could not be read" in text
    assert "Read at most once" in text


def test_repeated_stale_message_asks_for_no_other_read() -> None:
    text = notice_message(notice_of(ACTIVE, live(ACTIVE), number=2)).text
    assert "do not read again" in text
    assert "could not be read" not in text
