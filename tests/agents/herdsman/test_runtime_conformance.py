"""What every conversation of the herd does, whatever runs the agent.

A new implementation adds its `Stage` to `STAGES`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agents.herdsman.identity import RequestId
from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import (
    ATTENTION,
    IDENTITY,
    REQUEST,
    RESULT,
    RETIRED,
    Conversation,
    Ended,
    Entry,
    Lifecycle,
    Message,
    ToolReply,
    request_message,
)
from engine.core.errors import ExternalError
from tests.support.herd_in_process import InProcessStage
from tests.support.herd_pi import PiStage
from tests.support.herd_played import PlayedStage
from tests.support.herd_stage import Gate, PlayedAttendant, Stage, open_gate

STAGES: Mapping[str, Stage] = {
    "in-process": InProcessStage(),
    "pi": PiStage(),
    "played": PlayedStage(),
}
LED = [
    "in-process",
    pytest.param("pi", marks=[pytest.mark.slow, pytest.mark.unmeasured]),
]
A_MINUTE_S = 60


@pytest.fixture(params=[*LED, "played"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """A stage of each implementation in turn."""
    return STAGES[request.param]


@pytest.fixture(params=LED)
def led_stage(request: pytest.FixtureRequest) -> Stage:
    """A stage of each implementation that has a model, in turn."""
    return STAGES[request.param]


def task(text: str, number: int = 1) -> Message:
    """Return a task with an id of its own."""
    return request_message(RequestId(f"request-{number}"), RequestKind.TASK, text)


def steer(text: str, number: int = 2) -> Message:
    """Return a steer with an id of its own."""
    return request_message(RequestId(f"request-{number}"), RequestKind.STEER, text)


def saved(conversation: Conversation) -> list[dict[str, Any]]:
    """Return what the session's file holds, line by line."""
    text = conversation.session_file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


ONE_ANSWER = """\
    "*":
      - {thinking: hm, text: All is well.}
"""
AT_THE_GATE = """\
    "*":
      - {text: I wait., calls: [{tool: gate, arguments: {note: one}}]}
      - {text: I go on.}
      - {text: And more.}
"""
HANGS = """\
    "*":
      - {text: Half an answ, hang: true}
      - {text: Whole.}
"""


async def test_an_idle_agent_begins_to_work_on_what_it_is_told(
    tmp_path: Path, stage: Stage
) -> None:
    attendant = PlayedAttendant()
    async with stage.open(tmp_path, ONE_ANSWER, attendant) as scene:
        assert scene.conversation.lifecycle is Lifecycle.IDLE
        await scene.conversation.say(task("Look around."), waits=False)
        await attendant.wait_rests(1)
        assert scene.conversation.lifecycle is Lifecycle.IDLE
        assert scene.shown(0) == ("Look around.",)
        assert attendant.told == [("All is well.", False)]
        assert not attendant.rests[0].was_aborted
        assert attendant.rests[0].fault is None


async def test_what_waits_returns_when_text_and_id_are_one_entry_of_the_file(
    tmp_path: Path, stage: Stage
) -> None:
    attendant = PlayedAttendant()
    async with stage.open(tmp_path, ONE_ANSWER, attendant) as scene:
        await scene.conversation.say(task("Look around."), waits=True)
        lines = saved(scene.conversation)
    (entry,) = [line for line in lines if line["type"] == "custom_message"]
    assert entry["customType"] == REQUEST
    assert entry["content"] == "Look around."
    assert entry["details"] == {"request": "request-1", "kind": "task"}


async def test_an_agent_that_works_reads_on_after_its_answer_and_the_calls_in_it(
    tmp_path: Path, stage: Stage
) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with stage.open(tmp_path, AT_THE_GATE, attendant) as scene:
        await scene.conversation.say(task("Go through the gate."), waits=True)
        await gate.entered.wait()
        assert scene.conversation.lifecycle is Lifecycle.WORKING
        await scene.conversation.say(steer("And then stop."), waits=False)
        gate.opened.set()
        await attendant.wait_rests(1)
        assert scene.shown(0) == ("Go through the gate.",)
        assert scene.shown(1) == ("Go through the gate.", "And then stop.")
        assert scene.answered_calls(1) == ("the gate is open",)
        assert attendant.told == [("I wait.", False), ("I go on.", False)]
        assert len(attendant.rests) == 1


async def test_a_conversation_has_as_many_turns_as_it_is_told_things(
    tmp_path: Path, stage: Stage
) -> None:
    attendant = PlayedAttendant()
    script = """\
        "*":
          - {text: One.}
          - {text: Two.}
    """
    async with stage.open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(task("First."), waits=True)
        await attendant.wait_rests(1)
        await scene.conversation.say(steer("Second."), waits=True)
        await attendant.wait_rests(2)
        assert scene.shown(1) == ("First.", "Second.")
    assert attendant.told == [("One.", False), ("Two.", False)]


async def test_an_interrupt_drops_what_waits_and_the_model_sees_only_the_replacement(
    tmp_path: Path, stage: Stage
) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with stage.open(tmp_path, AT_THE_GATE, attendant) as scene:
        await scene.conversation.say(task("Go through the gate."), waits=True)
        await gate.entered.wait()
        await scene.conversation.say(steer("Never seen."), waits=False)
        with trio.fail_after(A_MINUTE_S):
            await scene.conversation.interrupt()
        assert scene.conversation.lifecycle is Lifecycle.IDLE
        await attendant.wait_rests(1)
        assert attendant.rests[0].was_aborted
        await scene.conversation.say(steer("Do this instead."), waits=True)
        await attendant.wait_rests(2)
        assert scene.shown(1) == ("Go through the gate.", "Do this instead.")
        assert "Never seen." not in json.dumps(saved(scene.conversation))
    assert not attendant.rests[1].was_aborted


async def test_whoever_waits_for_a_message_that_an_interrupt_drops_waits_no_longer(
    tmp_path: Path, stage: Stage
) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with stage.open(tmp_path, AT_THE_GATE, attendant) as scene:
        await scene.conversation.say(task("Go through the gate."), waits=True)
        await gate.entered.wait()
        with trio.fail_after(A_MINUTE_S):
            async with trio.open_nursery() as nursery:

                async def say_and_wait() -> None:
                    await scene.conversation.say(steer("Never seen."), waits=True)

                nursery.start_soon(say_and_wait)
                await wait_all_tasks_blocked()
                await scene.conversation.interrupt()


async def test_an_aborted_answer_is_kept_for_people_and_shown_to_no_model(
    tmp_path: Path, led_stage: Stage
) -> None:
    attendant = PlayedAttendant()
    async with led_stage.open(tmp_path, HANGS, attendant) as scene:
        await scene.conversation.say(task("Begin."), waits=True)
        # A turn began, and a piece of its answer came.
        await attendant.wait_active(2)
        await scene.conversation.interrupt()
        await attendant.wait_rests(1)
        assert attendant.told == [("Half an answ", True)]
        await scene.conversation.say(steer("Again."), waits=True)
        await attendant.wait_rests(2)
        assert attendant.told[1:] == [("Whole.", False)]
        assert scene.shown(1) == ("Begin.", "Again.")
        answers = [
            line["message"]
            for line in saved(scene.conversation)
            if line["type"] == "message" and line["message"]["role"] == "assistant"
        ]
        assert [answer["stopReason"] for answer in answers] == ["aborted", "stop"]


async def test_an_interrupt_of_an_agent_at_rest_changes_nothing(
    tmp_path: Path, stage: Stage
) -> None:
    attendant = PlayedAttendant()
    async with stage.open(tmp_path, ONE_ANSWER, attendant) as scene:
        await scene.conversation.interrupt()
        await scene.conversation.say(task("Begin."), waits=True)
        await attendant.wait_rests(1)
        await scene.conversation.interrupt()
        assert scene.conversation.lifecycle is Lifecycle.IDLE
    assert [rest.was_aborted for rest in attendant.rests] == [False]


async def test_what_is_appended_is_saved_told_as_an_entry_and_shown_to_no_model(
    tmp_path: Path, stage: Stage
) -> None:
    attendant = PlayedAttendant()
    async with stage.open(tmp_path, ONE_ANSWER, attendant) as scene:
        conversation = scene.conversation
        await conversation.append(RETIRED, {"session": str(conversation.session)})
        assert saved(conversation)[-1]["data"] == {"session": str(conversation.session)}
        await conversation.say(task("Begin."), waits=True)
        await attendant.wait_rests(1)
        assert scene.shown(0) == ("Begin.",)
        identity, retired, request = await conversation.entries()
        assert identity.kind == IDENTITY
        assert retired == Entry(RETIRED, {"session": str(conversation.session)})
        assert request == Entry(REQUEST, {"request": "request-1", "kind": "task"})


async def test_a_tool_of_the_herd_knows_whether_it_was_called_alone(
    tmp_path: Path, stage: Stage
) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    gate = open_gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    script = """\
        "*":
          - calls: [{tool: gate, arguments: {note: alone}}]
          - calls:
              - {tool: gate, arguments: {note: beside another}}
              - {tool: read, arguments: {path: a.txt}}
          - {text: Done.}
    """
    async with stage.open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(task("Begin."), waits=True)
        await attendant.wait_rests(1)
    assert gate.calls == [({"note": "alone"}, True), ({"note": "beside another"}, False)]


async def test_a_tool_of_the_herd_can_end_the_turn_and_the_agent_waits(
    tmp_path: Path, led_stage: Stage
) -> None:
    gate = open_gate(ToolReply("you wait now", ends_turn=True, details={"ask": "a-1"}))
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with led_stage.open(tmp_path, AT_THE_GATE, attendant) as scene:
        await scene.conversation.say(task("Ask."), waits=True)
        await attendant.wait_rests(1)
        with pytest.raises(IndexError):
            scene.shown(1)
        (answer,) = [
            line["message"]
            for line in saved(scene.conversation)
            if line["type"] == "message" and line["message"]["role"] == "toolResult"
        ]
        assert answer["details"] == {"ask": "a-1"}
        await scene.conversation.say(steer("The answer."), waits=True)
        await attendant.wait_rests(2)
        assert scene.answered_calls(1) == ("you wait now",)
    assert attendant.told == [("I wait.", False), ("I go on.", False)]


async def test_a_broken_answer_that_is_asked_for_again_is_no_rest(
    tmp_path: Path, stage: Stage
) -> None:
    attendant = PlayedAttendant()
    script = """\
        "*":
          - {text: Half, error: disconnect}
          - {text: Whole.}
    """
    async with stage.open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(task("Begin."), waits=True)
        await attendant.wait_rests(1)
        assert scene.shown(1) == ("Begin.",)
    assert [rest.fault for rest in attendant.rests] == [None]
    assert attendant.told[-1] == ("Whole.", False)


async def test_a_provider_that_keeps_failing_is_named_when_the_agent_comes_to_rest(
    tmp_path: Path, stage: Stage
) -> None:
    attendant = PlayedAttendant()
    broken = "- {error: disconnect}"
    script = '    "*":\n' + f"      {broken}\n" * 8 + "      - {text: Back.}\n" * 4
    async with stage.open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(task("Begin."), waits=True)
        await attendant.wait_rests(1)
        assert attendant.rests[0].fault
        assert not attendant.rests[0].was_aborted
        assert attendant.told[-1][0] == ""
        assert scene.conversation.lifecycle is Lifecycle.IDLE


async def test_a_saved_session_is_continued_where_it_ended(tmp_path: Path, stage: Stage) -> None:
    first = PlayedAttendant(tools=(open_gate().tool,))
    async with stage.open(tmp_path, AT_THE_GATE, first) as scene:
        await scene.conversation.say(task("First."), waits=True)
        await first.wait_rests(1)
        session = scene.conversation.session
    second = PlayedAttendant(tools=(open_gate().tool,))
    async with stage.open(tmp_path, ONE_ANSWER, second) as scene:
        conversation = scene.conversation
        assert conversation.session == session
        assert [entry.kind for entry in await conversation.entries()] == [IDENTITY, REQUEST]
        await conversation.say(task("Second.", 2), waits=True)
        await second.wait_rests(1)
        assert scene.shown(0) == ("First.", "Second.")
        assert scene.answered_calls(0) == ("the gate is open",)
        entries = await conversation.entries()
        assert [entry.details.get("request") for entry in entries[1:]] == ["request-1", "request-2"]


async def test_a_torn_last_line_is_cut_off_and_the_session_goes_on(
    tmp_path: Path, led_stage: Stage
) -> None:
    first = PlayedAttendant()
    async with led_stage.open(tmp_path, ONE_ANSWER, first) as scene:
        await scene.conversation.say(task("First."), waits=True)
        await first.wait_rests(1)
        file = scene.conversation.session_file
    with file.open("ab") as torn:
        torn.write(b'{"type":"custom_message","id":"zzz')
    second = PlayedAttendant()
    async with led_stage.open(tmp_path, ONE_ANSWER, second) as scene:
        await scene.conversation.say(task("Second.", 2), waits=True)
        await second.wait_rests(1)
        assert scene.shown(0) == ("First.", "Second.")


async def test_entries_of_a_branch_that_was_left_are_told_as_such_and_shown_to_no_model(
    tmp_path: Path, stage: Stage
) -> None:
    first = PlayedAttendant()
    async with stage.open(tmp_path, ONE_ANSWER, first) as scene:
        conversation = scene.conversation
        await conversation.say(task("First."), waits=True)
        await first.wait_rests(1)
        file, lines = conversation.session_file, saved(conversation)
    identity = next(line["id"] for line in lines if line.get("customType") == IDENTITY)
    other = {
        "type": "custom_message",
        "id": "0b0b0b0b",
        "parentId": identity,
        "timestamp": lines[-1]["timestamp"],
        "customType": RESULT,
        "content": "On the other branch.",
        "display": True,
        "details": {"delivery": "d-1"},
    }
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, other]))
    second = PlayedAttendant()
    async with stage.open(tmp_path, ONE_ANSWER, second) as scene:
        await scene.conversation.say(task("Second.", 2), waits=True)
        await second.wait_rests(1)
        assert scene.shown(0) == ("On the other branch.", "Second.")
        assert [(each.kind, each.on_branch) for each in await scene.conversation.entries()] == [
            (IDENTITY, True),
            (REQUEST, False),
            (RESULT, True),
            (REQUEST, True),
        ]


async def test_recent_output_is_text_tools_and_what_they_wrote_without_reasoning(
    tmp_path: Path, led_stage: Stage
) -> None:
    attendant = PlayedAttendant()
    script = """\
        "*":
          - thinking: secret plan
            text: I run it.
            calls: [{tool: bash, arguments: {command: seq 100 102}}]
          - {text: "Done, in\\ntwo lines."}
    """
    async with led_stage.open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(task("Never repeated."), waits=True)
        await attendant.wait_rests(1)
        lines = await scene.conversation.recent_output()
    text = "\n".join(lines)
    assert "secret plan" not in text
    assert "Never repeated." not in text
    assert [line for line in lines if "bash" in line]
    wanted = ("I run it.", "100", "101", "102", "Done, in", "two lines.")
    assert [line for line in lines if line in wanted] == list(wanted)


async def test_recent_output_ends_after_eighty_lines(tmp_path: Path, led_stage: Stage) -> None:
    attendant = PlayedAttendant()
    script = """\
        "*":
          - {calls: [{tool: bash, arguments: {command: seq 1 300}}]}
          - {text: Counted.}
    """
    async with led_stage.open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(task("Count."), waits=True)
        await attendant.wait_rests(1)
        lines = await scene.conversation.recent_output()
    assert len(lines) == 80
    assert "300" in lines
    assert "100" not in lines
    assert lines[-1] == "Counted."


async def test_pieces_of_answers_and_calls_are_activity_and_waiting_for_a_call_is_none(
    tmp_path: Path, led_stage: Stage
) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with led_stage.open(tmp_path, AT_THE_GATE, attendant) as scene:
        await scene.conversation.say(task("Begin."), waits=True)
        await gate.entered.wait()
        # A turn began, a piece came, the answer ended, the call began.
        assert attendant.activity >= 4
        seen = attendant.activity
        gate.opened.set()
        await attendant.wait_rests(1)
        assert attendant.activity >= seen + 4


async def test_nothing_is_taken_in_once_the_agent_is_gone(tmp_path: Path, stage: Stage) -> None:
    attendant = PlayedAttendant()
    async with stage.open(tmp_path, ONE_ANSWER, attendant) as scene:
        conversation = scene.conversation
    with pytest.raises(ExternalError):
        await conversation.say(task("Too late."), waits=False)
    with pytest.raises(ExternalError):
        await conversation.append(RETIRED, {})
    with pytest.raises(ExternalError):
        await conversation.interrupt()


async def test_several_messages_that_wait_are_read_together_in_their_order(
    tmp_path: Path, stage: Stage
) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with stage.open(tmp_path, AT_THE_GATE, attendant) as scene:
        await scene.conversation.say(task("Begin."), waits=True)
        await gate.entered.wait()
        await scene.conversation.say(steer("One."), waits=False)
        await scene.conversation.say(Message(ATTENTION, "Two.", {"delivery": "d"}), waits=False)
        gate.opened.set()
        await attendant.wait_rests(1)
        assert [text for text in scene.shown(1) if text != "Begin."] == ["One.", "Two."]


async def test_an_end_tells_how_full_the_context_is(tmp_path: Path, stage: Stage) -> None:
    attendant = PlayedAttendant()
    script = """\
        "*":
          - {text: Done., usage: {input: 900, output: 100}}
    """
    async with stage.open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(task("Begin."), waits=True)
        await attendant.wait_rests(1)
    (ended,) = attendant.rests
    assert isinstance(ended, Ended)
    assert ended.usage is not None
    assert ended.usage.tokens is not None
    assert ended.usage.tokens >= 1000
