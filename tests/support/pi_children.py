"""Children that speak Pi's protocol as a test wants them to, well or badly."""

import json
import shlex
import sys
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_conversation import PiConversation, PiMeans
from agents.backends.pi_process import PiAgent, PiAgentSpec
from agents.backends.pi_records import decode_record
from agents.backends.pi_stream import PiStream
from agents.budget import Budget
from agents.definition import Definition
from agents.filetools.tool import ToolContext
from agents.loop import AgentOutcome
from agents.models.endpoint import Secret
from agents.models.routes import PiRoute
from agents.pi_program import PiProgram
from agents.roster import load_roster
from agents.steering import Steers
from agents.submission import SubmissionRules
from agents.traffic import Traffic
from engine.core.events import Trace
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Kind, ModelChoice, Thinking
from engine.system.nursery import open_flat_nursery
from tests.support.agents import FINGERPRINT, NAMES, free_traffic, no_files, result
from tests.support.real_pi import fake_pi

MODEL = "loop/m1"
PLANTED = "sk-planted-with-provider"
ATTEMPT = AttemptId(TaskId("look"), 1)
_STATE = {"model": {"provider": "loop", "id": "m1"}}
_DEFINITIONS = load_roster().definitions
RESULT = result(brief="it is so")


class Child:
    """One end of the stream, in the hands of a test; the other one is the engine's."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._heard = bytearray()

    async def raw(self, data: bytes) -> None:
        """Say these bytes."""
        await self._stream.send_all(data)

    async def say(self, type_: str, **fields: object) -> None:
        """Say a record."""
        await self.raw(json.dumps({"type": type_, **fields}).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        """Return the next command."""
        while b"\n" not in self._heard:
            piece = await self._stream.receive_some()
            assert piece, "the engine has hung up"
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        command: dict[str, Any] = json.loads(line)
        return command

    async def reply(self, command: Mapping[str, Any], **fields: object) -> None:
        """Say that a command was carried out, unless `fields` say otherwise."""
        whole = {"id": command["id"], "command": command["type"], "success": True, **fields}
        await self.say("response", **whole)

    async def begin(self) -> str:
        """Get ready, take the brief and begin a turn; return the brief."""
        await self.reply(await self.hear(), data=_STATE)
        command = await self.hear()
        await self.reply(command, data={"disposition": "started"})
        await self.say("turn_start")
        return str(command["message"])

    async def ask(self, ask: str, **fields: object) -> dict[str, Any]:
        """Ask what our extension asks, and return the answer."""
        question = json.dumps({"ask": ask, **fields})
        await self.say(
            "extension_ui_request", id="q", method="input", title="pinata:ask", placeholder=question
        )
        command = await self.hear()
        assert (command["type"], command["id"]) == ("extension_ui_response", "q")
        answer: dict[str, Any] = json.loads(command["value"])
        return answer

    async def submit(self, arguments: object = None) -> dict[str, Any]:
        """Hand a result in and return the answer."""
        return await self.ask("submit", arguments=RESULT if arguments is None else arguments)

    async def answered(self, **message: object) -> None:
        """Say that the model has answered."""
        whole = {"role": "assistant", "content": [], "stopReason": "stop", **message}
        await self.say("message_end", message=whole)


Play = Callable[[Child], Awaitable[None]]


@dataclass
class Stage:
    """Where a test's child meets the engine, and what came of it."""

    root: Path
    kind: Kind = Kind.READER
    budget: Budget = field(default_factory=lambda: Budget(max_turns=5, max_tool_calls=5))
    ownership: tuple[str, ...] = ()
    notes: list[Trace] = field(default_factory=list)
    steers: Steers = field(default_factory=Steers)
    price: float | None = None
    traffic: Traffic = field(default_factory=free_traffic)
    missing: frozenset[str] = frozenset()
    temporary: Path | None = None

    @property
    def env(self) -> dict[str, str]:
        """What the child sees."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": "/home/robin",
            "TMPDIR": str(self.temporary or self.root),
        }

    @property
    def means(self) -> PiMeans:
        """What the conversation is led with."""
        route = PiRoute(lambda _: self.price, has_price=False, secrets=(Secret(PLANTED),))
        return PiMeans(self.budget, self.steers, self.notes.append, route, self.traffic)

    @property
    def attempt(self) -> AttemptSpec:
        """The attempt that the child works on."""
        is_review = self.kind is Kind.REVIEWER
        return AttemptSpec(
            ATTEMPT,
            _DEFINITIONS[NAMES[self.kind]],
            SubmissionRules(self.kind, TaskId("fix"), FINGERPRINT)
            if is_review
            else SubmissionRules(self.kind),
            ToolContext(self.root, self.env, None, no_files, "sh"),
            self.ownership,
        )

    async def run(self, pi: PiProgram, definition: Definition | None = None) -> AgentOutcome:
        """Let an agent whose Pi is `pi` do its task."""
        attempt = self.attempt
        if definition is not None:
            attempt = replace(attempt, definition=definition)
        choice = ModelChoice("loop", "m1", Thinking.LOW)
        spec = PiAgentSpec(attempt, pi, choice, self.root / "session.jsonl", self.missing)
        return await PiAgent(spec, self.means).run("Begin.")

    async def lead(self, play: Play) -> AgentOutcome | None:
        """Lead a conversation with a child that does what `play` says, and then hangs up."""
        ours, theirs = trio.socket.socketpair()
        attempt = self.attempt
        conversation = PiConversation(
            attempt,
            attempt.guard(attempt.names(None)),
            model=MODEL,
            means=self.means,
            stream=PiStream(trio.SocketStream(ours), decode_record),
        )

        async def perform() -> None:
            # The engine hangs up when it has heard enough.
            with suppress(trio.BrokenResourceError):
                async with trio.SocketStream(theirs) as stream:
                    await play(Child(stream))

        async with open_flat_nursery() as nursery:
            nursery.start_soon(perform)
            with ours:
                outcome = await conversation.lead("Begin.")
            nursery.cancel_scope.cancel()
        return outcome


_PRELUDE = """
import json, os, sys, time

def say(type_, **fields):
    print(json.dumps({"type": type_, **fields}), flush=True)

def hear():
    return json.loads(sys.stdin.readline())

def begin():
    state = {"model": {"provider": "loop", "id": "m1"}}
    say("response", id=hear()["id"], success=True, data=state)
    brief = hear()
    say("response", id=brief["id"], success=True)
    say("turn_start")
    return brief["message"]

def submit(**changes):
    result = {name: value for name, value in {**RESULT, **changes}.items() if value is not None}
    question = json.dumps({"ask": "submit", "arguments": result})
    say("extension_ui_request", id="q", method="input", title="pinata:ask", placeholder=question)
    return json.loads(hear()["value"])

"""


def program(folder: Path, text: str) -> PiProgram:
    """Return a Pi that is a Python program with this text, which gets Pi's arguments.

    It may call `say`, `hear`, `begin` and `submit`.
    """
    path = folder / "child.py"
    path.write_text(f"RESULT = {RESULT!r}\n{_PRELUDE}\n{textwrap.dedent(text)}")
    return PiProgram(path, "1.6.0", Path(sys.executable), "24.0.0")


def install(folder: Path, text: str) -> str:
    """Install a Pi that is a Python program with this text; return a PATH that leads to it."""
    search = folder / "installed"
    path = str(search / "bin") if search.exists() else fake_pi(search)
    child = program(folder, text).path
    node = search / "bin/node"
    line = f'exec {shlex.quote(sys.executable)} {shlex.quote(str(child))} "$@"'
    node.write_text(f'#!/bin/sh\ncase "$1" in --version) echo v24.0.0;; *) {line};; esac\n')
    return f"{path}:/usr/bin:/bin"
