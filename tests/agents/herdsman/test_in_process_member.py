"""An agent of this process with its own half of the herd: from a request to its result."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from agents.herdsman.config import HerdConfig
from agents.herdsman.controller import Birth
from agents.herdsman.identity import AskId, Correlation, GenerationId, Handle, RequestId, SessionId
from agents.herdsman.in_process import InProcessConversation, open_in_process
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.member import Member
from agents.herdsman.premises import Premises
from agents.herdsman.record import ContextUsage, Request, RequestKind, Result, State
from agents.herdsman.runtime import REQUEST, Started
from agents.herdsman.settlement import Undelivered
from agents.herdsman.signals import ANYTHING
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
from tests.support.clock import LoopClock
from tests.support.herd_in_process import LABEL, SCOUT, SESSION, prepared
from tests.support.herd_records import LEAD, PROOF, uid
from tests.support.herd_stage import Gate


def says(text: str) -> list[AnswerPiece]:
    return [TextPiece(text), AnswerEnded(StopReason.STOP, Usage(90, 10))]


@dataclass
class Owner:
    """Leaves requests for the agent, and reads its mailbox."""

    premises: Premises
    mailbox: Mailbox
    of: Correlation
    conversation: InProcessConversation

    async def ask_for(self, kind: RequestKind, text: str, ask: AskId | None = None) -> RequestId:
        """Leave a request and wait until it is accepted."""
        request = RequestId(uid(text))
        now_ms = self.premises.clock.now_ms()
        async with self.mailbox.hold():
            await self.mailbox.write_request(Request(self.of, request, kind, text, now_ms, ask, ()))
        self.premises.signals.ring(str(self.mailbox.folder))
        state = await self.wait(
            lambda state: (
                state.acknowledgement is not None and state.acknowledgement.request == request
            )
        )
        assert state.acknowledgement is not None
        assert state.acknowledgement.accepted, state.acknowledgement
        return request

    async def wait(self, holds: Callable[[State], bool]) -> State:
        """Wait until something holds of the state."""
        listener = self.premises.signals.listen(ANYTHING)
        with trio.fail_after(60):
            while True:
                state = await self.mailbox.read_state()
                if state is not None and holds(state):
                    return state
                await listener.wait()

    async def result(self, task: RequestId) -> Result:
        """Wait for the result of a task."""
        await self.wait(lambda state: state.completed == task)
        result = await self.mailbox.read_result(task)
        assert result is not None
        return result


@asynccontextmanager
async def owned(folder: Path, model: PieceModel, gate: Gate | None = None) -> AsyncIterator[Owner]:
    """Have an agent at work inside the block, and its owner."""

    async def config() -> HerdConfig:
        await trio.lowlevel.checkpoint()
        return HerdConfig()

    async def undelivered(session: SessionId) -> Undelivered:
        await trio.lowlevel.checkpoint()
        return Undelivered()

    premises = Premises(folder / "data", LoopClock(), "a test")
    birth = Birth(
        generation=GenerationId(uid("generation")),
        owner=LEAD,
        workspace=str(folder),
        label=LABEL,
        cwd=str(folder),
        definition=SCOUT,
        is_delegating=False,
    )
    tools = () if gate is None else (gate.tool,)
    member = Member(premises, birth, tools=tools, config=config, undelivered=undelivered)
    spec = await prepared(folder, model)
    handle = Handle("in-process-1")
    of = Correlation(birth.generation, LEAD, birth.workspace, LABEL, handle)
    mailbox = Mailbox.of(premises, birth.workspace, LABEL)
    async with open_in_process(spec, member) as conversation, trio.open_nursery() as nursery:
        started = Started(handle, SESSION, spec.session_file, PROOF)
        nursery.start_soon(member.serve, conversation, started)
        owner = Owner(premises, mailbox, of, conversation)
        await owner.wait(lambda _: True)
        yield owner
        nursery.cancel_scope.cancel()


async def test_a_task_comes_to_what_the_agent_says_last(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    read = ToolCall("a", "read", {"path": "a.txt"})
    model = PieceModel([[TextPiece("Let me see."), *calls(read)], says("It says hello.")])
    async with owned(tmp_path, model) as owner:
        task = await owner.ask_for(RequestKind.TASK, "What is in a.txt?")
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
        task = await owner.ask_for(RequestKind.TASK, "What is in a.txt?")
        result = await owner.result(task)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code.value == "empty_result"
    assert "401: who are you?" in result.error.message


async def test_an_agent_that_is_interrupted_answers_the_replacement_alone(tmp_path: Path) -> None:
    gate = Gate()
    model = PieceModel([calls(ToolCall("a", "gate", {})), says("Done instead.")])
    async with owned(tmp_path, model, gate) as owner:
        task = await owner.ask_for(RequestKind.TASK, "Go through the gate.")
        await gate.entered.wait()
        await owner.ask_for(RequestKind.STEER, "Never seen.")
        await owner.ask_for(RequestKind.INTERRUPT, "Do this instead.")
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
        task = await owner.ask_for(RequestKind.TASK, "Choose.")
        waiting = await owner.wait(lambda state: state.pending_ask is not None)
        assert (waiting.active, waiting.completed) == (task, None)
        await owner.ask_for(RequestKind.REPLY, "Left.", waiting.pending_ask)
        result = await owner.result(task)
    assert result.text == "Left it is."
    assert len(model.asked) == 2
