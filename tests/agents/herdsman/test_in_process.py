import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.compaction import CONVERSATION_SYSTEM
from agents.herdsman.identity import RequestId
from agents.herdsman.record import ContextUsage, RequestKind
from agents.herdsman.runtime import (
    GUIDANCE,
    CompactionReason,
    Message,
    ToolReply,
    request_message,
)
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    CallReady,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ToolCall,
    Trouble,
    Usage,
    UserMessage,
)
from tests.support.agents import PieceModel, calls
from tests.support.herd_in_process import InProcessStage, stage_with
from tests.support.herd_stage import PlayedAttendant, open_gate

TASK = request_message(RequestId("request-1"), RequestKind.TASK, "Begin.")
STEER = request_message(RequestId("request-2"), RequestKind.STEER, "Turn left.")
TOO_LONG: list[AnswerPiece] = [AnswerFailed(Trouble.CONTEXT_LENGTH, "400: too many tokens")]
BROKE: list[AnswerPiece] = [AnswerFailed(Trouble.AUTHENTICATION, "401: who are you?")]
READ = ToolCall("a", "read", {"path": "a.txt"})


def says(text: str, **usage: int) -> list[AnswerPiece]:
    return [TextPiece(text), AnswerEnded(StopReason.STOP, Usage(**usage))]


async def play(
    folder: Path, model: PieceModel, attendant: PlayedAttendant, *messages: Message
) -> None:
    """Let an agent work on messages, one after the other."""
    async with InProcessStage().led_by(folder, model, attendant) as scene:
        for number, message in enumerate(messages, 1):
            await scene.conversation.say(message, waits=True)
            await attendant.wait_rests(number)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / "sessions").iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_result_is_the_text_and_neither_thoughts_nor_calls(tmp_path: Path) -> None:
    attendant = PlayedAttendant(tools=(open_gate(ToolReply("ok", ends_turn=True)).tool,))
    pieces: list[AnswerPiece] = [
        ThinkingPiece("hm"),
        TextPiece("The text "),
        TextPiece("alone."),
        CallReady(ToolCall("a", "gate", {})),
        AnswerEnded(StopReason.TOOL_USE),
    ]
    await play(tmp_path, PieceModel([pieces]), attendant, TASK)
    assert attendant.told == [("The text alone.", False)]


async def test_what_was_said_before_a_provider_failed_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    attendant = PlayedAttendant()
    model = PieceModel([[TextPiece("Let me see."), *calls(READ)], BROKE])
    await play(tmp_path, model, attendant, TASK)
    assert attendant.told == [("Let me see.", False), ("", False)]
    (ended,) = attendant.rests
    assert (ended.fault, ended.was_aborted) == ("401: who are you?", False)


async def test_an_agent_whose_provider_failed_goes_on_with_what_waits(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    model = PieceModel([BROKE, says("Back.")])

    def leave() -> None:
        scene.conversation._inbox.leave(STEER)

    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        # As if it had been said while the answer was under way.
        model.before = {0: leave}
        await scene.conversation.say(TASK, waits=True)
        await attendant.wait_rests(1)
    assert [ended.fault for ended in attendant.rests] == [None]
    assert attendant.told == [("", False), ("Back.", False)]
    assert [each.text for each in model.asked[1] if isinstance(each, UserMessage)] == [
        "Begin.",
        "Turn left.",
    ]


async def test_an_answer_that_grew_too_long_is_gone_on_with_once(tmp_path: Path) -> None:
    cut: list[AnswerPiece] = [TextPiece("For ev"), AnswerEnded(StopReason.LENGTH)]
    attendant = PlayedAttendant()
    model = PieceModel([cut, cut])
    await play(tmp_path, model, attendant, TASK)
    assert len(model.asked) == 2
    last = model.asked[1][-1]
    assert isinstance(last, UserMessage)
    assert "smaller steps" in last.text
    told = [line for line in lines_of(tmp_path) if line.get("customType") == GUIDANCE]
    assert [line["details"] for line in told] == [{"why": "length"}]


BIG = "x" * 4_000


async def test_a_conversation_that_outgrows_its_model_is_shortened_if_it_may(
    tmp_path: Path,
) -> None:
    attendant = PlayedAttendant()
    first, second = says("One." + BIG), says("Two." + BIG)
    model = PieceModel([first, second, says("Asked: all of it."), says("Three.")])
    model.context_tokens = 3_000
    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        for number, text in enumerate(("First.", "Second."), 1):
            message = request_message(RequestId(f"r-{number}"), RequestKind.STEER, text + BIG)
            await scene.conversation.say(message, waits=True)
            await attendant.wait_rests(number)
        await scene.conversation.say(TASK, waits=True)
        await attendant.wait_rests(3)
    assert CompactionReason.THRESHOLD in attendant.asked
    assert CONVERSATION_SYSTEM in [system for system, _ in model.shown]
    shown = [each.text for each in model.asked[-1] if isinstance(each, UserMessage)]
    assert "Asked: all of it." in shown[0]
    assert shown[-1] == "Begin."
    assert [line for line in lines_of(tmp_path) if line["type"] == "compaction"]


async def test_a_conversation_that_may_not_be_shortened_stays_whole(tmp_path: Path) -> None:
    attendant = PlayedAttendant(allows=False)
    model = PieceModel([says("One.", input_tokens=2_900), says("Two.", input_tokens=2_950)])
    model.context_tokens = 3_000
    await play(tmp_path, model, attendant, TASK, STEER)
    assert set(attendant.asked) == {CompactionReason.THRESHOLD}
    assert len(model.asked) == 2
    assert not [line for line in lines_of(tmp_path) if line["type"] == "compaction"]
    assert attendant.rests[0].usage == ContextUsage(2_900, 3_000, 100 * 2_900 / 3_000)


@pytest.mark.parametrize("allows", [True, False])
async def test_an_overflow_is_told_and_shortened_away_if_it_may(
    tmp_path: Path,
    allows: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    attendant = PlayedAttendant(allows=allows)
    answers: list[list[AnswerPiece]] = [
        says("One." + BIG),
        says("Two." + BIG),
        TOO_LONG,
        says("Asked: all of it."),
        says("Three."),
    ]
    model = PieceModel(answers)
    await play(tmp_path, model, attendant, TASK, STEER, TASK)
    assert attendant.asked == [CompactionReason.OVERFLOW]
    if allows:
        assert attendant.told[-1] == ("Three.", False)
        assert attendant.rests[-1].fault is None
    else:
        assert attendant.rests[-1].fault is not None
        assert "context is full" in attendant.rests[-1].fault


async def test_a_conversation_that_cannot_be_shortened_ends_with_that(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    await play(tmp_path, PieceModel([TOO_LONG]), attendant, TASK)
    assert "cannot be shortened further" in str(attendant.rests[0].fault)


async def test_a_summary_that_is_empty_or_fails_ends_the_turn_with_that(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    model = PieceModel(
        [says("One." + BIG), says("Two." + BIG), TOO_LONG, says(" "), TOO_LONG, BROKE]
    )
    await play(tmp_path, model, attendant, TASK, STEER, TASK, STEER)
    faults = [ended.fault or "" for ended in attendant.rests[2:]]
    assert "cannot be shortened further" in faults[0]
    assert faults[1] == "401: who are you?"


async def test_its_bash_is_the_one_that_stops_and_an_explicit_limit_is_kept(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    script = """\
        "*":
          - calls: [{tool: bash, arguments: {command: read never < fifo, timeout: 0.2}}]
    """
    os.mkfifo(tmp_path / "fifo")
    async with InProcessStage().open(tmp_path, script, attendant) as scene:
        await scene.conversation.say(TASK, waits=True)
        await attendant.wait_rests(1)
        (bash,) = [tool for tool in scene.model.tools[0] if tool.name == "bash"]
        assert "600 by default" in str(bash.parameters)
        (answer,) = scene.answered_calls(1)
    assert "stopped after its 0.2 seconds" in answer


async def test_scripts_call_its_tools_and_none_of_the_herds(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    gate = open_gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    code = 'print(read(path="a.txt"))\ngate()'
    model = PieceModel([calls(ToolCall("a", "codemode", {"code": code}))])
    async with stage_with(codemode=True).led_by(tmp_path, model, attendant) as scene:
        await scene.conversation.say(TASK, waits=True)
        await attendant.wait_rests(1)
        (answer,) = scene.answered_calls(1)
        assert "- `codemode`\n- `gate`" in scene.model.systems[0]
        lines = await scene.conversation.recent_output()
    assert "hello" in answer
    assert "name 'gate' is not defined" in answer
    assert [line for line in lines if line.startswith("read")]
    assert gate.calls == []


async def test_faulty_and_unknown_calls_and_a_tool_that_breaks_are_answered(
    tmp_path: Path,
) -> None:
    gate = open_gate()
    broken = replace(gate.tool, declaration=replace(gate.tool.declaration, name="broken"))

    async def breaks(arguments: object, is_alone: bool) -> ToolReply:  # noqa: FBT001 - as `HerdTool.call` has it
        raise RuntimeError("a bug")

    attendant = PlayedAttendant(tools=(gate.tool, replace(broken, call=breaks)))
    wanted = (
        ToolCall("a", "gate", {}, "the arguments are not JSON"),
        ToolCall("b", "submit_result", {}),
        ToolCall("c", "broken", {}),
    )
    async with InProcessStage().led_by(tmp_path, PieceModel([calls(*wanted)]), attendant) as scene:
        await scene.conversation.say(TASK, waits=True)
        await attendant.wait_rests(1)
        assert scene.answered_calls(1) == (
            "gate: the arguments are not JSON",
            "there is no tool of that name; yours are read, bash",
            "broken broke down; try another way",
        )
    assert gate.calls == []


async def test_a_definition_that_asks_for_what_is_not_there_is_refused(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    with pytest.raises(Exception, match="web_search") as caught:
        async with stage_with(tools=("web_search",)).led_by(tmp_path, PieceModel([]), attendant):
            raise AssertionError
    assert not isinstance(caught.value, AssertionError)


async def test_a_persona_that_replaces_stands_alone(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    model = PieceModel([says("Yes.")])
    async with stage_with(system_prompt_mode="replace").led_by(tmp_path, model, attendant) as scene:
        await scene.conversation.say(TASK, waits=True)
        await attendant.wait_rests(1)
    assert model.shown[0][0] == "You look around.\n"
