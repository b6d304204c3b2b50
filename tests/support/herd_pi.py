"""Managed agents that are a real Pi, whose model is a server on the loopback interface."""

import json
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from agents.herd_definition import HerdDefinition
from agents.herdsman.identity import Handle, Label, SessionId
from agents.herdsman.pi_agent import PiManagedSpec, open_pi
from agents.herdsman.pi_talk import PiTalk
from agents.herdsman.record import ProcessStamp, Proof
from agents.herdsman.runtime import Started
from agents.herdsman.session_file import begin_managed_session
from agents.models.endpoint import Secret
from agents.models.script import decode_script
from agents.pi_program import PiProgram, find_pi
from engine.core.environment import child_environment
from engine.core.spec import ModelChoice, Thinking
from engine.system.nursery import open_flat_nursery
from tests.support.herd_stage import PlayedAttendant
from tests.support.model_server import (
    Answer,
    ModelRequest,
    ModelServer,
    from_script,
    open_model_server,
)
from tests.support.pi_agents import KEY, PROVIDER, write_models
from tests.support.real_pi import with_pi

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
DEFINITION = HerdDefinition("scout", "Looks around.", "You look around.\n", ())
LABEL = Label("scout")
NOW_MS = 1_800_000_000_000


@dataclass
class PiScene:
    """A conversation that is open, and the server that speaks for its model."""

    conversation: PiTalk
    server: ModelServer

    def shown(self, request: int) -> tuple[str, ...]:
        """Return what a request showed as the user's, in order."""
        return self._texts(request, "user")

    def answered_calls(self, request: int) -> tuple[str, ...]:
        """Return what a request showed as answers of tools, in order."""
        return self._texts(request, "tool")

    def offered(self, request: int) -> list[str]:
        """Return the names of the tools that a request offered, sorted."""
        tools = self.server.requests[request].body.get("tools", [])
        assert isinstance(tools, list)
        return sorted(tool["function"]["name"] for tool in tools)

    def system(self, request: int) -> str:
        """Return the prompt that a request began with."""
        return "\n".join(self._texts(request, "system") + self._texts(request, "developer"))

    async def wait_asked(self, count: int) -> None:
        """Return once the model was asked so many times."""
        await self.server.wait_asked(count)

    def _texts(self, request: int, role: str) -> tuple[str, ...]:
        messages = self.server.requests[request].body["messages"]
        assert isinstance(messages, list)
        return tuple(_text(each["content"]) for each in messages if each["role"] == role)


@dataclass
class PiHerd:
    """Opens agents in a folder, each in the session that the one before has left there.

    Attributes:
        settings: of Pi's, besides those of every test.
        model: fields of the model in Pi's models.
    """

    folder: Path
    definition: HerdDefinition = DEFINITION
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    mark: str | None = None
    pi: PiProgram | None = None

    @property
    def root(self) -> Path:
        """Where the agent works."""
        return self.folder

    @property
    def agent_dir(self) -> Path:
        """Where its Pi keeps what is the user's."""
        return self.folder / ".pi-agent"

    @property
    def session_file(self) -> Path:
        """Where the conversation is saved."""
        return self.agent_dir / "sessions/session.jsonl"

    @property
    def env(self) -> dict[str, str]:
        """What the agent's own programs see."""
        base = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TMPDIR": tempfile.gettempdir()}
        return child_environment(with_pi(base, self.agent_dir, has_fd=True))

    async def spec(self) -> PiManagedSpec:
        """Return the agent, whose session's file is there."""
        await trio.to_thread.run_sync(self._begin_session)
        return PiManagedSpec(
            self.pi or await find_pi(self.env, self.folder),
            self.definition,
            self.definition.persona,
            ModelChoice(PROVIDER, "m1", Thinking.OFF),
            SESSION,
            self.session_file,
            self.root,
            self.env,
            self.mark,
            secrets=(Secret(KEY),),
            secret_files=(self.agent_dir / "models.json",),
        )

    @asynccontextmanager
    async def open(
        self, choose: Callable[[ModelRequest], Answer], attendant: PlayedAttendant
    ) -> AsyncIterator[PiScene]:
        """Open an agent, which is served."""
        async with open_model_server(choose) as server:
            spec = await self.prepared(server)
            async with open_pi(spec, attendant) as talk, open_flat_nursery() as nursery:
                nursery.start_soon(attendant.serve, talk, started(talk))
                await attendant.served.wait()
                yield PiScene(talk, server)
                nursery.cancel_scope.cancel()

    async def prepared(self, server: ModelServer) -> PiManagedSpec:
        """Return the agent, whose Pi reaches the server."""
        write_models(self.agent_dir, server)
        self._change_files()
        return await self.spec()

    def _begin_session(self) -> None:
        if not self.session_file.exists():
            begin_managed_session(
                self.session_file,
                SESSION,
                cwd=str(self.root),
                definition=self.definition.name,
                label=LABEL,
                now_ms=NOW_MS,
            )

    def _change_files(self) -> None:
        models = self.agent_dir / "models.json"
        found = json.loads(models.read_text())
        found["providers"][PROVIDER]["models"][0].update(self.model)
        models.write_text(json.dumps(found))
        settings = self.agent_dir / "settings.json"
        retry = {"retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 1}}
        settings.write_text(
            json.dumps(json.loads(settings.read_text()) | retry | dict(self.settings))
        )


class PiStage:
    """The stage of agents that are a Pi."""

    @asynccontextmanager
    async def open(
        self, folder: Path, script: str, attendant: PlayedAttendant
    ) -> AsyncIterator[PiScene]:
        """Open the conversation of an agent whose model says the turns of a script."""
        async with PiHerd(folder).open(scripted(script), attendant) as scene:
            yield scene


def scripted(script: str) -> Callable[[ModelRequest], Answer]:
    """Return a model that says the turns of a script."""
    return from_script(decode_script(textwrap.dedent(script).encode(), "test.yaml"))


def started(talk: PiTalk) -> Started:
    """Return what is recorded of an agent that was started."""
    proof = Proof("process", ProcessStamp(1, 1, "boot"), talk.child)
    return Started(Handle("slot-1"), talk.session, talk.session_file, proof)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return "".join(block.get("text", "") for block in content)
