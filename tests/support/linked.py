"""A run without agents that can be reached: what is asked of it is kept, what happens is said."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import trio
import trio.testing

from engine.core.errors import ConflictError, UsageError
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    CancelRequested,
    Event,
    RunSettled,
    RunStarted,
    Sender,
    TaskQueued,
    Trace,
)
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.view import RunView
from engine.records.event import Logged
from engine.records.link import LinkV1, decode_link
from engine.store import RunFolder
from engine.system.clock import SystemClock
from pinata.work.frames import FrameReader, send_frame
from pinata.work.link import Links, open_links
from pinata.work.linked_run import LinkedRun
from pinata.work.observer import OpenedRun

RUN = RunId("0123456789abcdef")
LOOK, JUDGE = TaskId("look"), TaskId("judge")
LOOK1 = AttemptId(LOOK, 1)
Frame = dict[str, Any]
OPENING: tuple[Event, ...] = (
    RunStarted(2),
    TaskQueued(LOOK),
    TaskQueued(JUDGE),
    AttemptStarted(LOOK1),
)
ENDING: tuple[Event, ...] = (
    AttemptSettled(LOOK1, AttemptOutcome(Status.SUCCEEDED, result_digest="d")),
    RunSettled(Status.SUCCEEDED),
)


def _set() -> trio.Event:
    event = trio.Event()
    event.set()
    return event


@dataclass(slots=True)
class Linked:
    """A run and what was asked of it.

    Attributes:
        told: messages to agents, each with its task, whether it is a follow-up, and its sender.
        asked: what was asked to end, None for the run, each with its reason.
        cancelling: what is recorded when that is asked.
        may_cancel: until then nothing is.
        view: how the run stands.
        hears: what others reach of it.
    """

    folder: RunFolder
    told: list[tuple[TaskId, str, bool, str]] = field(default_factory=list)
    asked: list[tuple[TaskId | None, str]] = field(default_factory=list)
    cancelling: tuple[Event, ...] = ()
    may_cancel: trio.Event = field(default_factory=_set)
    view: RunView = field(default_factory=RunView)
    hears: LinkedRun | None = None

    @classmethod
    def create(cls, parent: Path) -> Self:
        """Make the run's folder below `parent`."""
        folder = parent / RUN
        for name in ("", "transcripts"):
            (folder / name).mkdir(0o700, parents=True)
        return cls(RunFolder(folder))

    @property
    def opened(self) -> OpenedRun:
        """The run as its owner opens it."""
        return OpenedRun(
            id=RUN,
            folder=self.folder.path,
            started_at_ms=1_000,
            agents={LOOK: "scout", JUDGE: "reviewer"},
            after={LOOK: (), JUDGE: (LOOK,)},
            view=self.view.copy(),
            cancel=lambda reason: self.asked.append((None, reason)),
            record_cancel=self._record_cancel,
            steer=self._steer,
            notices=["mind the step"],
        )

    async def _record_cancel(self, reason: str, task: TaskId | None = None) -> None:
        await self.may_cancel.wait()
        self.asked.append((task, reason))
        self.tell(CancelRequested(reason, task), *self.cancelling)

    def _steer(
        self, task: TaskId, text: str, *, follow_up: bool = False, sender: Sender = Sender.PARENT
    ) -> None:
        if not text.strip():
            raise UsageError("the message is blank")
        if task != LOOK:
            raise ConflictError(f"task '{task}' is queued")
        self.told.append((task, text, follow_up, sender.value))

    def linked_run(self, *, is_lean: bool = True) -> LinkedRun:
        """Return what others reach, without a socket."""
        self.hears = LinkedRun(self.opened, SystemClock(), is_lean=is_lean)
        return self.hears

    @asynccontextmanager
    async def served(
        self,
        links: Links | None = None,
        *,
        is_lean: bool = True,
        environment: dict[str, str] | None = None,
    ) -> AsyncIterator[LinkedRun]:
        """Have a socket lead to the run inside the block, as while its owner works on it."""
        if links is None:
            async with (
                open_links() as own,
                self.served(own, is_lean=is_lean, environment=environment) as run,
            ):
                yield run
            return
        async with links.reachable(
            self.opened, environment or {}, SystemClock(), is_lean=is_lean
        ) as run:
            self.hears = run
            yield run

    def tell(self, *events: Event) -> None:
        """Let events happen."""
        for event in events:
            logged = Logged(self.view.seq + 1, 2_000 + self.view.seq, event)
            self.view.apply(*logged)
            if self.hears is not None:
                self.hears.happened(logged)

    def note(self, *events: Trace) -> None:
        """Let agents do things."""
        for event in events:
            assert self.hears is not None
            self.hears.noted(event)

    async def link(self) -> LinkV1:
        """Return what `link.json` says."""
        data = await trio.to_thread.run_sync(self.folder.link_file.read_bytes)
        return decode_link(data, "link.json")


class Peer:
    """Somebody at the other end of a connection, who may say anything."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._reader = FrameReader(stream, 64 << 20)

    async def say(self, frame: Frame) -> None:
        """Send a frame."""
        await send_frame(self.stream, frame, patience_s=5)

    async def hello(self, token: str, /, **other: object) -> None:
        """Ask to be let in."""
        frame = {"type": "hello", "v": 1, "token": token, "role": "viewer", "run": RUN}
        await self.say(frame | other)

    async def hear(self) -> Frame | None:
        """Return the next frame, None at the end."""
        return await self._reader.receive()

    async def hear_type(self, wanted: str) -> Frame:
        """Return the next frame of a type."""
        while (frame := await self.hear()) is not None:
            if frame["type"] == wanted:
                return frame
        raise AssertionError(f"no {wanted}")

    async def hear_all(self) -> list[Frame]:
        """Return all frames to the end."""
        frames = []
        while (frame := await self.hear()) is not None:
            frames.append(frame)
        return frames


def session_line(role: str, text: str) -> str:
    """Return a line of a transcript."""
    content = [{"type": "text", "text": text}]
    return json.dumps({"type": "message", "message": {"role": role, "content": content}}) + "\n"
