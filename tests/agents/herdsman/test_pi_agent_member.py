"""A managed agent that is a real Pi, with its own half of the herd: from request to result."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from agents.herdsman.config import HerdConfig
from agents.herdsman.controller import Birth
from agents.herdsman.identity import AskId, Correlation, GenerationId, RequestId, SessionId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.member import Member
from agents.herdsman.pi_agent import open_pi
from agents.herdsman.pi_talk import PiTalk
from agents.herdsman.premises import Premises
from agents.herdsman.record import Request, RequestKind, Result, State
from agents.herdsman.runtime import GUIDANCE, REQUEST, RETIRED
from agents.herdsman.settlement import Undelivered
from agents.herdsman.signals import ANYTHING
from tests.support.clock import LoopClock
from tests.support.herd_pi import DEFINITION, LABEL, PiHerd, scripted, started
from tests.support.herd_records import LEAD, uid
from tests.support.herd_stage import Gate
from tests.support.model_server import ModelServer, open_model_server

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]


@dataclass
class Owner:
    """Leaves requests for the agent, and reads its mailbox."""

    premises: Premises
    mailbox: Mailbox
    of: Correlation
    talk: PiTalk
    server: ModelServer

    async def request(self, kind: RequestKind, text: str, ask: AskId | None = None) -> RequestId:
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
async def owned(herd: PiHerd, script: str, gate: Gate | None = None) -> AsyncIterator[Owner]:
    """Have an agent at work inside the block, and its owner."""

    async def config() -> HerdConfig:
        await trio.lowlevel.checkpoint()
        return HerdConfig()

    async def undelivered(session: SessionId) -> Undelivered:
        await trio.lowlevel.checkpoint()
        return Undelivered()

    premises = Premises(herd.folder / "data", LoopClock(), "a test")
    birth = Birth(
        generation=GenerationId(uid("generation")),
        owner=LEAD,
        workspace=str(herd.folder),
        label=LABEL,
        cwd=str(herd.folder),
        definition=DEFINITION,
        is_delegating=False,
    )
    tools = () if gate is None else (gate.tool,)
    member = Member(premises, birth, tools=tools, config=config, undelivered=undelivered)
    async with open_model_server(scripted(script)) as server:
        spec = await herd.prepared(server)
        async with open_pi(spec, member) as talk, trio.open_nursery() as nursery:
            told = started(talk)
            nursery.start_soon(member.serve, talk, told)
            of = Correlation(birth.generation, LEAD, birth.workspace, LABEL, told.handle)
            mailbox = Mailbox.of(premises, birth.workspace, LABEL)
            owner = Owner(premises, mailbox, of, talk, server)
            await owner.wait(lambda _: True)
            yield owner
            nursery.cancel_scope.cancel()


async def test_a_task_that_is_steered_and_interrupted_comes_to_what_the_replacement_came_to(
    tmp_path: Path,
) -> None:
    gate = Gate()
    script = """
        "*":
          - {text: I wait., calls: [{tool: gate}]}
          - {text: Replaced.}
    """
    async with owned(PiHerd(tmp_path), script, gate) as owner:
        task = await owner.request(RequestKind.TASK, "Go through the gate.")
        await gate.entered.wait()
        await owner.request(RequestKind.STEER, "Never seen.")
        await owner.request(RequestKind.INTERRUPT, "Do this instead.")
        result = await owner.result(task)
        kinds = [entry.details.get("kind") for entry in await owner.talk.entries()]
        shown = str(owner.server.requests[1].body["messages"])
    assert (result.status, result.text) == ("completed", "Replaced.")
    assert kinds == [None, "task", "interrupt"]
    assert "Do this instead." in shown
    assert "Never seen." not in shown
    assert len(owner.server.requests) == 2
    assert result.usage is not None
    assert result.usage.context_window


async def test_an_agent_asks_waits_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    script = """
        "*":
          - calls: [{tool: ask_owner, arguments: {question: "a or b?"}}]
          - {text: It is b.}
    """
    async with owned(PiHerd(tmp_path), script) as owner:
        task = await owner.request(RequestKind.TASK, "Choose.")
        state = await owner.wait(lambda state: state.pending_ask is not None)
        ask = await owner.mailbox.read_ask()
        assert ask is not None
        assert "a or b?" in ask.question
        await owner.request(RequestKind.REPLY, "Take b.", state.pending_ask)
        result = await owner.result(task)
        requests = [e for e in await owner.talk.entries() if e.kind == REQUEST]
    assert (result.status, result.text) == ("completed", "It is b.")
    assert [entry.details["kind"] for entry in requests] == ["task", "reply"]
    assert len(owner.server.requests) == 2


async def test_an_agent_whose_context_is_full_hands_over_and_is_retired(tmp_path: Path) -> None:
    small = {"compaction": {"enabled": True, "reserveTokens": 1_000, "keepRecentTokens": 10}}
    herd = PiHerd(tmp_path, settings=small, model={"contextWindow": 10_000})
    (tmp_path / "long").write_text("more " * 500)
    script = """
        "*":
          - calls: [{tool: read, arguments: {path: long}}]
            usage: {input: 9500, output: 10}
          - text: I go on.
            calls: [{tool: bash, arguments: {command: sleep 1}}]
            usage: {input: 9600, output: 10}
          - {text: And on., usage: {input: 9650, output: 10}}
          - {text: Handed over., usage: {input: 9700, output: 10}}
    """
    async with owned(herd, script) as owner:
        task = await owner.request(RequestKind.TASK, "Read all of it.")
        result = await owner.result(task)
        kinds = [entry.kind for entry in await owner.talk.entries()]
    assert result.status == "completed"
    assert kinds.count(RETIRED) == 1
    assert kinds.count(GUIDANCE) == 1
    assert '"type":"compaction"' not in herd.session_file.read_text()
