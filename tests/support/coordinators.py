"""A person's real Pi with our extension, in a project: driven over its protocol, or on a terminal.

Its own model is a server on the loopback interface that says what a test wants; the agents of its
runs follow scripts.
"""

import json
import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from agents.herdsman.tool_names import ASK_OWNER
from agents.models.script import decode_script
from agents.models.scripted import ScriptedModel
from agents.pi_program import COORDINATOR
from agents.submission import SUBMIT_RESULT
from engine.system.identity import all_pids, read_stat
from tests.support.model_server import Answer, ModelRequest, ModelServer, open_model_server
from tests.support.pi_agents import PROVIDER, write_models
from tests.support.programs import wait_end
from tests.support.projects import Project, Turn
from tests.support.real_pi import PI, with_pi
from tests.support.terminals import Pty, on_pty

Record = dict[str, Any]
RESULT: Final = "pinata-result"
# How messages of the herd begin, as a model sees them.
_TOLD = ("Agent ", 'type": "text", "text": "Agent ', 'text": "Agent ')
_FLAGS = ("--offline", "--no-skills", "--no-themes", "--no-context-files", "--no-approve")
_MODEL = ("--model", f"{PROVIDER}/m1")
# A machine that is busy with other tests starts a Pi in several seconds.
_PATIENCE_S = 60


@dataclass(slots=True)
class Mind:
    """What Pi's own model says: the turns that a test has laid out, then that it is done.

    Attributes:
        turns: still to be said.
        heard: every question, in order.
        inspired: what agents of runs hear that ask the same model; None where none does.
        heeds_agents: the next turn is said also when a message of an agent woke the session.
    """

    turns: deque[Turn] = field(default_factory=deque)
    heard: list[ModelRequest] = field(default_factory=list)
    inspired: Callable[[ModelRequest], Turn] | None = None
    heeds_agents: bool = False

    def will_say(self, *turns: Turn) -> None:
        """Lay out the next turns."""
        self.turns.extend(turns)

    def answer(self, request: ModelRequest) -> Answer:
        """Say the next turn."""
        if self.inspired is not None and _is_agents(request):
            turn = self.inspired(request)
        else:
            self.heard.append(request)
            answers = bool(self.turns) and (self.heeds_agents or not _tells_of_agents(request))
            turn = self.turns.popleft() if answers else {"text": "Done."}
        script = decode_script(json.dumps({"any": [turn]}).encode(), "mind.json")
        return ScriptedModel(script, "loopback", "any", 1, {})


def _is_agents(request: ModelRequest) -> bool:
    tools = json.dumps(request.body.get("tools", ()))
    return any(f'"name": "{name}"' in tools for name in (SUBMIT_RESULT, ASK_OWNER))


def _tells_of_agents(request: ModelRequest) -> bool:
    """Return whether the session was woken by a message of its herd, and not by a person."""
    messages = request.body["messages"]
    assert isinstance(messages, list)
    *_, last = messages
    return json.dumps(last["content"]).lstrip('[{"').startswith(_TOLD)


class CoordinatorPi:
    """A Pi that is at work, and everything that it has said."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.records: list[Record] = []
        self._news = trio.Event()
        self._asked = 0
        self._has_ended = False

    async def listen(self) -> None:
        """Take in what it says, until its end."""
        assert self.process.stdout is not None
        rest = b""
        async for data in self.process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            self.records += [json.loads(line) for line in lines]
            self._wake()
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def until(self, is_it: Callable[[Record], bool], since: int = 0) -> Record:
        """Return the first record that is meant, of those that came after `since` others."""
        while True:
            for record in self.records[since:]:
                if is_it(record):
                    return record
            since = len(self.records)
            assert not self._has_ended, f"Pi has ended: {self.records[-3:]}"
            await self._news.wait()

    async def ask(self, command: str, **fields: Any) -> Any:
        """Send a command and return the data of its answer."""
        self._asked += 1
        id_ = f"r{self._asked}"
        line = json.dumps({"id": id_, "type": command, **fields}) + "\n"
        assert self.process.stdin is not None
        await self.process.stdin.send_all(line.encode())
        answer = await self.until(lambda each: each.get("id") == id_ and each["type"] == "response")
        assert answer["success"], answer
        return answer.get("data")

    async def prompt(self, text: str) -> None:
        """Say something as a person, and return once the session has settled."""
        since = len(self.records)
        await self.ask("prompt", message=text)
        await self.settled(since)

    async def settled(self, since: int = 0) -> Record:
        """Return when a run of the session's own model has settled, of those after `since`."""
        return await self.until(lambda each: each["type"] == "agent_settled", since)

    async def types(self, text: str) -> str:
        """Give a command of the extension, and return what it shows."""
        since = len(self.records)
        await self.ask("prompt", message=text)
        return self.notices(since)[-1]

    def notices(self, since: int = 0) -> list[str]:
        """Return what the person was notified of."""
        shown = [each for each in self.records[since:] if each.get("method") == "notify"]
        return [each["message"] for each in shown]

    def of_method(self, method: str) -> list[Record]:
        """Return what the extension had shown in one way."""
        return [each for each in self.records if each.get("method") == method]

    def tool_results(self, tool: str) -> list[Any]:
        """Return what calls of a tool came to, as data where that is possible."""
        ended = [r for r in self.records if r["type"] == "tool_execution_end"]
        found = [r["result"] for r in ended if r["toolName"] == tool]
        return [_data(each["content"][0]["text"]) for each in found]

    async def kill(self) -> None:
        """End it as nobody could resist."""
        self.process.kill()
        await self.process.wait()


def _data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@asynccontextmanager
async def open_pi(*flags: str, cwd: Path, env: Mapping[str, str]) -> AsyncIterator[CoordinatorPi]:
    """Have a Pi inside the block that has loaded everything; it quits at the end."""
    process = await trio.lowlevel.open_process(
        [str(PI), "--mode", "rpc", *_FLAGS, *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    pi = CoordinatorPi(process)
    with trio.fail_after(_PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pi.listen)
            try:
                await pi.ask("get_state")
                yield pi
                assert process.stdin is not None
                await process.stdin.aclose()
                await process.wait()
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
                nursery.cancel_scope.cancel()


@dataclass(slots=True)
class Desk:
    """A person's place: a project, a configured Pi, and the model that it asks.

    Attributes:
        session: the id of the session that is opened.
        env: what Pi sees besides what the project gives.
    """

    project: Project
    server: ModelServer
    mind: Mind
    session: str = "01a2-desk"
    env: dict[str, str] = field(default_factory=dict)

    @property
    def agent_dir(self) -> Path:
        return self.project.folder / "agent"

    @property
    def environment(self) -> dict[str, str]:
        """What Pi, and all that it starts, sees."""
        return with_pi(self.project.program_env, self.agent_dir) | self.env

    @asynccontextmanager
    async def pi(self, *more: str) -> AsyncIterator[CoordinatorPi]:
        """Have a Pi inside the block that has loaded everything; it quits at the end."""
        flags = ("--no-extensions", "-e", str(COORDINATOR), "--session-id", self.session)
        cwd = self.project.repo.root
        async with open_pi(*flags, *_MODEL, *more, cwd=cwd, env=self.environment) as pi:
            yield pi

    async def once(self, *words: str) -> str:
        """Run a Pi that ends by itself, and return what it said on stdout."""
        flags = ("--no-extensions", "-e", str(COORDINATOR), "--session-id", self.session)
        with trio.fail_after(_PATIENCE_S):
            done = await trio.run_process(
                [str(PI), *_FLAGS, *flags, *_MODEL, *words],
                cwd=self.project.repo.root,
                env=self.environment,
                stdin=b"",
                capture_stdout=True,
                capture_stderr=True,
            )
        return done.stdout.decode()

    @contextmanager
    def on_terminal(self, terminal: Pty) -> Iterator[subprocess.Popen[bytes]]:
        """Start Pi as installed, on a terminal; it is killed at the end of the block if it runs."""
        argv = [str(PI), "--offline", "--no-approve", "--session-id", self.session, *_MODEL]
        env = self.environment | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        with on_pty(terminal, argv, cwd=self.project.repo.root, env=env) as process:
            yield process

    def entries(self) -> list[Record]:
        """Return what the file of the session holds."""
        (path,) = (self.agent_dir / "sessions").rglob(f"*_{self.session}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def told(self) -> list[str]:
        """Return the key of everything that the session's file says it was told, in order."""
        found: list[str] = []
        for entry in self.entries():
            message = entry.get("message", {})
            is_result = entry.get("customType") == RESULT or message.get("role") == "toolResult"
            if is_result:
                details = entry.get("details") or message.get("details") or {}
                found += details.get("deliveries", [])
        return found

    def bridges(self) -> list[int]:
        """Return the processes of the program that Pi starts."""
        return self._processes("pi")

    def hosts(self) -> list[int]:
        """Return the processes of hosts."""
        return self._processes("host")

    def _processes(self, command: str) -> list[int]:
        mine = f"XDG_STATE_HOME={self.project.env['XDG_STATE_HOME']}".encode()
        found = []
        for pid in all_pids():
            stat = read_stat(pid)
            if stat is None or stat.is_dead:
                continue
            try:
                if mine not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    continue
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command.encode() in words and any(w.startswith(b"--session") for w in words):
                found.append(pid)
        return found

    async def hosts_left(self) -> None:
        """Return when no host lives any more."""
        for pid in self.hosts():
            await wait_end(pid)


@asynccontextmanager
async def open_desk(project: Project) -> AsyncIterator[Desk]:
    """Have a desk inside the block; no program of it may be left afterwards."""
    mind = Mind()
    async with open_model_server(mind.answer) as server:
        desk = Desk(project, server, mind, f"desk-{project.folder.name}-{os.getpid()}")
        write_models(desk.agent_dir, server)
        try:
            yield desk
            with trio.fail_after(_PATIENCE_S):
                await desk.hosts_left()
        finally:
            left = [*desk.hosts(), *desk.bridges()]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert left == [], "something was left running"
