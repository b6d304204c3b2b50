"""A host without processes: its server over streams in memory, its runs and debts played."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import trio
import trio.testing

from engine.core.ids import RunId, TaskId
from engine.core.outcome import Status
from engine.core.view import RunView
from engine.records.host import hello
from pinata.work.frames import FrameReader, encode_frame
from pinata.work.host_calls import Asked, Opened, Tell
from pinata.work.host_models import HostModels
from pinata.work.host_seat import show_nothing
from pinata.work.host_server import HostServer, open_server
from pinata.work.host_terms import Show, Terms
from pinata.work.observer import OpenedRun

TOKEN = "t" * 43
KEY = "session-1"
Frame = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """A settlement that is owed."""

    run: RunId
    settlement: int = 1
    status: Status = Status.SUCCEEDED
    text: str = "all is well"
    answer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.run}/{self.settlement}"


@dataclass(slots=True)
class Debts:
    """What is owed, in memory."""

    owed: list[Settled] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    failure: Exception | None = None

    async def pending(self) -> Sequence[Settled]:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        return [each for each in self.owed if each.key not in self.confirmed]

    async def confirm(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        self.confirmed.append(key)


@dataclass(slots=True)
class PlayedRuns:
    """The runs of a process, as a number of those that survive and of those that do not."""

    mortal: int = 0
    surviving: int = 0
    reasons: list[str] = field(default_factory=list)
    broken_off: dict[RunId, str] = field(default_factory=dict)
    changed: trio.Event = field(default_factory=trio.Event)

    @property
    def is_idle(self) -> bool:
        return not (self.mortal or self.surviving)

    async def wait_idle(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self.is_idle:
            await self.changed.wait()

    async def wait_mortal(self) -> None:
        await trio.lowlevel.checkpoint()
        while self.mortal:
            await self.changed.wait()

    def cancel_mortal(self, reason: str) -> None:
        self.reasons.append(reason)
        self.end(surviving=self.surviving)

    def end(self, *, surviving: int = 0) -> None:
        """End all but so many that survive."""
        self.mortal, self.surviving = 0, surviving
        self.changed.set()
        self.changed = trio.Event()


@dataclass(slots=True)
class Stage:
    """What calls do: each waits until it is told how to end.

    Attributes:
        run: what a call opens; None for calls that carry no run.
        survives: whether that run does.
        opening: what a call waits for before it opens a run, cancelled or not.
        gates: of each call, in order: what it waits for before it ends.
    """

    run: RunId | None = None
    survives: bool = False
    opening: trio.Event | None = None
    asked: list[Asked] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    tells: list[Tell] = field(default_factory=list)
    gates: list[trio.Event] = field(default_factory=list)
    endings: dict[int, Exception] = field(default_factory=dict)

    async def __call__(self, asked: Asked, opened: Opened, tell: Tell) -> Frame:
        number = len(self.gates)
        self.asked.append(asked)
        self.tells.append(tell)
        self.gates.append(trio.Event())
        if self.opening is not None:
            with trio.CancelScope(shield=True):
                await self.opening.wait()
        if self.run is not None:
            opened(self._opened(self.run, number))
        try:
            await self.gates[number].wait()
        except trio.Cancelled:
            self.cancelled.append("given up")
            raise
        if number in self.endings:
            raise self.endings[number]
        return {"tool": asked.tool, "number": number}

    def end(self, number: int, ending: Exception | None = None) -> None:
        """End a call."""
        if ending is not None:
            self.endings[number] = ending
        self.gates[number].set()

    def _opened(self, run: RunId, number: int) -> OpenedRun:
        def cancel(reason: str) -> None:
            self.cancelled.append(reason)
            self.gates[number].set()

        async def record_cancel(reason: str, task: TaskId | None = None) -> None:
            raise NotImplementedError

        def steer(task: TaskId, text: str, **_: object) -> None:
            raise NotImplementedError

        return OpenedRun(
            id=run,
            folder=Path("/nowhere"),
            started_at_ms=0,
            agents={},
            after={},
            view=RunView(),
            cancel=cancel,
            record_cancel=record_cancel,
            steer=steer,
            survives=self.survives,
        )


class _Begun(trio.abc.ReceiveStream):
    """A stream of which something was received already."""

    def __init__(self, stream: trio.abc.ReceiveStream, heard: bytes) -> None:
        self._stream = stream
        self._heard = heard

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._heard:
            await trio.lowlevel.checkpoint()
            data, self._heard = self._heard[:max_bytes], self._heard[max_bytes or None :]
            return data
        return bytes(await self._stream.receive_some(max_bytes))

    async def aclose(self) -> None:
        await self._stream.aclose()


class Client:
    """The other end of a connection to a host."""

    def __init__(self, stream: trio.abc.Stream, heard: bytes = b"") -> None:
        self.stream = stream
        self.reader = FrameReader(_Begun(stream, heard), 16 << 20)

    async def send(self, **frame: Any) -> None:
        await self.stream.send_all(encode_frame(frame))

    async def receive(self) -> Frame | None:
        """Return the next frame; None when the host has closed the connection."""
        return await self.reader.receive()

    async def expect(self, kind: str) -> Frame:
        """Return the next frame, which must be of a type."""
        frame = await self.reader.receive()
        assert frame is not None, f"closed before {kind}"
        assert frame["type"] == kind, frame
        return frame

    async def silence(self) -> None:
        """Return when the host has nothing more to do; it must have said nothing."""
        got = []
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def receive() -> None:
                    got.append(await self.reader.receive())

                nursery.start_soon(receive)
                await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
        assert got == []


@dataclass(slots=True)
class Host:
    """A server whose surroundings are played."""

    nursery: trio.Nursery
    stage: Stage
    debts: Debts
    runs: PlayedRuns
    server: HostServer

    def connect(self) -> Client:
        """Return a connection over which nothing has been said."""
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.server.converse, theirs)
        return Client(ours)

    def hello(self) -> Frame:
        """Return what a client says first."""
        return hello(TOKEN, "session", KEY)

    async def attach(self, **more: Any) -> Client:
        """Return a client that was welcomed."""
        client = self.connect()
        await client.send(**(self.hello() | {"cwd": "/src"} | more))
        welcome = await client.expect("welcome")
        assert (welcome["v"], welcome["pinata"]) == (1, "1.2.3")
        return client

    async def has_left(self) -> bool:
        """Whether the host leaves without anything else happening, or a time passing."""
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def wait() -> None:
                    await self.server.wait_left()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
        return not scope.cancelled_caught


async def at_home() -> Sequence[str]:
    """Find nothing to look after."""
    await trio.lowlevel.checkpoint()
    return ()


@asynccontextmanager
async def played_host(
    stage: Stage | None = None,
    *,
    owed: Sequence[Settled] = (),
    come_home: Any = at_home,
    models: HostModels | None = None,
    show: Show = show_nothing,
) -> AsyncIterator[Host]:
    """Have a host inside the block."""
    stage, debts, runs = stage or Stage(), Debts(list(owed)), PlayedRuns()
    terms = Terms(KEY, TOKEN, "1.2.3", ({"name": "pinata_fly"},), stage, debts)
    terms = replace(terms, models=models or HostModels(), show=show)
    async with (
        open_server(terms, runs, come_home) as server,
        trio.open_nursery() as nursery,
    ):
        yield Host(nursery, stage, debts, runs, server)
        nursery.cancel_scope.cancel()
