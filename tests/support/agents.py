"""Agents for tests: scripted, in a folder of their own, with everything they did written down."""

import itertools
import textwrap
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.in_process import InProcessAgent
from agents.budget import Budget
from agents.filetools.tool import ToolContext
from agents.loop import AgentMeans, AgentOutcome
from agents.models.port import (
    AnswerEnded,
    AnswerPiece,
    CallReady,
    Message,
    Model,
    StopReason,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
)
from agents.models.script import Script, decode_script
from agents.models.scripted import ScriptedModel
from agents.purse import Purse
from agents.roster import load_roster
from agents.session import SessionHeader, open_session
from agents.steering import Steers
from agents.submission import SubmissionRules
from agents.traffic import Traffic
from agents.transcript import SaidMessage, read_transcript
from engine.core.events import Trace
from engine.core.ids import AttemptId, Fingerprint, TaskId
from engine.core.limiter import Limiter
from engine.core.spec import Kind, ModelChoice, Thinking
from tests.support.clock import FakeClock

FINGERPRINT = Fingerprint("f" * 64)
NAMES = {Kind.READER: "scout", Kind.WRITER: "builder", Kind.REVIEWER: "reviewer"}


def numbered_ids() -> Callable[[], str]:
    """Return a source of ids that counts."""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):08x}"


def script_of(text: str) -> Script:
    """Return the script that an indented block of YAML holds."""
    return decode_script(textwrap.dedent(text).encode(), "test.yaml")


def result(**changes: object) -> dict[str, object]:
    """Return a complete result of a writer that changed nothing, with changes."""
    empty: dict[str, object] = {"changedFiles": [], "checks": [], "findings": [], "blockers": []}
    return {"status": "succeeded", "summary": "all is well", **empty, **changes}


def submits(**changes: object) -> "list[AnswerPiece]":
    """Return an answer that hands a result in."""
    return calls(ToolCall("submit", "submit_result", result(**changes)))


def calls(*wanted: ToolCall) -> "list[AnswerPiece]":
    """Return an answer that calls tools."""
    return [*(CallReady(call) for call in wanted), AnswerEnded(StopReason.TOOL_USE)]


@dataclass
class PieceModel:
    """Answers with prepared pieces, whatever they are, and remembers what it was asked.

    Attributes:
        before: what to do when a request comes, by its number from 0.
    """

    answers: Sequence[Sequence[AnswerPiece]]
    asked: list[tuple[Message, ...]] = field(default_factory=list)
    shown: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    provider: str = "prepared"
    id: str = "pieces"
    context_tokens: int | None = None
    before: Mapping[int, Callable[[], None]] = field(default_factory=dict)

    @asynccontextmanager
    async def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AsyncIterator[AsyncIterator[AnswerPiece]]:
        self.asked.append(tuple(messages))
        self.shown.append((system, tuple(tool.name for tool in tools)))
        number = len(self.asked) - 1
        self.before.get(number, lambda: None)()
        pieces = self.answers[number] if number < len(self.answers) else ()
        opened = _each(pieces or [AnswerEnded(StopReason.STOP)])
        try:
            yield opened
        finally:
            await opened.aclose()

    @property
    def answers_of_tools(self) -> list[ToolMessage]:
        """The tool answers that the last request showed."""
        return [each for each in self.asked[-1] if isinstance(each, ToolMessage)]


async def _each(pieces: Sequence[AnswerPiece]) -> AsyncGenerator[AnswerPiece, None]:
    for piece in pieces:
        await trio.lowlevel.checkpoint()
        yield piece


def free_traffic(seed: int = 7) -> Traffic:
    """Return the way to providers that bear as much as a new one does; its waits repeat."""
    return Traffic(Limiter(), Random(seed).random)  # noqa: S311 (waits that repeat)


@dataclass
class Studio:
    """Runs agents in a folder and keeps what came of it."""

    root: Path
    kind: Kind = Kind.READER
    budget: Budget = field(default_factory=lambda: Budget(max_turns=20, max_tool_calls=40))
    notes: list[Trace] = field(default_factory=list)
    ownership: tuple[str, ...] = ()
    codemode: bool = False
    steers: Steers = field(default_factory=Steers)
    traffic: Traffic = field(default_factory=free_traffic)

    @property
    def transcript_path(self) -> Path:
        """Where the conversation is saved."""
        return self.root.parent / "conversation.jsonl"

    def transcript(self) -> tuple[SaidMessage, ...]:
        """Return what was saved, without the system prompt."""
        return tuple(m for m in read_transcript(self.transcript_path) if m.role != "system")

    @property
    def rules(self) -> SubmissionRules:
        """What results of this kind of agent are held against."""
        if self.kind is Kind.REVIEWER:
            return SubmissionRules(self.kind, TaskId("fix"), FINGERPRINT)
        return SubmissionRules(self.kind)

    @asynccontextmanager
    async def agent(self, model: Model, task: str = "look") -> AsyncIterator[InProcessAgent]:
        """Open an agent of this studio's kind that `model` speaks for."""
        spec = AttemptSpec(
            AttemptId(TaskId(task), 1),
            load_roster().definitions[NAMES[self.kind]],
            self.rules,
            ToolContext(self.root, {}, None, no_files, "sh"),
            self.ownership,
            codemode=self.codemode,
        )
        header = SessionHeader(
            "session-1", str(self.root), ModelChoice(model.provider, model.id, Thinking.OFF)
        )
        async with open_session(
            self.transcript_path, header, clock=FakeClock(), next_id=numbered_ids()
        ) as session:
            yield InProcessAgent(
                spec,
                AgentMeans(
                    model, self.traffic, session, self.budget, self.steers, self.notes.append
                ),
            )

    async def run(self, model: Model, brief: str = "Begin.") -> AgentOutcome:
        """Lead one conversation to its end."""
        async with self.agent(model) as agent:
            return await agent.run(brief)

    async def play(
        self, script: Script, task: str = "look", values: Mapping[str, str] | None = None
    ) -> AgentOutcome:
        """Lead the conversation of a scripted task to its end."""
        model = ScriptedModel(script, "test.yaml", task, 1, values or {})
        async with self.agent(model, task) as agent:
            return await agent.run("Begin.")


async def no_files() -> tuple[bytes, ...]:
    """List nothing: what agents of a studio search is empty."""
    await trio.lowlevel.checkpoint()
    return ()


def open_studio(tmp_path: Path, kind: Kind = Kind.READER, **budget: float) -> Studio:
    """Return a studio with an empty folder; `budget` changes its limits."""
    root = tmp_path / "workspace"
    root.mkdir()
    limits = {"max_turns": 20, "max_tool_calls": 40, **budget}
    return Studio(
        root,
        kind,
        Budget(
            max_turns=int(limits["max_turns"]),
            max_tool_calls=int(limits["max_tool_calls"]),
            purse=Purse(budget.get("cost_usd")),
        ),
    )
