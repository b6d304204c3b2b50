"""A managed agent that is a real Pi, with its own half of the herd: from request to result."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.herdsman.pi_agent import open_pi
from agents.herdsman.pi_talk import PiTalk
from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import GUIDANCE, REQUEST, RETIRED
from tests.support.herd_pi import DEFINITION, LABEL, PiHerd, scripted, started
from tests.support.herd_served import Owner, half_at, served
from tests.support.herd_stage import Gate
from tests.support.model_server import ModelServer, open_model_server

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]


@asynccontextmanager
async def owned(
    herd: PiHerd, script: str, gate: Gate | None = None
) -> AsyncIterator[tuple[Owner[PiTalk], ModelServer]]:
    """Have an agent at work inside the block, its owner, and what its model is asked."""
    half = half_at(herd.folder, LABEL, DEFINITION, tools=() if gate is None else (gate.tool,))
    async with open_model_server(scripted(script)) as server:
        spec = await herd.prepared(server)
        async with (
            open_pi(spec, half.member) as talk,
            served(half, talk, started(talk)) as owner,
        ):
            yield owner, server


async def test_a_task_that_is_steered_and_interrupted_comes_to_what_the_replacement_came_to(
    tmp_path: Path,
) -> None:
    gate = Gate()
    script = """
        "*":
          - {text: I wait., calls: [{tool: gate}]}
          - {text: Replaced.}
    """
    async with owned(PiHerd(tmp_path), script, gate) as (owner, server):
        task = await owner.request(RequestKind.TASK, "Go through the gate.")
        await gate.entered.wait()
        await owner.request(RequestKind.STEER, "Never seen.")
        await owner.request(RequestKind.INTERRUPT, "Do this instead.")
        result = await owner.result(task)
        kinds = [entry.details.get("kind") for entry in await owner.conversation.entries()]
        shown = str(server.requests[1].body["messages"])
    assert (result.status, result.text) == ("completed", "Replaced.")
    assert kinds == [None, "task", "interrupt"]
    assert "Do this instead." in shown
    assert "Never seen." not in shown
    assert len(server.requests) == 2
    assert result.usage is not None
    assert result.usage.context_window


async def test_an_agent_asks_waits_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    script = """
        "*":
          - calls: [{tool: ask_owner, arguments: {question: "a or b?"}}]
          - {text: It is b.}
    """
    async with owned(PiHerd(tmp_path), script) as (owner, server):
        task = await owner.request(RequestKind.TASK, "Choose.")
        state = await owner.wait(lambda state: state.pending_ask is not None)
        ask = await owner.mailbox.read_ask()
        assert ask is not None
        assert "a or b?" in ask.question
        await owner.request(RequestKind.REPLY, "Take b.", state.pending_ask)
        result = await owner.result(task)
        requests = [e for e in await owner.conversation.entries() if e.kind == REQUEST]
    assert (result.status, result.text) == ("completed", "It is b.")
    assert [entry.details["kind"] for entry in requests] == ["task", "reply"]
    assert len(server.requests) == 2


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
    async with owned(herd, script) as (owner, _):
        task = await owner.request(RequestKind.TASK, "Read all of it.")
        result = await owner.result(task)
        kinds = [entry.kind for entry in await owner.conversation.entries()]
    assert result.status == "completed"
    assert kinds.count(RETIRED) == 1
    assert kinds.count(GUIDANCE) == 1
    assert '"type":"compaction"' not in herd.session_file.read_text()
