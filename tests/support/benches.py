"""One way to lead an agent, whatever runs its loop, to try what every backend promises."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agents.backends.attempt import AttemptSpec
from agents.backends.in_process import InProcessAgent
from agents.budget import Budget
from agents.filetools.tool import ToolContext
from agents.loop import AgentMeans, AgentOutcome
from agents.models.port import AnswerPiece, Message, Model, ToolDeclaration
from agents.models.script import Script, decode_script
from agents.models.scripted import ScriptedModel
from agents.roster import load_roster
from agents.session import SessionHeader, open_session
from agents.steering import Steers
from agents.submission import SubmissionRules
from agents.traffic import Traffic
from agents.transcript import SaidMessage, read_transcript
from engine.core.events import Trace
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.spec import Kind, ModelChoice, Thinking
from tests.support.agents import FINGERPRINT, NAMES, no_files, numbered_ids
from tests.support.clock import FakeClock
from tests.support.model_server import Answer, ModelRequest, from_script
from tests.support.pi_agents import PiStudio

_DEFINITIONS = load_roster().definitions
ATTEMPT = AttemptId(TaskId("look"), 1)


class Agent(Protocol):
    """What every backend offers."""

    async def run(self, brief: str, tools: Sequence[str] | None = None) -> AgentOutcome: ...


def _nothing(_: int) -> None:
    """Do nothing when the model is asked."""


@dataclass
class Bench(ABC):
    """An agent's place, what it is led with, and what came of it.

    Attributes:
        folder: of its own; the agent works in `workspace` there.
        asked: what to do when the model is asked, by the number of the request from 0.
        shown: what the model was shown, as text, request by request.
    """

    folder: Path
    kind: Kind = Kind.READER
    ownership: tuple[str, ...] = ()
    budget: Budget = field(default_factory=lambda: Budget(max_turns=20, max_tool_calls=40))
    codemode: bool = False
    mark: str | None = None
    notes: list[Trace] = field(default_factory=list)
    steers: Steers = field(default_factory=Steers)
    asked: Callable[[int], None] = _nothing
    shown: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """Where the agent works."""
        return self.folder / "workspace"

    @property
    def transcript_path(self) -> Path:
        """Where the conversation is saved."""
        return self.folder / "conversation.jsonl"

    def transcript(self) -> tuple[SaidMessage, ...]:
        """Return what was said, without the system prompts."""
        said = read_transcript(self.transcript_path)
        return tuple(message for message in said if message.role != "system")

    def texts(self, role: str) -> list[str]:
        """Return what `role` said."""
        return [message.text for message in self.transcript() if message.role == role]

    @abstractmethod
    def agent(self, *turns: Mapping[str, Any]) -> AbstractAsyncContextManager[Agent]:
        """Open an agent whose model says these turns, one after the other."""

    async def run(self, *turns: Mapping[str, Any]) -> AgentOutcome:
        """Lead one conversation to its end."""
        async with self.agent(*turns) as agent:
            return await agent.run("Begin.")

    def note_request(self, shown: str) -> None:
        """Remember that the model was asked."""
        self.shown.append(shown)
        self.asked(len(self.shown) - 1)


class InProcessBench(Bench):
    """Leads agents in this process."""

    @asynccontextmanager
    async def agent(self, *turns: Mapping[str, Any]) -> AsyncIterator[Agent]:
        """See `Bench`."""
        self.root.mkdir(exist_ok=True)
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TMPDIR": "/tmp"}  # noqa: S108 - as elsewhere
        attempt = AttemptSpec(
            ATTEMPT,
            _DEFINITIONS[NAMES[self.kind]],
            SubmissionRules(self.kind, TaskId("fix"), FINGERPRINT)
            if self.kind is Kind.REVIEWER
            else SubmissionRules(self.kind),
            ToolContext(self.root, env, self.mark, no_files, "sh", secrets=self._secrets()),
            self.ownership,
            codemode=self.codemode,
        )
        model = _Overheard(ScriptedModel(_script(turns), "x", "any", 1, {}), self.note_request)
        header = SessionHeader("s", str(self.root), ModelChoice("scripted", "x", Thinking.OFF))
        traffic = Traffic(Limiter(), lambda: 0.0)
        async with open_session(
            self.transcript_path, header, clock=FakeClock(), next_id=numbered_ids()
        ) as session:
            note = self.notes.append
            means = AgentMeans(model, traffic, session, self.budget, self.steers, note)
            yield InProcessAgent(attempt, means)

    def _secrets(self) -> tuple[Path, ...]:
        path = self.folder / "agent/models.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
        return (path,)


class PiBench(Bench):
    """Leads agents that are a real Pi each."""

    @asynccontextmanager
    async def agent(self, *turns: Mapping[str, Any]) -> AsyncIterator[Agent]:
        """See `Bench`."""
        studio = PiStudio(
            self.folder,
            self.kind,
            self.budget,
            self.notes,
            self.ownership,
            self.codemode,
            self.steers,
            self.mark,
        )
        answer = from_script(_script(turns))

        def choose(request: ModelRequest) -> Answer:
            self.note_request(json.dumps(request.body))
            return answer(request)

        async with studio.agent(choose) as (agent, _):
            yield agent


def _script(turns: Sequence[Mapping[str, Any]]) -> Script:
    return decode_script(json.dumps({"any": list(turns)}).encode(), "test.json")


@dataclass
class _Overheard:
    """A model that tells what it is asked."""

    model: Model
    heard: Callable[[str], None]
    provider: str = "scripted"
    id: str = "x"
    context_tokens: int | None = None

    @asynccontextmanager
    async def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AsyncIterator[AsyncIterator[AnswerPiece]]:
        self.heard(f"{system}{messages}")
        async with self.model.stream(system, messages, tools) as pieces:
            yield pieces
