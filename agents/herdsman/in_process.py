"""A managed agent that lives in this process: our own loop and tools, no program of its own.

Its conversation is a Pi session file, so that a Pi can open and continue it, and it can continue a
Pi's.
"""

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import trio

from agents.asking import Asker
from agents.budget import Budget
from agents.calls import Hands
from agents.codemode import codemode_tool
from agents.filetools.bash import BOUNDED_BASH
from agents.filetools.registry import TOOLS
from agents.filetools.tool import Tool, ToolContext
from agents.herd_definition import HerdDefinition
from agents.herdsman.agent_prompt import agent_prompt
from agents.herdsman.identity import Label, SessionId
from agents.herdsman.inbox import Inbox
from agents.herdsman.loadout import offered_tools
from agents.herdsman.recent_output import RecentOutput
from agents.herdsman.record import ProcessStamp
from agents.herdsman.runtime import Attendant, Ended, Entry, Lifecycle, Message
from agents.herdsman.saved_talk import Leading, SavedTalk, open_saved_talk
from agents.herdsman.turns import HerdCalls, Turns, Watch
from agents.models.port import Model
from agents.toolbox import Toolbox, declare
from agents.traffic import Traffic
from engine.core.errors import ExternalError
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import ModelChoice
from engine.system.clock import Clock
from engine.system.nursery import open_flat_nursery

# Nobody else limits the time of a managed agent.
MANAGED_TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({**TOOLS, "bash": BOUNDED_BASH})


@dataclass(frozen=True, slots=True)
class InProcessSpec:
    """An agent to be run in this process.

    Attributes:
        session: its id, in the first line of the file.
        session_file: prepared, or from an earlier generation.
        definition: as it holds for this agent.
        persona: the definition's text, with the files in it.
        choice: what it is led with; saved in the session where that says something else.
        model: who answers; the one that `choice` names.
        traffic: the way to its provider, shared with all agents of the process.
        context: where its tools work.
        instructions: more parts of its system prompt, each ending in one newline.
    """

    session: SessionId
    session_file: Path
    label: Label
    definition: HerdDefinition
    persona: str
    choice: ModelChoice
    model: Model
    traffic: Traffic
    context: ToolContext
    clock: Clock
    instructions: Sequence[str] = ()


class InProcessConversation:
    """The conversation of an agent of this process; a `Conversation`."""

    def __init__(self, spec: InProcessSpec, talk: SavedTalk, turns: Turns) -> None:
        """Begin at rest; `open_in_process` leads it."""
        self._spec = spec
        self._talk = talk
        self._turns = turns
        self._inbox = turns.inbox
        self._lifecycle = Lifecycle.IDLE
        self._woken = trio.Event()
        self._rested = trio.Event()
        # Of the work under way; None while nobody works.
        self._scope: trio.CancelScope | None = None
        self._is_interrupted = False
        self._is_open = True

    @property
    def session(self) -> SessionId:
        """See `Conversation`."""
        return self._spec.session

    @property
    def session_file(self) -> Path:
        """See `Conversation`."""
        return self._spec.session_file

    @property
    def lifecycle(self) -> Lifecycle:
        """See `Conversation`."""
        return self._lifecycle

    @property
    def child(self) -> ProcessStamp | None:
        """None: the agent is no program of its own."""
        return None

    async def is_answering(self) -> bool:
        """Return whether the agent is there."""
        await trio.lowlevel.checkpoint()
        return self._is_open

    async def wait_ended(self) -> str:
        """Never return: only a bug ends an agent of this process, and that raises."""
        await trio.sleep_forever()

    async def say(self, message: Message, *, waits: bool) -> None:
        """See `Conversation`."""
        self._ensure_open()
        (left,) = self._inbox.leave(message)
        if self._lifecycle is Lifecycle.IDLE:
            self._begin()
        if self._scope is None:
            # Not left to the agent's own task: that may just be telling of the last rest, which may
            # in turn wait for whoever says this.
            with suppress(ExternalError):
                await self._inbox.deliver_up_to(left)
        if waits:
            await left.is_settled.wait()
        if left.fault is not None:
            raise ExternalError(str(left.fault)) from left.fault
        await trio.lowlevel.checkpoint()

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """See `Conversation`."""
        await self._talk.append(kind, details)
        await trio.lowlevel.checkpoint()

    async def entries(self) -> Sequence[Entry]:
        """See `Conversation`."""
        await trio.lowlevel.checkpoint()
        return self._talk.entries

    async def interrupt(self) -> None:
        """See `Conversation`."""
        self._ensure_open()
        self._inbox.drop()
        if self._lifecycle is not Lifecycle.IDLE:
            self._is_interrupted = True
            if self._scope is not None:
                self._scope.cancel()
            await self._rested.wait()
            self._ensure_open()
        await trio.lowlevel.checkpoint()

    async def recent_output(self) -> Sequence[str]:
        """See `Conversation`."""
        await trio.lowlevel.checkpoint()
        return self._turns.watch.output.lines()

    async def lead(self, attendant: Attendant) -> None:
        """Work whenever there is something to do, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            ended = await self._work()
            self._is_interrupted = False
            self._lifecycle = Lifecycle.IDLE
            self._rested.set()
            if self._inbox:
                # It was said after an interrupt, and before that had come to its end.
                self._begin()
            # Whoever sees the agent at rest can rely on it that this was begun.
            await attendant.came_to_rest(ended)

    def _begin(self) -> None:
        self._lifecycle = Lifecycle.WORKING
        self._rested = trio.Event()
        self._woken.set()

    async def _work(self) -> Ended:
        fault: str | None = None
        try:
            with trio.CancelScope() as self._scope:
                if not self._is_interrupted:
                    fault = await self._turns.work()
            if self._is_interrupted:
                await self._turns.tidy()
        except ExternalError as error:
            fault = str(error)
        finally:
            self._scope = None
        return Ended(was_aborted=self._is_interrupted, fault=fault, usage=self._turns.usage)

    def _ensure_open(self) -> None:
        if not self._is_open:
            raise ExternalError(f"the agent {self._spec.label} is gone and takes nothing any more")

    def close(self) -> None:
        """Take nothing more, and let nobody wait any longer."""
        self._is_open = False
        self._lifecycle = Lifecycle.UNKNOWN
        self._inbox.drop(ExternalError(f"the agent {self._spec.label} is gone"))
        self._rested.set()


@asynccontextmanager
async def open_in_process(
    spec: InProcessSpec, attendant: Attendant
) -> AsyncIterator[InProcessConversation]:
    """Have an agent at rest and ready inside the block; nothing of it is left afterwards.

    Whoever enters has the attendant serve.

    Raises:
        HerdError: its definition asks for tools that are not there.
        ExternalError: its session file cannot be read.
        CorruptionError: that file is none, or another session's.
    """
    herd = HerdCalls(attendant.tools)
    names = offered_tools(spec.definition, herd.own())
    toolbox = _toolbox(spec, names)
    declared = (*toolbox.declarations, *(tool.declaration for tool in attendant.tools))
    system = agent_prompt(
        spec.persona,
        spec.context.root,
        declared=[tool.name for tool in declared],
        scripted=names if spec.definition.codemode else None,
        instructions=spec.instructions,
        stands_alone=spec.definition.system_prompt_mode == "replace",
    )
    leading = Leading(system, declared, spec.choice)
    async with open_saved_talk(spec.session_file, spec.session, leading, spec.clock) as talk:
        attempt = AttemptId(TaskId(spec.label), 1)
        budget = Budget(max_turns=sys.maxsize, max_tool_calls=sys.maxsize)
        watch = Watch(attendant, RecentOutput(str))
        turns = Turns(
            talk,
            Inbox(talk),
            spec.model,
            Asker(attempt, spec.model, spec.traffic, budget, watch.note),
            Hands(attempt, toolbox, budget, watch.note, herd.own()),
            herd,
            watch,
        )
        conversation = InProcessConversation(spec, talk, turns)
        async with open_flat_nursery() as nursery:
            nursery.start_soon(conversation.lead, attendant)
            try:
                yield conversation
            finally:
                conversation.close()
                nursery.cancel_scope.cancel()


def _toolbox(spec: InProcessSpec, names: Sequence[str]) -> Toolbox:
    script = None
    if spec.definition.codemode:
        script = codemode_tool([declare(MANAGED_TOOLS[name]) for name in names], spec.context.mark)
    return Toolbox(names, None, spec.context, MANAGED_TOOLS, script)
