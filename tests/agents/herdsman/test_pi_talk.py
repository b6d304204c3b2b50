"""A conversation with a child that need not be a Pi: what it says is never believed too far."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agents.herdsman.pi_talk import ANSWER_S, READY_S, PiTalk
from agents.herdsman.runtime import (
    GUIDANCE,
    RETIRED,
    CompactionReason,
    Ended,
    HerdTool,
    Lifecycle,
    Message,
    ToolReply,
)
from agents.models.port import ToolDeclaration
from engine.core.errors import ExternalError
from tests.support.herd_pi_children import CHILD, SESSION, Lodge, ManagedChild, silent
from tests.support.herd_stage import Gate, PlayedAttendant, open_gate
from tests.support.pi_children import PLANTED

FIRST = Message("pinata-agent-request", "First.", {"request": "r-1", "kind": "task"})
SECOND = Message("pinata-agent-request", "Second.", {"request": "r-2", "kind": "steer"})


@pytest.fixture
def lodge(tmp_path: Path) -> Lodge:
    """A place for a child."""
    return Lodge(tmp_path)


async def ready(child: ManagedChild) -> None:
    await child.expect("get_state")


async def work(child: ManagedChild) -> None:
    """Get ready, take the first message in and be at work."""
    await ready(child)
    (message,) = (await child.take())["messages"]
    await child.say("agent_start")
    await child.enter(message)


def shown(message: Message) -> dict[str, Any]:
    return {"kind": message.kind, "text": message.text, "details": dict(message.details)}


async def test_a_child_that_never_gets_ready_is_given_up(
    lodge: Lodge, herd_clock: MockClock
) -> None:
    async def play(child: ManagedChild) -> None:
        await child.hear()
        await trio.sleep_forever()

    with pytest.raises(ExternalError, match=f"Pi was not ready within {READY_S:g} s"):
        async with lodge.led(play):
            raise AssertionError("it began")


async def test_a_child_that_uses_another_model_is_not_begun_with(lodge: Lodge) -> None:
    lodge.model = "loop/m2"
    with pytest.raises(
        ExternalError, match='should use the model loop/m2, and has taken "loop/m1"'
    ):
        async with lodge.led(ready):
            raise AssertionError("it began")


@pytest.mark.parametrize(
    "state", [{"sessionId": "another"}, {"sessionFile": "/dev/null"}, {"sessionFile": "/nowhere"}]
)
async def test_a_child_that_leads_another_session_is_not_begun_with(
    lodge: Lodge, state: Mapping[str, str]
) -> None:
    async def play(child: ManagedChild) -> None:
        child.state.update(state)
        await child.expect("get_state")

    with pytest.raises(ExternalError, match="leads another"):
        async with lodge.led(play):
            raise AssertionError("it began")


async def test_a_child_that_ends_at_once_is_told_with_how_it_ended(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await child.hear()

    with pytest.raises(ExternalError, match="it ended"):
        async with lodge.led(play):
            raise AssertionError("it began")


@pytest.mark.parametrize("line", [b"hello\n", b"[]\n", b"null\n", b"\xff\xfe\n"])
async def test_a_child_that_speaks_no_protocol_is_gone_for_whoever_waits(
    lodge: Lodge, line: bytes
) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.hear()
        await child.raw(line)
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with pytest.raises(ExternalError, match="Pi broke its protocol: it sent a line that is n"):
            await talk.say(FIRST, waits=True)
        assert "broke its protocol" in await talk.wait_ended()
        assert talk.lifecycle is Lifecycle.UNKNOWN
        assert not await talk.is_answering()


async def test_a_child_that_dies_with_a_message_is_told_to_whoever_waits_for_it(
    lodge: Lodge,
) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.take()

    async with lodge.led(play) as talk:
        with pytest.raises(ExternalError, match="it ended"):
            await talk.say(FIRST, waits=True)
        with pytest.raises(ExternalError, match="it ended"):
            await talk.say(SECOND, waits=False)


async def test_a_child_that_takes_nothing_in_is_told_as_such(
    lodge: Lodge, herd_clock: MockClock
) -> None:
    long = Message(GUIDANCE, "x", {"long": "x" * (8 << 20)})

    async def play(child: ManagedChild) -> None:
        await ready(child)
        command = await child.hear()
        await child.ask_only("take", id=command["message"][-36:])
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with pytest.raises(ExternalError, match="Pi does not answer: it took in nothing for 30 s"):
            await talk.say(long, waits=False)


async def test_a_command_whose_sender_is_cancelled_is_written_to_its_end(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await wait_all_tasks_blocked(0.05)
        assert len((await child.hear())["path"]) == 8 << 20
        await ready(child)
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with trio.move_on_after(0.01):
            await talk._commands.send("export_html", path="x" * (8 << 20))
        assert await talk.is_answering()


async def test_a_child_that_is_alive_and_silent_does_not_answer(
    lodge: Lodge, herd_clock: MockClock
) -> None:
    async with lodge.led(silent) as talk:
        began = trio.current_time()
        assert not await talk.is_answering()
        assert trio.current_time() - began == pytest.approx(ANSWER_S)
        assert talk.child == CHILD
        assert talk.session == SESSION


async def test_a_child_that_leads_another_session_by_now_does_not_answer(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await ready(child)
        child.state["sessionId"] = "another"
        await ready(child)

    async with lodge.led(play) as talk:
        assert await talk.is_answering()
        assert not await talk.is_answering()


async def test_messages_for_a_child_at_work_are_handed_over_together_when_its_turn_ends(
    lodge: Lodge,
) -> None:
    is_asked = trio.Event()

    async def play(child: ManagedChild) -> None:
        await work(child)
        await is_asked.wait()
        assert await child.ask("turn", outcome="error") == {}
        answer = await child.ask("turn", outcome="completed")
        assert answer == {"messages": [shown(SECOND), shown(GUIDE)]}
        assert await child.ask("turn", outcome="completed") == {"messages": []}
        for message in answer["messages"]:
            entry = {"customType": message["kind"], "details": message["details"]}
            child.save("custom_message", **entry)
            await child.say("entry_appended", entry={"type": "custom_message", **entry})
        await ready(child)
        await child.answered()
        await child.say("agent_settled", aborted=False)
        await trio.sleep_forever()

    guide = GUIDE
    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=False)
        while not (await talk.entries())[1:]:
            await trio.lowlevel.checkpoint()
        await talk.say(SECOND, waits=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: talk.say(guide, waits=True))
            await wait_all_tasks_blocked()
            seen = [talk.lifecycle]
            is_asked.set()
        await lodge.attendant.wait_rests(1)
        seen.append(talk.lifecycle)
    assert seen == [Lifecycle.WORKING, Lifecycle.IDLE]


GUIDE = Message(GUIDANCE, "Mind this.", {})


async def test_a_message_that_comes_when_the_child_rests_begins_it_anew_and_is_no_rest(
    lodge: Lodge,
) -> None:
    said = trio.Event()

    async def play(child: ManagedChild) -> None:
        await work(child)
        assert await child.ask("rest", outcome="completed") == {"messages": []}
        await said.wait()
        await child.say("agent_settled", aborted=False)
        await ready(child)
        await child.expect("clear_queue")
        (message,) = (await child.take())["messages"]
        assert message == shown(SECOND)
        await child.say("agent_start")
        await child.enter(message)
        await ready(child)
        await child.answered(content=[{"type": "text", "text": "both done"}])
        await child.say("agent_settled", aborted=False)
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=False)
        while talk.lifecycle is not Lifecycle.WORKING or not (await talk.entries())[1:]:
            await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: talk.say(SECOND, waits=True))
            await wait_all_tasks_blocked()
            said.set()
        await lodge.attendant.wait_rests(1)
    assert lodge.attendant.rests == [Ended()]
    assert lodge.attendant.told == [("both done", False)]


async def settle_with_second(child: ManagedChild, said: trio.Event) -> None:
    """Be at work on the first message, and rest when the second one is said."""
    await work(child)
    await said.wait()
    await child.say("agent_settled", aborted=False)


async def say_second(lodge: Lodge, talk: PiTalk, said: trio.Event) -> None:
    """Say the first message, then the second one to a child at work, and wait for it."""
    await talk.say(FIRST, waits=False)
    while not (await talk.entries())[1:]:
        await trio.lowlevel.checkpoint()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: talk.say(SECOND, waits=True))
        await wait_all_tasks_blocked()
        said.set()


async def test_a_message_that_began_a_run_by_itself_is_not_put_in_again(lodge: Lodge) -> None:
    said = trio.Event()

    async def play(child: ManagedChild) -> None:
        await settle_with_second(child, said)
        child.state["isStreaming"] = True
        await ready(child)
        await child.say("agent_start")
        (message,) = (await child.ask("turn", outcome="completed"))["messages"]
        await child.enter(message)
        await ready(child)
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await say_second(lodge, talk, said)
        await lodge.attendant.wait_rests(1)
    assert lodge.attendant.rests == [Ended()]


async def test_a_message_that_a_child_at_rest_does_not_take_is_told_and_the_rest_as_well(
    lodge: Lodge,
) -> None:
    said = trio.Event()

    async def play(child: ManagedChild) -> None:
        await settle_with_second(child, said)
        await ready(child)
        await child.expect("clear_queue")
        await child.expect("prompt", success=False, error="no more")
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with pytest.RaisesGroup(pytest.RaisesExc(ExternalError, match="no more")):
            await say_second(lodge, talk, said)
        await lodge.attendant.wait_rests(1)
        assert talk.lifecycle is Lifecycle.IDLE
    assert lodge.attendant.rests == [Ended()]


async def test_a_message_for_a_child_at_rest_waits_for_who_shortens_the_conversation(
    lodge: Lodge,
) -> None:
    said = trio.Event()

    async def play(child: ManagedChild) -> None:
        await settle_with_second(child, said)
        await ready(child)
        await child.say("compaction_start", reason="manual")
        await child.expect("clear_queue")
        await child.expect("prompt", success=False, error="wait")
        await child.say("compaction_end")
        (message,) = (await child.take())["messages"]
        await child.enter(message)
        await ready(child)
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await say_second(lodge, talk, said)
        await lodge.attendant.wait_rests(1)


async def test_before_a_rest_the_agent_reads_what_waits(lodge: Lodge) -> None:
    said = trio.Event()

    async def play(child: ManagedChild) -> None:
        await work(child)
        await said.wait()
        answer = await child.ask("rest", outcome="completed")
        assert answer == {"messages": [shown(SECOND)]}
        await child.enter(answer["messages"][0])
        await ready(child)
        assert await child.ask("rest", outcome="completed") == {"messages": []}
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await say_second(lodge, talk, said)
        await lodge.attendant.wait_rests(1)


async def test_an_interrupt_drops_what_the_child_has_taken_and_not_let_in(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.take()
        await child.expect("clear_queue")
        await child.expect("abort")
        await trio.sleep_forever()

    async with lodge.led(play) as talk, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: talk.say(FIRST, waits=True))
        await wait_all_tasks_blocked()
        await talk.interrupt()
        assert talk.lifecycle is Lifecycle.IDLE
    assert lodge.attendant.rests == []


async def test_the_same_message_is_given_out_once_however_often_it_is_asked_for(
    lodge: Lodge,
) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        command = await child.hear()
        id_ = command["message"][-36:]
        assert await child.ask("take", id=id_) == {"messages": [shown(FIRST)]}
        assert await child.ask("take", id=id_) == {}
        assert await child.ask("take", id="unknown") == {}
        assert await child.ask("take") == {}
        await child.reply(command)
        await child.enter(shown(FIRST))
        await ready(child)
        await child.run()
        assert await child.ask("take", id=id_) == {}
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=True)
        await lodge.attendant.wait_rests(1)
    assert lodge.attendant.told == [("done", False)]


async def test_a_child_that_hands_a_marker_to_its_model_is_told_as_such(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.expect("prompt", data={"disposition": "started"})
        await child.expect("prompt", success=False, error="no")
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with pytest.raises(ExternalError, match="its extension did not ask for it"):
            await talk.say(FIRST, waits=False)
        with pytest.raises(ExternalError, match="Pi has not taken a message in: no"):
            await talk.append(RETIRED, {})
        assert talk.lifecycle is Lifecycle.IDLE


async def test_a_message_that_the_file_does_not_hold_is_not_told_as_saved(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        (message,) = (await child.take())["messages"]
        await child.enter(message, saves=False)
        await ready(child)
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with pytest.raises(ExternalError, match="has not saved pinata-agent-request in "):
            await talk.say(FIRST, waits=True)


async def test_a_message_is_read_once_though_the_one_before_it_was_saved_by_half(
    lodge: Lodge,
) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        with child.session_file.open("a") as file:
            file.write('{"type":"message","mess')
        (message,) = (await child.take())["messages"]
        await child.enter(message)
        await ready(child)
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=True)
        assert [entry.details for entry in await talk.entries()][-1] == FIRST.details


async def test_a_message_that_could_not_be_saved_is_not_given_to_the_child(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        assert await child.take() == {}
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await trio.to_thread.run_sync(lodge.session_file.unlink)
        with pytest.raises(ExternalError, match="its extension did not ask for it"):
            await talk.say(FIRST, waits=True)


async def test_an_entry_that_the_child_does_not_save_is_not_told_as_saved(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        assert await child.take() == {"entry": {"kind": RETIRED, "details": {"session": "s"}}}
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with pytest.raises(ExternalError, match="Pi has not saved an entry pinata-agent-retired"):
            await talk.append(RETIRED, {"session": "s"})


async def test_an_interrupt_clears_the_queue_before_it_aborts_and_forgets_what_waits(
    lodge: Lodge,
) -> None:
    is_asked = trio.Event()

    async def play(child: ManagedChild) -> None:
        await work(child)
        await is_asked.wait()
        await child.expect("clear_queue")
        abort = await child.hear()
        assert abort["type"] == "abort"
        # Whatever ends while it is being aborted gets nothing more to read.
        assert await child.ask("turn", outcome="completed") == {}
        assert await child.ask("rest", outcome="completed") == {}
        await child.answered(
            content=[{"type": "text", "text": "half"}], stopReason="aborted", errorMessage="stop"
        )
        await child.say("agent_settled", aborted=True)
        await child.reply(abort)
        assert await child.take() == {"messages": [shown(GUIDE)]}
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=False)
        while not (await talk.entries())[1:]:
            await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: talk.say(SECOND, waits=True))
            await wait_all_tasks_blocked()
            is_asked.set()
            await talk.interrupt()
        await lodge.attendant.wait_rests(1)
        assert lodge.attendant.told == [("half", True)]
        assert lodge.attendant.rests == [Ended(was_aborted=True)]
        await talk.say(GUIDE, waits=False)


async def test_a_dialog_of_somebody_else_blocks_the_agent_until_its_time_or_the_run_is_over(
    lodge: Lodge, herd_clock: MockClock
) -> None:
    def dialog(id_: str, **fields: object) -> dict[str, object]:
        return {"id": id_, "method": "confirm", "title": "sure?", **fields}

    async def play(child: ManagedChild) -> None:
        await work(child)
        await child.say("extension_ui_request", **dialog("d-1", timeout=5_000))
        await trio.sleep(10)
        await child.say("extension_ui_request", **dialog("d-2"))
        await trio.sleep(10)
        await child.say("agent_settled", aborted=False)
        await child.say("extension_ui_request", **dialog("d-3"))
        await child.expect("clear_queue")
        assert (await child.hear())["id"] == "d-3"
        await child.expect("abort")
        await trio.sleep_forever()

    seen = []
    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=False)
        for _ in range(6):
            await trio.sleep(4)
            seen.append(talk.lifecycle)
        await talk.interrupt()
        seen.append(talk.lifecycle)
    blocked, working = Lifecycle.BLOCKED, Lifecycle.WORKING
    assert seen == [blocked, working, blocked, blocked, blocked, blocked, Lifecycle.IDLE]


async def test_an_extension_that_cannot_send_a_message_is_a_fault_of_the_agent(
    lodge: Lodge,
) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.take()
        await child.say("extension_error", event="agent_end", error="not ours")
        await child.say("extension_error", event="send_message", error=f"no {PLANTED} key")
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        with pytest.raises(ExternalError, match="Pi has not taken a message in: no "):
            await talk.say(FIRST, waits=True)
        await lodge.attendant.wait_rests(1)
        (rest,) = lodge.attendant.rests
        assert rest.fault is not None
        assert PLANTED not in rest.fault
        first, second = await talk.recent_output()
        assert first == "an extension failed: not ours"
        assert PLANTED not in second


async def test_a_message_waits_while_the_conversation_is_shortened_by_hand(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        command = await child.hear()
        await child.say("compaction_start", reason="manual")
        await child.reply(command, success=False, error="Cannot submit a prompt while ...")
        await wait_all_tasks_blocked()
        await child.say("compaction_end", reason="manual")
        (message,) = (await child.take())["messages"]
        await child.say("compaction_start", reason="threshold")
        await child.say("compaction_end", reason="threshold")
        await child.enter(message)
        await ready(child)
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=True)
        await lodge.attendant.wait_rests(1)


async def test_a_fault_of_the_provider_is_told_without_secrets_and_so_is_the_usage(
    lodge: Lodge,
) -> None:
    usage = {"tokens": 10, "contextWindow": 100, "percent": 10.5}

    async def play(child: ManagedChild) -> None:
        await work(child)
        fault = {"stopReason": "error", "errorMessage": f"401: {PLANTED}"}
        await child.answered(content=[{"type": "text", "text": "half"}], **fault)
        assert await child.ask("rest", outcome="error") == {}
        await child.say(
            "extension_ui_request",
            id="u",
            method="setStatus",
            statusKey="pinata:usage",
            statusText=json.dumps(usage),
        )
        await child.say("agent_settled", aborted=False)
        await trio.sleep_forever()

    async with lodge.led(play) as talk:
        await talk.say(FIRST, waits=False)
        await lodge.attendant.wait_rests(1)
    (rest,) = lodge.attendant.rests
    assert rest.fault is not None
    assert rest.fault.startswith("401: ")
    assert PLANTED not in rest.fault
    assert rest.usage is not None
    assert (rest.usage.tokens, rest.usage.context_window, rest.usage.percent) == (10, 100, 10.5)
    # What the provider broke off does not count as said.
    assert lodge.attendant.told == [("", False)]


async def test_compactions_are_as_the_attendant_says(lodge: Lodge) -> None:
    lodge.attendant.allows = False

    async def play(child: ManagedChild) -> None:
        await ready(child)
        refused = {"refusal": "the conversation is not to be shortened"}
        assert await child.ask("compact", reason="threshold") == refused
        lodge.attendant.allows = True
        assert await child.ask("compact", reason="overflow") == {}
        assert await child.ask("compact", reason="whatever") == {}
        assert "nobody knows" in (await child.ask("nonsense"))["refusal"]
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play):
        await lodge.attendant.wait_rests(1)
    assert lodge.attendant.asked == [CompactionReason.THRESHOLD, CompactionReason.OVERFLOW]


async def test_a_call_that_nobody_announced_is_not_carried_out(lodge: Lodge) -> None:
    gate = open_gate()
    lodge.attendant = PlayedAttendant(tools=(gate.tool,))
    call = {"toolCallId": "c-1", "toolName": "gate", "args": {"note": "as sent"}}

    async def play(child: ManagedChild) -> None:
        await ready(child)
        assert (await child.ask("tool", call="c-1", tool="gate"))["isError"]
        await child.answered(content=[{"type": "toolCall", "id": "c-1", "name": "gate"}])
        await child.say("tool_execution_start", **call)
        assert (await child.ask("tool", call="c-1", tool="other"))["isError"]
        answer = await child.ask("tool", call="c-1", tool="gate", arguments={"note": "mended"})
        assert answer == {
            "text": "the gate is open",
            "details": {},
            "isError": False,
            "endsTurn": False,
        }
        await child.say("tool_execution_end", toolCallId="c-1", toolName="gate")
        assert (await child.ask("tool", call="c-1", tool="gate"))["isError"]
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play):
        await lodge.attendant.wait_rests(1)
    assert gate.calls == [({"note": "as sent"}, True)]


async def test_a_call_whose_end_is_told_is_carried_out_no_further(lodge: Lodge) -> None:
    gate = Gate()
    lodge.attendant = PlayedAttendant(tools=(gate.tool,))

    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.say("tool_execution_start", toolCallId="c-1", toolName="gate", args={})
        await child.ask_only("tool", call="c-1", tool="gate")
        await gate.entered.wait()
        await child.say("tool_execution_end", toolCallId="c-1", toolName="gate", isError=True)
        answer = json.loads((await child.hear())["value"])
        assert answer == {"text": "not carried out: the call was cut off", "isError": True}
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play):
        await lodge.attendant.wait_rests(1)
    assert not gate.opened.is_set()


async def test_a_tool_of_the_herd_that_has_a_bug_ends_the_conversation_loudly(
    lodge: Lodge,
) -> None:
    async def broken(*_: object) -> ToolReply:
        raise RuntimeError("a bug")

    tool = HerdTool(ToolDeclaration("gate", "Breaks.", {"type": "object"}), broken)
    lodge.attendant = PlayedAttendant(tools=(tool,))

    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.say("tool_execution_start", toolCallId="c-1", toolName="gate", args={})
        await child.ask_only("tool", call="c-1", tool="gate")
        await trio.sleep_forever()

    with pytest.raises(RuntimeError, match="a bug"):
        async with lodge.led(play):
            await trio.sleep_forever()


async def test_files_with_keys_are_read_by_no_tool_of_the_childs(lodge: Lodge) -> None:
    keys = lodge.folder / "models.json"
    keys.write_text("{}")
    (lodge.folder / "other").write_text("")
    lodge.secret_files = (keys,)

    async def play(child: ManagedChild) -> None:
        await ready(child)
        asked = {"tool": "read", "arguments": {"path": "models.json"}}
        assert "which no agent reads" in (await child.ask("call", **asked))["refusal"]
        asked = {"tool": "read", "arguments": {"path": "other"}}
        assert await child.ask("call", **asked) == {}
        assert await child.ask("call") == {}
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play):
        await lodge.attendant.wait_rests(1)


async def test_answers_to_nobody_and_records_of_no_concern_are_passed_over(lodge: Lodge) -> None:
    async def play(child: ManagedChild) -> None:
        await ready(child)
        await child.say("response", id="nobody", success=True)
        await child.say("response", success=False)
        await child.say("queue_update", steering=["x"])
        await child.say("entry_appended", entry={"type": "label"})
        await child.say("message_end", message={"role": "user"})
        await child.say("extension_ui_request", id="n", method="notify", message="hi")
        await child.say("tool_execution_start", toolCallId="c", toolName="bash", args={})
        await child.say("tool_execution_end", toolCallId="c", toolName="bash")
        await child.run()
        await trio.sleep_forever()

    async with lodge.led(play):
        await lodge.attendant.wait_rests(1)
