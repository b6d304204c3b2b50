"""A played agent's conversation: the test is its model, and its file is a Pi session file.

It keeps the promises of the port `agents.herdsman.runtime.Conversation`. An agent reads what it is
told, takes the next `Turn` of its script, and waits for as long as there is none.
"""

import json
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from agents.herdsman.identity import SessionId
from agents.herdsman.record import ContextUsage
from agents.herdsman.runtime import (
    Attendant,
    Ended,
    Entry,
    HerdTool,
    Lifecycle,
    Message,
    ToolReply,
)
from engine.core.errors import ExternalError
from engine.system import faults

_SHOWN_LINES = 80


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the played model calls; one that the herd does not offer answers `ok`."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the played model.

    Attributes:
        takes_s: passes before the answer is complete.
        fault: the provider failed; the agent comes to rest, unless the answer `is_retried`.
        hangs: the answer is never complete; its text is what an abort leaves.
        usage: how full the context is after it.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    takes_s: float = 0
    fault: str | None = None
    is_retried: bool = False
    hangs: bool = False
    usage: ContextUsage | None = None


class Script:
    """What the model of one agent answers, in order, over all of its generations."""

    def __init__(self) -> None:
        self._turns: deque[Turn] = deque()
        self._news = trio.Event()

    def play(self, *turns: Turn) -> None:
        """Have the model answer so, after what it has to answer already."""
        self._turns.extend(turns)
        self._news.set()

    async def next(self) -> Turn:
        """Wait for the next answer."""
        while not self._turns:
            self._news = trio.Event()
            await self._news.wait()
        return self._turns.popleft()


class SessionLog:
    """A Pi session file: entries that each know the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._leaf: str | None = None
        if path.exists() and (lines := self.lines()):
            self._leaf = lines[-1].get("id") if len(lines) > 1 else None

    def lines(self) -> list[dict[str, Any]]:
        """Return all whole lines, the header first; another thread may be writing one more."""
        *whole, _ = self.path.read_bytes().split(b"\n")
        return [json.loads(line) for line in whole]

    def begin(self, session: str, cwd: str) -> None:
        """Write the header."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._write({"type": "session", "version": 3, "id": session, "cwd": cwd})

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add an entry after the last one."""
        faults.point(f"played.{kind}.started")
        entry = uuid.uuid4().hex[:8]
        self._write({"type": kind, "id": entry, "parentId": self._leaf, **content})
        self._leaf = entry
        faults.point(f"played.{kind}.written")

    def leave_branch(self) -> None:
        """Let what follows be a branch of its own, on which nothing has happened yet."""
        self._leaf = None

    def entries(self) -> list[Entry]:
        """Return the entries of the herd, on all branches."""
        # The end first: whoever adds an entry in another thread moves it after the line is there.
        branch, at = set(), self._leaf
        lines = self.lines()[1:]
        parents = {line["id"]: line["parentId"] for line in lines}
        while at is not None:
            branch.add(at)
            at = parents[at]
        return [
            Entry(
                line["customType"],
                line["data"] if line["type"] == "custom" else line["details"],
                line["id"] in branch,
            )
            for line in lines
            if line["type"] in ("custom", "custom_message")
        ]

    def _write(self, line: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "timestamp": "2026-01-01T00:00:00.000Z"}) + "\n")


@dataclass(slots=True)
class _Waiting:
    message: Message
    is_settled: trio.Event = field(default_factory=trio.Event)


class PlayedConversation:
    """A conversation whose model is the test."""

    def __init__(self, session: SessionId, log: SessionLog, script: Script) -> None:
        self.session = session
        self.log = log
        self.lifecycle = Lifecycle.IDLE
        # While set, nothing can be put in or saved.
        self.fault: str | None = None
        # While set, nothing can be said to it.
        self.deaf: str | None = None
        # How long an operation goes on that is told to stop.
        self.abort_takes_s: float = 0
        # Whether it comes to rest, for a second, before it reads what it was told meanwhile.
        self.rests_between = False
        self._script = script
        self._output: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._waiting: deque[_Waiting] = deque()
        self._changed = trio.Event()
        self._operation: trio.CancelScope | None = None

    @property
    def session_file(self) -> Path:
        return self.log.path

    def heard(self, kind: str) -> list[str]:
        """Return the texts of one kind that the model has read, in order, over all restarts."""
        return [
            line["content"]
            for line in self.log.lines()
            if line["type"] == "custom_message" and line["customType"] == kind
        ]

    async def wait_lifecycle(self, wanted: Lifecycle) -> None:
        """Wait until the agent does that."""
        while self.lifecycle is not wanted:
            await self._changed.wait()

    async def say(self, message: Message, *, waits: bool) -> None:
        self._check()
        if self.deaf is not None:
            raise ExternalError(self.deaf)
        waiting = _Waiting(message)
        self._waiting.append(waiting)
        self._ring()
        if waits:
            await waiting.is_settled.wait()
        else:
            await trio.lowlevel.checkpoint()

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        self._check()
        await self._add("custom", {"customType": kind, "data": dict(details)})

    async def entries(self) -> Sequence[Entry]:
        self._check()
        return await trio.to_thread.run_sync(self.log.entries)

    async def interrupt(self) -> None:
        self._check()
        while self._waiting:
            self._waiting.popleft().is_settled.set()
        await trio.sleep(self.abort_takes_s)
        if self._operation is not None:
            self._operation.cancel()
        await self.wait_lifecycle(Lifecycle.IDLE)

    async def recent_output(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return tuple(self._output)

    async def run(self, attendant: Attendant) -> None:
        """Lead the conversation until cancelled."""
        while True:
            while not self._waiting:
                await self._changed.wait()
            self._set(Lifecycle.WORKING)
            ended = Ended(was_aborted=True)
            with trio.CancelScope() as self._operation:
                ended = await self._work(attendant)
            self._operation = None
            self._set(Lifecycle.IDLE)
            await attendant.came_to_rest(ended)
            if self.rests_between:
                await trio.sleep(1)

    async def _work(self, attendant: Attendant) -> Ended:
        """Answer until there is nothing left to answer."""
        while True:
            await self._take_in()
            attendant.active()
            turn = await self._script.next()
            await self._answer(turn, attendant)
            goes_on = False
            for call in turn.calls:
                reply = await self._call(call, attendant, is_only=len(turn.calls) == 1)
                goes_on = goes_on or not reply.ends_turn
            if goes_on or turn.is_retried or (self._waiting and not self.rests_between):
                continue
            return Ended(fault=turn.fault, usage=turn.usage)

    async def _take_in(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            said = waiting.message
            what = {"customType": said.kind, "content": said.text, "details": dict(said.details)}
            await self._add("custom_message", {**what, "display": True})
            waiting.is_settled.set()

    async def _answer(self, turn: Turn, attendant: Attendant) -> None:
        try:
            await trio.sleep(turn.takes_s)
            if turn.hangs:
                await trio.sleep_forever()
        except trio.Cancelled:
            attendant.answered(turn.text, was_aborted=True)
            raise
        content = [
            {"type": "text", "text": turn.text},
            *({"type": "toolCall", "name": c.tool, "arguments": c.arguments} for c in turn.calls),
        ]
        await self._add("message", {"message": {"role": "assistant", "content": content}})
        self._output.extend(turn.text.splitlines())
        attendant.answered(turn.text, was_aborted=False)
        attendant.active()

    async def _call(self, call: Call, attendant: Attendant, *, is_only: bool) -> ToolReply:
        self._output.append(call.tool)
        attendant.active()
        tool = tool_of(attendant, call.tool)
        reply = await tool.call(call.arguments, is_only) if tool else ToolReply("ok")
        content = [{"type": "text", "text": reply.text}]
        said = {"role": "toolResult", "toolName": call.tool, "content": content}
        await self._add("message", {"message": {**said, "isError": reply.is_error}})
        attendant.active()
        return reply

    async def _add(self, kind: str, content: Mapping[str, Any]) -> None:
        # Whole even when cancelled, like a thread that writes.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self.log.add, kind, content)

    def _check(self) -> None:
        if self.fault is not None:
            raise ExternalError(self.fault)

    def _set(self, lifecycle: Lifecycle) -> None:
        self.lifecycle = lifecycle
        self._ring()

    def _ring(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def tool_of(attendant: Attendant, name: str) -> HerdTool | None:
    """Return a tool that the herd offers to an agent."""
    return next((t for t in attendant.tools if t.declaration.name == name), None)
