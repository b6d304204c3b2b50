"""How an agent of this process comes to rest, is interrupted, fails to save, and goes."""

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agents.herdsman.identity import RequestId
from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import Ended, Lifecycle, ToolReply, request_message
from agents.models.port import AnswerEnded, AnswerPiece, StopReason, TextPiece, ToolCall
from engine.core.errors import ExternalError
from engine.core.spec import ModelChoice, Thinking
from tests.support.agents import PieceModel, calls
from tests.support.herd_in_process import InProcessScene, InProcessStage
from tests.support.herd_stage import Gate, PlayedAttendant

TASK = request_message(RequestId("request-1"), RequestKind.TASK, "Begin.")
STEER = request_message(RequestId("request-2"), RequestKind.STEER, "Turn left.")
READ = ToolCall("b", "read", {"path": "a.txt"})


def says(text: str) -> list[AnswerPiece]:
    return [TextPiece(text), AnswerEnded(StopReason.STOP)]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / "sessions").iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_an_interrupt_leaves_no_call_without_an_answer(tmp_path: Path) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    model = PieceModel([calls(ToolCall("a", "gate", {}), READ)])
    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        await scene.conversation.say(TASK, waits=True)
        await gate.entered.wait()
        await scene.conversation.interrupt()
        results = [
            line["message"]["toolCallId"]
            for line in lines_of(tmp_path)
            if line.get("message", {}).get("role") == "toolResult"
        ]
    assert len(results) == len(set(results)) == 2


async def test_a_definition_that_names_a_model_wins_over_what_the_session_says(
    tmp_path: Path,
) -> None:
    first, second = PlayedAttendant(), PlayedAttendant()
    async with InProcessStage().led_by(tmp_path, PieceModel([says("One.")]), first) as scene:
        await scene.conversation.say(TASK, waits=True)
        await first.wait_rests(1)
    choice = ModelChoice("prepared", "other", Thinking.HIGH)
    stage = InProcessStage(lambda spec: replace(spec, choice=choice))
    async with stage.led_by(tmp_path, PieceModel([says("Two.")]), second) as scene:
        await scene.conversation.say(STEER, waits=True)
        await second.wait_rests(1)
    changes = [line for line in lines_of(tmp_path) if line["type"] == "model_change"]
    assert [line["modelId"] for line in changes] == ["pieces", "other"]
    levels = [line for line in lines_of(tmp_path) if line["type"] == "thinking_level_change"]
    assert [line["thinkingLevel"] for line in levels] == ["off", "high"]


async def test_whoever_is_told_of_a_rest_can_say_more_and_wait_for_it(tmp_path: Path) -> None:
    scene: InProcessScene

    class Insisting(PlayedAttendant):
        async def came_to_rest(self, ended: Ended) -> None:
            if not self.rests:
                with trio.fail_after(60):
                    await scene.conversation.say(STEER, waits=True)
            await super().came_to_rest(ended)

    attendant = Insisting()
    model = PieceModel([says("One."), says("Two.")])
    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        await scene.conversation.say(TASK, waits=True)
        await attendant.wait_rests(2)
    assert [text for text, _ in attendant.told] == ["One.", "Two."]


async def test_what_was_said_while_a_rest_was_told_is_aborted_by_an_interrupt(
    tmp_path: Path,
) -> None:
    telling, go_on = trio.Event(), trio.Event()

    class Slow(PlayedAttendant):
        async def came_to_rest(self, ended: Ended) -> None:
            telling.set()
            await go_on.wait()
            await super().came_to_rest(ended)

    attendant = Slow()
    model = PieceModel([says("One."), says("Never heard.")])
    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        conversation = scene.conversation
        await conversation.say(TASK, waits=True)
        await telling.wait()
        await conversation.say(STEER, waits=True)
        assert conversation.lifecycle is Lifecycle.WORKING
        async with trio.open_nursery() as nursery:
            nursery.start_soon(conversation.interrupt)
            await wait_all_tasks_blocked()
            go_on.set()
        await attendant.wait_rests(2)
    assert [ended.was_aborted for ended in attendant.rests] == [False, True]
    assert ("Never heard.", False) not in attendant.told


async def test_a_disk_that_takes_no_more_is_told_to_who_says_and_when_it_rests(
    tmp_path: Path,
) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    model = PieceModel([calls(ToolCall("a", "gate", {})), says("On.")])
    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        conversation = scene.conversation
        await conversation.say(TASK, waits=True)
        await gate.entered.wait()
        descriptor = conversation._talk._log._descriptor
        assert descriptor is not None
        kept, full = os.dup(descriptor), os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, descriptor)
        os.close(full)
        gate.opened.set()
        await attendant.wait_rests(1)
        assert "cannot be saved" in str(attendant.rests[0].fault)
        with pytest.raises(ExternalError, match="cannot be saved"):
            await conversation.say(STEER, waits=False)
        await attendant.wait_rests(2)
        assert conversation.lifecycle is Lifecycle.IDLE
        os.dup2(kept, descriptor)
        os.close(kept)
        await conversation.say(STEER, waits=True)
        await attendant.wait_rests(3)
    assert attendant.told[-1] == ("On.", False)
    assert len(model.asked) == 2


async def test_whoever_waits_is_told_when_the_agent_goes(tmp_path: Path) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    model = PieceModel([calls(ToolCall("a", "gate", {}))])
    failed: list[ExternalError] = []

    async def say(scene: InProcessScene) -> None:
        try:
            await scene.conversation.say(STEER, waits=True)
        except ExternalError as error:
            failed.append(error)

    async with (
        trio.open_nursery() as nursery,
        InProcessStage().led_by(tmp_path, model, attendant) as scene,
    ):
        await scene.conversation.say(TASK, waits=True)
        await gate.entered.wait()
        nursery.start_soon(say, scene)
        await wait_all_tasks_blocked()
        assert await scene.conversation.is_answering()
    assert [str(error) for error in failed] == ["the agent scout-1 is gone"]
    assert not await scene.conversation.is_answering()
    assert scene.conversation.child is None
    with trio.move_on_after(0):
        await scene.conversation.wait_ended()


async def test_what_is_said_while_an_interrupt_goes_on_is_worked_on_afterwards(
    tmp_path: Path,
) -> None:
    entered, goes_on = trio.Event(), trio.Event()

    async def reluctant(arguments: object, is_alone: bool) -> ToolReply:  # noqa: FBT001 - as `HerdTool.call` has it
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await goes_on.wait()

    attendant = PlayedAttendant(tools=(replace(Gate().tool, call=reluctant),))
    model = PieceModel([calls(ToolCall("a", "gate", {})), says("On the left.")])
    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        await scene.conversation.say(TASK, waits=True)
        await entered.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.conversation.interrupt)
            await wait_all_tasks_blocked()
            await scene.conversation.say(STEER, waits=False)
            goes_on.set()
        await attendant.wait_rests(2)
    assert [ended.was_aborted for ended in attendant.rests] == [True, False]
    assert attendant.told == [("", False), ("On the left.", False)]


async def test_an_interrupt_in_the_middle_of_what_is_being_saved_leaves_it_for_later(
    tmp_path: Path,
) -> None:
    attendant = PlayedAttendant()
    model = PieceModel([says("Both.")])
    async with InProcessStage().led_by(tmp_path, model, attendant) as scene:
        conversation = scene.conversation
        async with trio.open_nursery() as nursery, conversation._talk._lock_whole():
            nursery.start_soon(partial(conversation.say, TASK, waits=True))
            await wait_all_tasks_blocked()
            nursery.start_soon(conversation.interrupt)
            await wait_all_tasks_blocked()
        await attendant.wait_rests(1)
        assert model.asked == []
        await conversation.say(STEER, waits=True)
        await attendant.wait_rests(2)
        assert scene.shown(0) == ("Begin.", "Turn left.")
    assert [ended.was_aborted for ended in attendant.rests] == [True, False]
