"""An agent of this process with its own half of the herd: from a request to its result."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agents.herdsman.identity import Handle
from agents.herdsman.in_process import InProcessConversation, open_in_process
from agents.herdsman.record import ContextUsage, RequestKind
from agents.herdsman.runtime import REQUEST, Started
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    StopReason,
    TextPiece,
    ToolCall,
    Trouble,
    Usage,
    UserMessage,
)
from tests.support.agents import PieceModel, calls
from tests.support.herd_in_process import LABEL, SCOUT, SESSION, prepared
from tests.support.herd_records import PROOF
from tests.support.herd_served import Owner, half_at, served
from tests.support.herd_stage import Gate


def says(text: str) -> list[AnswerPiece]:
    return [TextPiece(text), AnswerEnded(StopReason.STOP, Usage(90, 10))]


@asynccontextmanager
async def owned(
    folder: Path, model: PieceModel, gate: Gate | None = None
) -> AsyncIterator[Owner[InProcessConversation]]:
    """Have an agent at work inside the block, and its owner."""
    half = half_at(folder, LABEL, SCOUT, tools=() if gate is None else (gate.tool,))
    spec = await prepared(folder, model)
    started = Started(Handle("in-process-1"), SESSION, spec.session_file, PROOF)
    async with (
        open_in_process(spec, half.member) as conversation,
        served(half, conversation, started) as owner,
    ):
        yield owner


async def test_a_task_comes_to_what_the_agent_says_last(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    read = ToolCall("a", "read", {"path": "a.txt"})
    model = PieceModel([[TextPiece("Let me see."), *calls(read)], says("It says hello.")])
    async with owned(tmp_path, model) as owner:
        task = await owner.request(RequestKind.TASK, "What is in a.txt?")
        result = await owner.result(task)
        entries = await owner.conversation.entries()
    assert (result.status, result.text) == ("completed", "It says hello.")
    assert result.usage == ContextUsage(100, None, None)
    assert model.asked[0] == (UserMessage("What is in a.txt?"),)
    assert [entry.details for entry in entries if entry.kind == REQUEST] == [
        {"request": task, "kind": "task"}
    ]


async def test_an_agent_that_says_nothing_because_its_provider_failed_says_so(
    tmp_path: Path,
) -> None:
    broke: list[AnswerPiece] = [AnswerFailed(Trouble.AUTHENTICATION, "401: who are you?")]
    read = ToolCall("a", "read", {"path": "a.txt"})
    model = PieceModel([[TextPiece("Let me see."), *calls(read)], broke])
    async with owned(tmp_path, model) as owner:
        task = await owner.request(RequestKind.TASK, "What is in a.txt?")
        result = await owner.result(task)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code.value == "empty_result"
    assert "401: who are you?" in result.error.message


async def test_an_agent_that_is_interrupted_answers_the_replacement_alone(tmp_path: Path) -> None:
    gate = Gate()
    model = PieceModel([calls(ToolCall("a", "gate", {})), says("Done instead.")])
    async with owned(tmp_path, model, gate) as owner:
        task = await owner.request(RequestKind.TASK, "Go through the gate.")
        await gate.entered.wait()
        await owner.request(RequestKind.STEER, "Never seen.")
        await owner.request(RequestKind.INTERRUPT, "Do this instead.")
        result = await owner.result(task)
    assert (result.status, result.text) == ("completed", "Done instead.")
    shown = [each.text for each in model.asked[1] if isinstance(each, UserMessage)]
    assert shown[0] == "Go through the gate."
    assert "Do this instead." in shown[-1]
    assert len(shown) == 2


async def test_a_question_ends_the_turn_and_its_answer_goes_on_with_the_same_task(
    tmp_path: Path,
) -> None:
    ask = ToolCall("a", "ask_owner", {"question": "Left or right?"})
    model = PieceModel([[TextPiece("I must ask."), *calls(ask)], says("Left it is.")])
    async with owned(tmp_path, model) as owner:
        task = await owner.request(RequestKind.TASK, "Choose.")
        waiting = await owner.wait(lambda state: state.pending_ask is not None)
        assert (waiting.active, waiting.completed) == (task, None)
        await owner.request(RequestKind.REPLY, "Left.", waiting.pending_ask)
        result = await owner.result(task)
    assert result.text == "Left it is."
    assert len(model.asked) == 2
