from pathlib import Path

from agents.loop import REMINDER, NoResult, Submitted
from agents.models.port import (
    AnswerEnded,
    AnswerPiece,
    StopReason,
    TextPiece,
    ToolCall,
    UserMessage,
)
from engine.core.spec import Kind
from tests.support.agents import PieceModel, calls, open_studio, submits

READ = ToolCall("a", "read", {"path": "a.txt"})
SAY: list[AnswerPiece] = [TextPiece("I am done."), AnswerEnded(StopReason.STOP)]


def heard(model: PieceModel, request: int) -> list[str]:
    """Return what the engine had said when a request was made."""
    return [each.text for each in model.asked[request] if isinstance(each, UserMessage)]


async def test_a_message_that_waits_is_read_right_after_the_brief(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    studio.steers.post("Use blue.", follow_up=False)
    model = PieceModel([submits()])
    assert isinstance(await studio.run(model), Submitted)
    assert heard(model, 0) == ["Begin.", "Use blue."]
    assert [said.text for said in studio.transcript()[:2]] == ["Begin.", "Use blue."]


async def test_a_message_is_read_after_the_current_turn(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    model = PieceModel([calls(READ), calls(READ), submits()])
    model.before = {1: lambda: studio.steers.post("Use blue.", follow_up=False)}
    assert isinstance(await studio.run(model), Submitted)
    assert heard(model, 1) == ["Begin."]
    assert heard(model, 2) == ["Begin.", "Use blue."]


async def test_a_follow_up_waits_until_the_agent_would_stop(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    studio.steers.post("Then paint it.", follow_up=True)
    model = PieceModel([calls(READ), SAY, submits()])
    assert isinstance(await studio.run(model), Submitted)
    assert heard(model, 1) == ["Begin."]
    assert heard(model, 2) == ["Begin.", "Then paint it."]


async def test_a_message_instead_of_the_reminder_leaves_the_reminder_for_later(
    tmp_path: Path,
) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    studio.steers.post("Then paint it.", follow_up=True)
    model = PieceModel([SAY, SAY, SAY])
    assert isinstance(await studio.run(model), NoResult)
    assert heard(model, 2) == ["Begin.", "Then paint it.", REMINDER]


async def test_a_result_waits_for_messages_that_nobody_has_read(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    model = PieceModel([submits(summary="too early"), submits(summary="all done")])
    model.before = {0: lambda: studio.steers.post("Then paint it.", follow_up=True)}
    outcome = await studio.run(model)
    assert isinstance(outcome, Submitted)
    assert outcome.submission.summary == "all done"
    assert heard(model, 1) == ["Begin.", "Then paint it."]
    assert model.answers_of_tools[0].text.startswith("not accepted yet: messages have come")


async def test_after_a_result_that_waited_follow_ups_wait_again(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    model = PieceModel([submits(), calls(READ), SAY, submits()])
    model.before = {
        0: lambda: studio.steers.post("First this.", follow_up=False),
        1: lambda: studio.steers.post("Then that.", follow_up=True),
    }
    assert isinstance(await studio.run(model), Submitted)
    assert heard(model, 2) == ["Begin.", "First this."]
    assert heard(model, 3) == ["Begin.", "First this.", "Then that."]


async def test_a_result_in_the_last_turn_does_not_wait(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER, max_turns=1)
    model = PieceModel([submits()])
    model.before = {0: lambda: studio.steers.post("Then paint it.", follow_up=True)}
    assert isinstance(await studio.run(model), Submitted)
    assert [steer.text for steer in studio.steers.unread] == ["Then paint it."]


async def test_after_an_accepted_result_no_message_is_taken(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    await studio.run(PieceModel([submits()]))
    assert not studio.steers.is_open
