"""Conversations of agents that live in this process, led by a scripted model."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from agents.filetools.tool import ToolContext
from agents.herd_definition import HerdDefinition
from agents.herdsman.identity import Handle, Label, SessionId
from agents.herdsman.in_process import InProcessConversation, InProcessSpec, open_in_process
from agents.herdsman.record import ProcessStamp, Proof
from agents.herdsman.runtime import Started
from agents.herdsman.session_file import begin_managed_session
from agents.models.port import (
    AnswerPiece,
    Message,
    Model,
    ToolDeclaration,
    ToolMessage,
    UserMessage,
)
from agents.models.scripted import ScriptedModel
from agents.traffic import Traffic
from engine.core.limiter import Limiter
from engine.core.spec import ModelChoice, Thinking
from tests.support.agents import no_files, script_of
from tests.support.clock import FakeClock
from tests.support.herd_stage import PlayedAttendant

SESSION = SessionId("01a2b3c4-0000-4000-8000-000000000001")
LABEL = Label("scout-1")
SCOUT = HerdDefinition("scout", "Looks.", "You look around.\n", (), tools=("read", "bash"))


@dataclass
class WatchedModel:
    """A model that remembers what it was shown."""

    model: Model
    asked: list[tuple[Message, ...]] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    tools: list[tuple[ToolDeclaration, ...]] = field(default_factory=list)
    _news: trio.Event = field(default_factory=trio.Event)

    @property
    def provider(self) -> str:
        return self.model.provider

    @property
    def id(self) -> str:
        return self.model.id

    @property
    def context_tokens(self) -> int | None:
        return self.model.context_tokens

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AbstractAsyncContextManager[AsyncIterator[AnswerPiece]]:
        self.asked.append(tuple(messages))
        self.systems.append(system)
        self.tools.append(tuple(tools))
        self._news.set()
        return self.model.stream(system, messages, tools)

    async def wait_asked(self, count: int) -> None:
        while len(self.asked) < count:
            self._news = trio.Event()
            await self._news.wait()


@dataclass(frozen=True)
class InProcessScene:
    """A conversation, and its model."""

    conversation: InProcessConversation
    model: WatchedModel

    def shown(self, request: int) -> tuple[str, ...]:
        asked = self.model.asked[request]
        return tuple(each.text for each in asked if isinstance(each, UserMessage))

    def answered_calls(self, request: int) -> tuple[str, ...]:
        asked = self.model.asked[request]
        return tuple(each.text for each in asked if isinstance(each, ToolMessage))

    async def wait_asked(self, count: int) -> None:
        await self.model.wait_asked(count)


@dataclass(frozen=True)
class InProcessStage:
    """Plays conversations in this process.

    Attributes:
        change: what a test changes about how the agent is run.
    """

    change: Callable[[InProcessSpec], InProcessSpec] = lambda spec: spec

    @asynccontextmanager
    async def open(
        self, folder: Path, script: str, attendant: PlayedAttendant
    ) -> AsyncIterator[InProcessScene]:
        model = ScriptedModel(script_of(script), "test.yaml", "any", 1, {})
        async with self.led_by(folder, model, attendant) as scene:
            yield scene

    @asynccontextmanager
    async def led_by(
        self, folder: Path, model: Model, attendant: PlayedAttendant
    ) -> AsyncIterator[InProcessScene]:
        """Open the conversation of an agent with a model of one's own."""
        watched = WatchedModel(model)
        spec = self.change(await prepared(folder, watched))
        host = ProcessStamp(1, 1, "boot")
        async with (
            open_in_process(spec, attendant) as conversation,
            trio.open_nursery() as nursery,
        ):
            started = Started(
                Handle("in-process-1"),
                spec.session,
                spec.session_file,
                Proof("in-process", host),
            )
            nursery.start_soon(attendant.serve, conversation, started)
            await attendant.served.wait()
            yield InProcessScene(conversation, watched)
            nursery.cancel_scope.cancel()


async def prepared(folder: Path, model: Model) -> InProcessSpec:
    """Return an agent that works in `folder`, whose session's file is there."""
    file = folder / "sessions" / f"{SESSION}.jsonl"
    clock = FakeClock()
    if not file.exists():
        await trio.to_thread.run_sync(
            lambda: begin_managed_session(
                file,
                SESSION,
                cwd=str(folder),
                definition=SCOUT.name,
                label=LABEL,
                now_ms=clock.now_ms(),
            )
        )
    return InProcessSpec(
        session=SESSION,
        session_file=file,
        label=LABEL,
        definition=SCOUT,
        persona="You look around.\n",
        choice=ModelChoice(model.provider, model.id, Thinking.OFF),
        model=model,
        traffic=Traffic(Limiter(), lambda: 0.0),
        context=ToolContext(folder, {"PATH": "/usr/bin:/bin"}, None, no_files, "sh"),
        clock=clock,
    )


def stage_with(**changes: object) -> InProcessStage:
    """Return a stage whose agents have another definition."""
    definition = replace(SCOUT, **changes)  # type: ignore[arg-type]  # a test's own changes
    return InProcessStage(lambda spec: replace(spec, definition=definition))
