"""Agents of a host whose backend is played: they do nothing, and go, or fail, as a test says."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.birth import Birth
from agents.herdsman.identity import GenerationId, Label, SessionId
from agents.herdsman.record import ProcessStamp
from agents.herdsman.runtime import Attendant, Entry, Launch, Lifecycle, Message
from engine.core.spec import Backend
from pinata.work.herd_runtime import Way
from tests.support.herd_records import LEAD, WORKSPACE, session, uid
from tests.support.herd_stage import PlayedAttendant


@dataclass
class PlayedLed:
    """The conversation of an agent that does nothing; a `LedConversation`."""

    session: SessionId
    session_file: Path
    child: ProcessStamp | None = None
    lifecycle: Lifecycle = Lifecycle.IDLE
    answers: bool = True
    ended: trio.Event = field(default_factory=trio.Event)
    asked: int = 0

    async def is_answering(self) -> bool:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        return self.answers

    async def wait_ended(self) -> str:
        await self.ended.wait()
        return "it was killed"

    async def say(self, message: Message, *, waits: bool) -> None:
        raise AssertionError("nobody says anything here")

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        raise AssertionError("nobody saves anything here")

    async def entries(self) -> Sequence[Entry]:
        await trio.lowlevel.checkpoint()
        return ()

    async def interrupt(self) -> None:
        await trio.lowlevel.checkpoint()

    async def recent_output(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return ("a line",)


@dataclass
class PlayedWay:
    """How agents come up here; a `Way`.

    Attributes:
        backend: what is said to run them.
        child: the program that each is said to be.
        gate: what a start waits for.
        fault: why none comes up.
        keeps: what an agent waits for, whatever happens, when it is told to end.
        marks: of all that were opened.
        open_now: the labels of those that are there.
    """

    backend: Backend = Backend.IN_PROCESS
    child: ProcessStamp | None = None
    gate: trio.Event | None = None
    opening: trio.Event = field(default_factory=trio.Event)
    fault: Exception | None = None
    keeps: trio.Event | None = None
    marks: list[str] = field(default_factory=list)
    led: list[PlayedLed] = field(default_factory=list)
    open_now: int = 0

    async def __call__(self, launch: Launch) -> Way:
        """Return itself as the way of any agent."""
        await trio.lowlevel.checkpoint()
        return _OneWay(self, launch)


@dataclass
class _OneWay:
    played: PlayedWay
    launch: Launch

    @property
    def backend(self) -> Backend:
        return self.played.backend

    @asynccontextmanager
    async def open(self, mark: str) -> AsyncIterator[PlayedLed]:
        played = self.played
        played.marks.append(mark)
        played.open_now += 1
        try:
            played.opening.set()
            if played.gate is not None:
                await played.gate.wait()
            if played.fault is not None:
                raise played.fault
            label = self.launch.birth.label
            led = PlayedLed(session(label), Path(f"/sessions/{label}.jsonl"), played.child)
            played.led.append(led)
            yield led
        finally:
            if played.keeps is not None:
                with trio.CancelScope(shield=True):
                    await played.keeps.wait()
            played.open_now -= 1


def launch_of(label: str, attendant: Attendant | None = None, **more: Any) -> Launch:
    """Return the launch of an agent whose session is `session(label)`."""
    definition = more.pop("definition", None) or HerdDefinition(
        "scout", "Looks.", "Look.\n", (Source.USER,)
    )
    model = more.pop("model", None)
    birth = Birth(
        generation=GenerationId(uid(f"generation {label}")),
        owner=LEAD,
        workspace=WORKSPACE,
        label=Label(label),
        definition=definition,
        **{"cwd": WORKSPACE, **more},
    )
    return Launch(birth, "Look.\n", model, attendant or PlayedAttendant())
