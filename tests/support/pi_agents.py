"""Agents that are a real Pi, whose model is a server on the loopback interface."""

import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_conversation import PiMeans
from agents.backends.pi_process import PiAgent, PiAgentSpec
from agents.budget import Budget
from agents.filetools.tool import ToolContext
from agents.models.routes import PiRoute, unknown_price
from agents.pi_program import PiProgram, find_pi
from agents.roster import load_roster
from agents.session import begin_session
from agents.steering import Steers
from agents.submission import SubmissionRules
from agents.transcript import SaidMessage, read_transcript
from engine.core.environment import child_environment
from engine.core.events import Trace
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Kind, ModelChoice, Thinking
from tests.support.agents import FINGERPRINT, NAMES, free_traffic, no_files
from tests.support.clock import FakeClock
from tests.support.model_server import Answer, ModelRequest, ModelServer, open_model_server
from tests.support.real_pi import with_pi

PROVIDER = "loop"
KEY = "sk-planted-in-models-json"


def write_models(agent_dir: Path, server: ModelServer, key: str = KEY) -> None:
    """Let a Pi that is configured in `agent_dir` reach the server's model `m1`."""
    agent_dir.mkdir(parents=True, exist_ok=True)
    cost = {"input": 1.0, "output": 2.0, "cacheRead": 0.1, "cacheWrite": 1.25}
    provider = {
        "baseUrl": server.openai_url,
        "api": "openai-completions",
        "apiKey": key,
        "models": [{"id": "m1", "cost": cost}],
    }
    (agent_dir / "models.json").write_text(json.dumps({"providers": {PROVIDER: provider}}))
    retry = {"enabled": True, "maxRetries": 1, "baseDelayMs": 10}
    settings = {"retry": retry, "enableInstallTelemetry": False}
    (agent_dir / "settings.json").write_text(json.dumps(settings))


@dataclass
class PiStudio:
    """Runs one real agent in a folder and keeps what came of it."""

    folder: Path
    kind: Kind = Kind.READER
    budget: Budget = field(default_factory=lambda: Budget(max_turns=20, max_tool_calls=40))
    notes: list[Trace] = field(default_factory=list)
    ownership: tuple[str, ...] = ()
    codemode: bool = False
    steers: Steers = field(default_factory=Steers)
    mark: str | None = None
    route: PiRoute = field(default_factory=lambda: PiRoute(unknown_price, has_price=False))

    @property
    def root(self) -> Path:
        """Where the agent works."""
        return self.folder / "workspace"

    @property
    def env(self) -> dict[str, str]:
        """What the agent's own programs see."""
        base = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TMPDIR": tempfile.gettempdir()}
        return child_environment(with_pi(base, self.folder / "agent", has_fd=True))

    def transcript(self) -> tuple[SaidMessage, ...]:
        """Return what was saved, without the system prompt."""
        said = read_transcript(self.folder / "conversation.jsonl")
        return tuple(message for message in said if message.role != "system")

    def texts(self, role: str) -> list[str]:
        """Return what `role` said."""
        return [message.text for message in self.transcript() if message.role == role]

    async def program(self) -> PiProgram:
        """Return the real Pi."""
        return await find_pi(self.env, self.folder)

    @asynccontextmanager
    async def agent(
        self, choose: Callable[[ModelRequest], Answer], pi: PiProgram | None = None
    ) -> AsyncIterator[tuple[PiAgent, ModelServer]]:
        """Open an agent of this studio's kind, and the server that speaks for it."""
        self.root.mkdir(exist_ok=True)
        async with open_model_server(choose) as server:
            write_models(self.folder / "agent", server)
            secrets = (self.folder / "agent/models.json",)
            attempt = AttemptSpec(
                AttemptId(TaskId("look"), 1),
                load_roster().definitions[NAMES[self.kind]],
                self._rules,
                ToolContext(self.root, self.env, self.mark, no_files, "sh", secrets=secrets),
                self.ownership,
                codemode=self.codemode,
            )
            session = self.folder / "conversation.jsonl"
            begin_session(session, "11111111-1111-4111-8111-111111111111", self.root, FakeClock())
            choice = ModelChoice(PROVIDER, "m1", Thinking.OFF)
            spec = PiAgentSpec(attempt, pi or await self.program(), choice, session)
            means = PiMeans(self.budget, self.steers, self.notes.append, self.route, free_traffic())
            yield PiAgent(spec, means), server

    @property
    def _rules(self) -> SubmissionRules:
        if self.kind is Kind.REVIEWER:
            return SubmissionRules(self.kind, TaskId("fix"), FINGERPRINT)
        return SubmissionRules(self.kind)
