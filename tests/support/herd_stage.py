"""Where a conversation of the herd is played in tests, and who attends to it.

An implementation of `agents.herdsman.runtime.Conversation` becomes a `Stage`; all of them pass
`tests/agents/herdsman/test_runtime_conformance.py`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import trio

from agents.herdsman.runtime import (
    CompactionReason,
    Conversation,
    Ended,
    HerdTool,
    Started,
    ToolReply,
)
from agents.models.port import ToolDeclaration


class Scene(Protocol):
    """A conversation that is open, and what its model was shown."""

    @property
    def conversation(self) -> Conversation:
        """The conversation."""
        ...

    def shown(self, request: int) -> tuple[str, ...]:
        """Return what a request showed as the user's, in order.

        Args:
            request: its number since the conversation was opened, from 0.
        """
        ...

    def answered_calls(self, request: int) -> tuple[str, ...]:
        """Return what a request showed as answers of tools, in order."""
        ...

    async def wait_asked(self, count: int) -> None:
        """Return once the model was asked so many times."""
        ...


class Stage(Protocol):
    """Opens conversations of one implementation."""

    def open(
        self, folder: Path, script: str, attendant: "PlayedAttendant"
    ) -> AbstractAsyncContextManager[Scene]:
        """Open the conversation of an agent that may use `read` and `bash`.

        Its model says the turns for any task of `script`, an indented block of YAML in the form of
        scripts. Whoever opens in the same folder again continues the session that is saved there.
        The attendant has been served when this has entered. Nothing waits between retries for
        longer than a few milliseconds.
        """
        ...


@dataclass
class PlayedAttendant:
    """Does nothing of its own, and writes down what it is told.

    Attributes:
        tools: what the agent is offered.
        allows: whether the conversation may be shortened.
        told: what was answered, and whether it was cut off.
        rests: how the conversation came to rest, each time.
        activity: how often the agent got on.
        asked: what the conversation was to be shortened for.
    """

    tools: Sequence[HerdTool] = ()
    allows: bool = True
    told: list[tuple[str, bool]] = field(default_factory=list)
    rests: list[Ended] = field(default_factory=list)
    activity: int = 0
    asked: list[CompactionReason] = field(default_factory=list)
    served: trio.Event = field(default_factory=trio.Event)
    started: Started | None = None
    _rested: trio.Condition = field(default_factory=trio.Condition)
    _got_on: trio.Event = field(default_factory=trio.Event)

    async def serve(self, conversation: Conversation, started: Started) -> None:
        assert not self.served.is_set()
        assert conversation.session == started.session
        self.started = started
        self.served.set()
        await trio.sleep_forever()

    def active(self) -> None:
        self.activity += 1
        self._got_on.set()

    def answered(self, text: str, *, was_aborted: bool) -> None:
        self.told.append((text, was_aborted))

    async def came_to_rest(self, ended: Ended) -> None:
        async with self._rested:
            self.rests.append(ended)
            self._rested.notify_all()

    async def may_compact(self, reason: CompactionReason) -> bool:
        await trio.lowlevel.checkpoint()
        self.asked.append(reason)
        return self.allows

    async def wait_active(self, count: int) -> None:
        """Return once the agent got on so many times."""
        while self.activity < count:
            self._got_on = trio.Event()
            await self._got_on.wait()

    async def wait_rests(self, count: int) -> None:
        """Return once the conversation came to rest so many times."""
        async with self._rested:
            while len(self.rests) < count:
                await self._rested.wait()


OPEN = ToolReply("the gate is open")


@dataclass
class Gate:
    """A tool `gate` that keeps its caller waiting until a test opens it.

    Attributes:
        entered: somebody called it.
        opened: lets the one who waits, and all later ones, pass.
        calls: the arguments of each call, and whether it was alone in its answer.
        reply: what it answers.
    """

    entered: trio.Event = field(default_factory=trio.Event)
    opened: trio.Event = field(default_factory=trio.Event)
    calls: list[tuple[Mapping[str, Any], bool]] = field(default_factory=list)
    reply: ToolReply = OPEN

    @property
    def tool(self) -> HerdTool:
        """The tool as an agent is offered it."""
        schema = {
            "type": "object",
            "properties": {"note": {"type": "string"}},
            "additionalProperties": False,
        }
        return HerdTool(ToolDeclaration("gate", "Waits for the gate to open.", schema), self._call)

    async def _call(self, arguments: Mapping[str, Any], is_alone: bool) -> ToolReply:  # noqa: FBT001 - as `HerdTool.call` has it
        self.calls.append((dict(arguments), is_alone))
        self.entered.set()
        await self.opened.wait()
        return self.reply


def open_gate(reply: ToolReply = OPEN) -> Gate:
    """Return a gate that lets everybody pass."""
    gate = Gate(reply=reply)
    gate.opened.set()
    return gate
