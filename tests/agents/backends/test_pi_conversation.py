"""A conversation with a child that need not be a Pi: what it says is never believed too far."""

import inspect
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings, strategies as st

from agents.backends import pi_fields, pi_records
from agents.backends.pi_conversation import READY_S, SETTLE_S
from agents.backends.pi_fields import PiProtocolError
from agents.backends.pi_stream import MAX_LINE_BYTES, PATIENCE_S
from agents.budget import Budget, BudgetKind
from agents.loop import (
    REMINDER,
    AgentLost,
    BudgetExceeded,
    NoResult,
    ProviderFailed,
    Submitted,
)
from agents.models.port import Trouble
from agents.purse import Purse
from engine.core.events import ModelThrottled, TextDelta, ToolStarted
from engine.core.spec import Kind
from tests.support.agents import result
from tests.support.pi_children import PLANTED, Child, Stage

GARBAGE = [b"hello\n", b"[]\n", b"null\n", b'"text"\n', b"\xff\xfe\n", b"{\n", b"[" * 9_999 + b"\n"]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A place for a child."""
    return Stage(tmp_path)


async def test_a_child_that_asks_and_settles_hands_in(stage: Stage) -> None:
    async def play(child: Child) -> None:
        assert await child.begin() == "Begin."
        await child.answered(usage={"input": 7, "output": 3, "cost": {"total": 0.5}})
        assert await child.ask("call", tool="read", arguments={"path": "a"}) == {}
        refused = await child.submit({"status": "succeeded"})
        assert "summary" in refused["refusal"]
        assert await child.submit() == {"text": "accepted"}
        await child.say("agent_settled")

    outcome = await stage.lead(play)
    assert isinstance(outcome, Submitted)
    assert outcome.spent.usage.cost_usd == 0.5


@pytest.mark.parametrize("line", GARBAGE)
async def test_what_is_no_record_is_told_with_its_beginning(stage: Stage, line: bytes) -> None:
    async def play(child: Child) -> None:
        await child.raw(line)
        await trio.sleep_forever()

    with pytest.raises(PiProtocolError) as caught:
        await stage.lead(play)
    assert len(str(caught.value)) < 1_000


async def test_a_line_without_end_is_not_kept(stage: Stage) -> None:
    async def play(child: Child) -> None:
        piece = b"x" * (1 << 20)
        while True:
            await child.raw(piece)

    with pytest.raises(PiProtocolError, match=f"more than {MAX_LINE_BYTES >> 20} MiB"):
        await stage.lead(play)


async def test_an_accepted_result_counts_whatever_comes_after_it(stage: Stage) -> None:
    for after in (b"", b"garbage\n", b'{"type": "turn_start"}\n' * 9, b'{"type":"x"}\n' * 99):

        async def play(child: Child, after: bytes = after) -> None:
            await child.begin()
            await child.submit()
            assert "your work is done" in (await child.submit())["refusal"]
            call = await child.ask("call", tool="read", arguments={})
            assert "your work is done" in call["refusal"]
            assert await child.ask("settle", outcome="completed") == {}
            await child.raw(after)

        assert isinstance(await Stage(stage.root).lead(play), Submitted)


async def test_a_child_that_hangs_after_its_result_was_accepted_is_not_waited_for(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        await child.submit()
        await trio.sleep_forever()

    began = trio.current_time()
    assert isinstance(await stage.lead(play), Submitted)
    assert trio.current_time() - began == pytest.approx(SETTLE_S)


async def test_a_child_that_hangs_before_it_is_ready_is_given_up(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    async def play(child: Child) -> None:
        await child.say("session_info_changed", name="x")
        await trio.sleep_forever()

    outcome = await stage.lead(play)
    assert isinstance(outcome, AgentLost)
    assert outcome.message == f"Pi was not ready within {READY_S:g} s"


async def test_a_child_that_takes_in_nothing_is_given_up(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    question = {"title": "pinata:ask", "placeholder": json.dumps({"ask": "x" * 60_000})}

    async def play(child: Child) -> None:
        await child.begin()
        while True:
            await child.say("extension_ui_request", id="q", method="input", **question)

    with pytest.raises(PiProtocolError, match=f"took in nothing for {PATIENCE_S:g} s"):
        await stage.lead(play)


@pytest.mark.parametrize("is_ready", [False, True])
async def test_a_child_that_hangs_up_without_a_word_has_no_outcome(
    stage: Stage, *, is_ready: bool
) -> None:
    async def play(child: Child) -> None:
        if is_ready:
            await child.begin()

    assert await stage.lead(play) is None


async def test_a_child_that_is_not_ready_or_takes_no_brief_is_told(stage: Stage) -> None:
    async def unready(child: Child) -> None:
        await child.reply(await child.hear(), success=False, error="no\nway")
        await trio.sleep_forever()

    async def unwilling(child: Child) -> None:
        state = {"model": {"provider": "loop", "id": "m1"}}
        await child.reply(await child.hear(), data=state)
        await child.reply(await child.hear(), success=False)
        await trio.sleep_forever()

    outcomes = [await Stage(stage.root).lead(play) for play in (unready, unwilling)]
    told = [outcome.message for outcome in outcomes if isinstance(outcome, AgentLost)]
    assert told == ["Pi is not ready: no way", "Pi took no brief: it gave no reason"]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"model": {"provider": "loop", "id": "m10"}}, "loop/m10"),
        ({"model": {"id": "unknown"}}, "/unknown"),
        ({}, "none"),
    ],
)
async def test_a_child_with_another_model_is_not_given_its_brief(
    stage: Stage, data: dict[str, object], named: str
) -> None:
    async def play(child: Child) -> None:
        await child.reply(await child.hear(), data=data)
        await trio.sleep_forever()

    outcome = await stage.lead(play)
    assert isinstance(outcome, AgentLost)
    assert outcome.message == f"Pi should use the model loop/m1, and has taken {named}"


async def test_the_brief_is_sent_once_and_strange_answers_are_passed_over(stage: Stage) -> None:
    async def play(child: Child) -> None:
        await child.say("agent_settled")  # before anything began
        await child.say("response", id="brief-to-come", success=True)
        await child.say("response", success=False, error="Failed to parse command")
        hello = await child.hear()
        for _ in range(3):
            await child.reply(hello, data={"model": {"provider": "loop", "id": "m1"}})
        brief = await child.hear()
        assert brief["id"] == "brief"
        await child.reply(brief)
        await child.say("agent_settled")

    assert isinstance(await stage.lead(play), NoResult)


@pytest.mark.parametrize("method", ["select", "confirm", "input", "editor"])
async def test_dialogs_of_other_extensions_are_closed(stage: Stage, method: str) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        await child.say("extension_ui_request", id="d", method=method, title="sure?")
        assert await child.hear() == {"type": "extension_ui_response", "id": "d", "cancelled": True}
        await child.say("extension_ui_request", id="n", method="notify", message="hello")
        await child.submit()

    assert isinstance(await stage.lead(play), Submitted)


async def test_questions_that_nobody_knows_are_answered_all_the_same(stage: Stage) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        assert "nobody knows" in (await child.ask("give me the keys"))["refusal"]
        assert "is not yours" in (await child.ask("call", tool=[1], arguments=2))["refusal"]
        assert "is not yours" in (await child.ask("call"))["refusal"]
        assert "not accepted" in (await child.submit(["x"]))["refusal"]

    assert await stage.lead(play) is None


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        [],
        {"path": 1},
        {"path": "\0"},
        {"path": "\ud800"},
        {"path": "x" * 99_999},
        {"path": ""},
        {"path": "~nobody/x"},
    ],
)
async def test_calls_with_odd_arguments_are_refused_or_left_to_the_tool(
    tmp_path: Path, arguments: object
) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        assert "refusal" in await child.ask("call", tool="write", arguments=arguments)
        assert await child.ask("call", tool="read", arguments=arguments) == {}
        await child.submit(result())

    stage = Stage(tmp_path, Kind.WRITER, ownership=("src",))
    assert isinstance(await stage.lead(play), Submitted)


async def test_a_flood_of_records_that_mean_nothing_is_read_to_its_end(stage: Stage) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        for _ in range(200):
            await child.raw(b'{"type":"message_start","message":{"role":"user"}}\n{}\n' * 100)
        await child.submit()

    with trio.fail_after(20):
        assert isinstance(await stage.lead(play), Submitted)


@pytest.mark.parametrize(
    ("record", "limits", "which"),
    [
        ({"type": "turn_start"}, {}, BudgetKind.TURNS),
        (
            {"type": "tool_execution_start", "toolCallId": "c", "toolName": "x"},
            {},
            BudgetKind.TOOL_CALLS,
        ),
        (
            {
                "type": "message_end",
                "message": {"role": "assistant", "usage": {"cost": {"total": 1}}},
            },
            {"purse": Purse(3.5)},
            BudgetKind.COST,
        ),
    ],
)
async def test_what_a_child_uses_is_counted_until_its_budget_is_used_up(
    tmp_path: Path, record: dict[str, object], limits: dict[str, Purse], which: BudgetKind
) -> None:
    stage = Stage(tmp_path, budget=Budget(max_turns=5, max_tool_calls=5, **limits))

    async def play(child: Child) -> None:
        await child.begin()
        await child.raw((json.dumps(record) + "\n").encode() * 50)
        await trio.sleep_forever()

    outcome = await stage.lead(play)
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.which is which


async def test_a_turn_that_is_tried_again_counts_once(stage: Stage) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        await child.answered(stopReason="error", errorMessage="429: slow down")
        await child.say("auto_retry_start", delayMs=100, errorMessage="429: slow down")
        await child.say("turn_start")
        await child.answered()
        await child.submit()

    outcome = await stage.lead(play)
    assert isinstance(outcome, Submitted)
    assert outcome.spent.turns == 1
    assert [note.wait_s for note in stage.notes if isinstance(note, ModelThrottled)] == [0.1]


async def test_a_fault_of_the_model_or_of_an_extension_is_why_there_is_no_result(
    stage: Stage,
) -> None:
    async def failing(child: Child) -> None:
        await child.begin()
        await child.answered(stopReason="error", errorMessage="401: wrong key")
        assert await child.ask("settle", outcome="error") == {}
        await child.say("agent_settled")

    async def broken(child: Child) -> None:
        await child.begin()
        await child.say("extension_error", extensionPath="/x.ts", error="oh\nno")
        await child.say("agent_settled")

    outcomes = [await Stage(stage.root).lead(play) for play in (failing, broken)]
    told = [outcome.message for outcome in outcomes if isinstance(outcome, ProviderFailed)]
    assert told == ["401: wrong key", "an extension failed: /x.ts: oh no"]


async def test_what_a_provider_repeats_of_the_users_key_is_struck_out(stage: Stage) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        await child.answered(stopReason="error", errorMessage=f"401: wrong key: {PLANTED}")
        await child.say("agent_settled")

    outcome = await stage.lead(play)
    assert isinstance(outcome, ProviderFailed)
    assert outcome.message == "401: wrong key: [key]"
    assert outcome.trouble is Trouble.AUTHENTICATION


async def test_only_a_provider_that_has_enough_is_left_alone_by_others_too(stage: Stage) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        await child.say("auto_retry_start", delayMs=100, errorMessage="Connection error.")
        await child.say("auto_retry_start", delayMs=0, errorMessage="529: overloaded")
        await child.submit()

    before = stage.traffic.limiter.capacity("loop")
    assert isinstance(await stage.lead(play), Submitted)
    assert len([note for note in stage.notes if isinstance(note, ModelThrottled)]) == 1
    assert stage.traffic.limiter.capacity("loop") < before


async def test_a_child_that_would_stop_is_reminded_once_and_only_with_a_turn_left(
    tmp_path: Path,
) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        assert await child.ask("settle", outcome="aborted") == {}
        assert await child.ask("settle", outcome="completed") == {"more": REMINDER}
        assert await child.ask("settle", outcome="completed") == {}

    async def play_late(child: Child) -> None:
        await child.begin()
        assert await child.ask("settle", outcome="completed") == {}

    assert await Stage(tmp_path).lead(play) is None
    short = Stage(tmp_path, budget=Budget(max_turns=1, max_tool_calls=5))
    assert await short.lead(play_late) is None


async def test_a_result_waits_until_messages_on_their_way_were_seen(stage: Stage) -> None:
    stage.steers.post("first", follow_up=False)

    async def play(child: Child) -> None:
        await child.begin()
        message = await child.hear()
        assert (message["message"], message["streamingBehavior"]) == ("first", "steer")
        assert "messages have come" in (await child.submit())["refusal"]
        await child.say("queue_update", steering=["first"], followUp=[])
        await child.reply(message, data={"disposition": "queued"})
        assert "messages have come" in (await child.submit())["refusal"]
        await child.say("queue_update", steering=[], followUp=[])
        assert await child.submit() == {"text": "accepted"}

    assert isinstance(await stage.lead(play), Submitted)


async def test_no_message_comes_before_the_brief(stage: Stage) -> None:
    stage.steers.post("early", follow_up=False)

    async def play(child: Child) -> None:
        hello = await child.hear()
        await child.reply(hello, data={"model": {"provider": "loop", "id": "m1"}})
        brief = await child.hear()
        assert brief["message"] == "Begin."
        await child.reply(brief)
        assert (await child.hear())["message"] == "early"

    await stage.lead(play)


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_message_that_crosses_the_end_of_the_work_gets_it_going_again(
    stage: Stage, *, is_taken: bool
) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        stage.steers.post("wait", follow_up=False)
        message = await child.hear()
        await child.say("agent_settled")
        await child.reply(message, success=is_taken)
        if is_taken:
            await child.submit()

    outcome = await stage.lead(play)
    assert isinstance(outcome, Submitted if is_taken else NoResult)


@pytest.mark.parametrize(("price", "cost"), [(None, None), (0.25, 0.25)])
async def test_what_pi_has_no_price_for_costs_what_we_know_or_nobody_knows_what(
    stage: Stage, price: float | None, cost: float | None
) -> None:
    stage.price = price

    async def play(child: Child) -> None:
        await child.begin()
        await child.answered(usage={"input": 0, "output": 0, "cost": {"total": 0}})
        await child.answered(usage={"input": 9, "output": 9, "cost": {"total": 0}})
        usage = {"input": 0, "output": 0}
        await child.say("compaction_end", result={"tokensBefore": 9, "usage": usage})
        await child.say("compaction_end", aborted=True)
        await child.submit()

    outcome = await stage.lead(play)
    assert isinstance(outcome, Submitted)
    assert outcome.spent.usage.cost_usd == cost


async def test_halves_of_characters_reach_nobody(stage: Stage) -> None:
    async def play(child: Child) -> None:
        await child.begin()
        event = {"type": "text_delta", "delta": "a\ud800b"}
        await child.say("message_update", assistantMessageEvent=event)
        await child.say("tool_execution_start", toolCallId="c" * 999, toolName="\udfff" * 999)
        await child.submit()

    assert isinstance(await stage.lead(play), Submitted)
    said = next(note.text for note in stage.notes if isinstance(note, TextDelta))
    assert said == "a\ufffdb"
    call = next(note for note in stage.notes if isinstance(note, ToolStarted))
    assert max(len(call.call), len(call.tool)) <= 200


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 0.5, 1e308, float("nan"), float("inf")])
    | st.text(max_size=5)
    | st.sampled_from(["pinata:ask", "assistant", "input", "error", "hello", "brief", "{}", "[]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
# Every name that the reader of records knows, of fields and of types.
_SOURCE = "".join(inspect.getsource(each) for each in (pi_fields, pi_records))
_WORDS = sorted(set(re.findall(r'"(\w+)"', _SOURCE)))
_NAMED = st.sampled_from(_WORDS)
_RECORDS = st.dictionaries(
    _NAMED, _VALUES | _NAMED | st.dictionaries(_NAMED, _VALUES | _NAMED, max_size=5), max_size=9
)
_TYPED = st.builds(lambda record, type_: {**record, "type": type_}, _RECORDS, _NAMED)


@settings(max_examples=30, deadline=None)
@given(st.lists(_TYPED, max_size=12))
def test_no_record_breaks_more_than_its_own_conversation(records: list[dict[str, object]]) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()

    async def play(child: Child) -> None:
        await child.begin()
        await child.raw(lines)

    async def converse() -> None:
        with trio.fail_after(20):
            with suppress(PiProtocolError):
                await Stage(Path("/nowhere")).lead(play)

    trio.run(converse)
