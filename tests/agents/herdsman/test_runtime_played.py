"""The played agents keep the promises of the ports; others rely on them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herd_definition import HerdDefinition
from agents.herdsman.birth import Birth
from agents.herdsman.errors import HerdError
from agents.herdsman.identity import GenerationId, Label, SessionId
from agents.herdsman.runtime import (
    IDENTITY,
    REQUEST,
    CompactionReason,
    Conversation,
    Ended,
    Entry,
    HerdTool,
    Launch,
    Lifecycle,
    Message,
    Started,
    ToolReply,
)
from agents.models.port import ToolDeclaration
from engine.core.errors import ExternalError
from tests.support.deaths import dying_at, passed_points
from tests.support.herd_agents import PlayedAgent, PlayedRuntime, open_runtime
from tests.support.herd_talk import Call, Turn


class Witness:
    """An attendant that writes down what it is told."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.rested = trio.Event()
        self.tools: Sequence[HerdTool] = (
            HerdTool(ToolDeclaration("wait_there", "waits", {"type": "object"}), self._wait_there),
        )

    async def serve(self, conversation: Conversation, started: Started) -> None:
        await trio.sleep_forever()

    def active(self) -> None:
        pass

    def answered(self, text: str, *, was_aborted: bool) -> None:
        self.seen.append((text, was_aborted))

    async def came_to_rest(self, ended: Ended) -> None:
        await trio.lowlevel.checkpoint()
        self.seen.append(ended)
        self.rested.set()

    async def may_compact(self, reason: CompactionReason) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    async def wait_rested(self) -> None:
        await self.rested.wait()
        self.rested = trio.Event()

    async def _wait_there(self, arguments: Mapping[str, Any], is_only: bool) -> ToolReply:  # noqa: FBT001 - as the port has it
        self.seen.append((dict(arguments), is_only))
        await trio.lowlevel.checkpoint()
        return ToolReply("waiting", ends_turn=True)


def said(text: str) -> Message:
    return Message(REQUEST, text, {"request": text})


async def begin(runtime: PlayedRuntime, witness: Witness) -> PlayedAgent:
    birth = Birth(
        generation=GenerationId("g"),
        owner=SessionId("o"),
        workspace="/w",
        label=Label("scout"),
        cwd="/w",
        definition=HerdDefinition("scout", "scouts", "You scout.\n", ()),
    )
    launch = Launch(birth, "You scout.\n", None, witness)
    await (await runtime.prepare(launch)).start()
    return runtime.agent("scout")


async def test_message_is_read_answered_and_saved(herd_clock: MockClock, tmp_path: Path) -> None:
    witness = Witness()
    async with open_runtime(tmp_path) as runtime:
        agent = await begin(runtime, witness)
        runtime.script("scout").play(Turn("here", calls=(Call("bash"),)), Turn("done"))
        await agent.conversation.say(said("look"), waits=True)
        await witness.wait_rested()
        assert witness.seen == [("here", False), ("done", False), Ended()]
        assert agent.conversation.heard(REQUEST) == ["look"]
        found = await agent.conversation.entries()
        assert [entry.kind for entry in found] == [IDENTITY, REQUEST]
        assert await agent.conversation.recent_output() == ("here", "bash", "done")


async def test_message_to_a_working_agent_is_read_after_the_present_answer(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    witness = Witness()
    async with open_runtime(tmp_path) as runtime:
        agent = await begin(runtime, witness)
        runtime.script("scout").play(Turn("one", takes_s=60), Turn("two"))
        await agent.conversation.say(said("look"), waits=True)
        await agent.conversation.say(said("further"), waits=False)
        assert agent.conversation.lifecycle is Lifecycle.WORKING
        assert agent.conversation.heard(REQUEST) == ["look"]
        await witness.wait_rested()
        assert witness.seen == [("one", False), ("two", False), Ended()]
        assert trio.current_time() >= 60


async def test_interrupt_drops_what_waits_and_cuts_the_answer(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    witness = Witness()
    async with open_runtime(tmp_path) as runtime:
        agent = await begin(runtime, witness)
        runtime.script("scout").play(Turn("half", hangs=True), Turn("two"))
        await agent.conversation.say(said("look"), waits=True)
        async with trio.open_nursery() as nursery:

            async def drops() -> None:
                await agent.conversation.say(said("dropped"), waits=True)

            nursery.start_soon(drops)
            await trio.testing.wait_all_tasks_blocked()
            await agent.conversation.interrupt()
        await witness.wait_rested()
        await agent.conversation.say(said("instead"), waits=True)
        await witness.wait_rested()
        aborted = Ended(was_aborted=True)
        assert witness.seen == [("half", True), aborted, ("two", False), Ended()]
        assert agent.conversation.heard(REQUEST) == ["look", "instead"]


async def test_answers_that_are_tried_again_and_calls_that_end_the_turn_are_played(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    witness = Witness()
    async with open_runtime(tmp_path) as runtime:
        agent = await begin(runtime, witness)
        runtime.script("scout").play(
            Turn(fault="overloaded", is_retried=True),
            Turn("wait", calls=(Call("wait_there", {"for": "it"}),)),
        )
        await agent.conversation.say(said("look"), waits=True)
        await witness.wait_rested()
        assert witness.seen[1:] == [("wait", False), ({"for": "it"}, True), Ended()]


async def test_agent_that_died_goes_on_with_its_file(herd_clock: MockClock, tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as runtime:
        agent = await begin(runtime, Witness())
        with dying_at("played.custom_message.written"):
            await agent.conversation.say(said("look"), waits=False)
            await agent.is_gone.wait()
        again = runtime.restart(agent, Witness())
        runtime.script("scout").play(Turn("done"))
        with passed_points() as points:
            await again.conversation.say(said("further"), waits=True)
        assert again.conversation.heard(REQUEST) == ["look", "further"]
        assert points[0] == "played.custom_message.started"
        assert again.identity == agent.identity


async def test_entries_of_a_branch_that_was_left_are_told_apart(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_runtime(tmp_path) as runtime:
        agent = await begin(runtime, Witness())
        agent.conversation.log.leave_branch()
        await agent.conversation.append("mark", {"n": 1})
        named = {"session": agent.identity.session, "definition": "scout", "label": "scout"}
        assert await agent.conversation.entries() == [
            Entry(IDENTITY, named, on_branch=False),
            Entry("mark", {"n": 1}),
        ]


async def test_only_the_exact_agent_is_stopped_and_then_it_is_gone(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_runtime(tmp_path) as runtime:
        agent = await begin(runtime, Witness())
        seen = await runtime.inventory(())
        assert [one.session for one in seen.agents] == [agent.identity.session]
        runtime.unanswering.add(agent.identity.of.handle)
        unsure = await runtime.inventory(())
        assert (unsure.agents, unsure.slots[0].session) == ((), None)
        await runtime.stop(agent.identity)
        assert await runtime.inventory(()) == type(seen)()
        with pytest.raises(HerdError):
            await runtime.stop(agent.identity)
        runtime.inventory_fault = "no answer"
        with pytest.raises(ExternalError):
            await runtime.inventory(())
