"""A client of a host that lends models as Pi's extension does; its models are played."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

from agents.models.coordinator import CoordinatedModel, Listing
from agents.models.port import AnswerPiece, UserMessage
from agents.models.routes import unknown_price
from engine.core.spec import Thinking
from engine.records.host import hello
from pinata.work.host_models import HostModels
from tests.support.hosts import KEY, TOKEN, Client, Frame, Host

PROVIDER, MODEL = "acme", "m1"
END: Frame = {"type": "end", "reason": "stop", "usage": {"input": 7, "output": 3, "cost": 0.5}}


def text(said: str) -> Frame:
    """Return a piece of text."""
    return {"type": "text", "text": said}


@dataclass
class Lender:
    """What a client was asked, and the way to answer it.

    Attributes:
        client: the other end of the host's connection.
        listing: what it says of every model.
        streams: the requests that were opened and neither ended nor were aborted, by number.
        asked: of those, how many frames the host is owed.
        aborted: the numbers of those that nobody waits for any more.
    """

    client: Client
    listing: Mapping[str, Any] = field(default_factory=lambda: {"hasPrice": True})
    streams: dict[int, Frame] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    aborted: list[int] = field(default_factory=list)
    is_welcome: trio.Event = field(default_factory=trio.Event)
    _changed: trio.Event = field(default_factory=trio.Event)

    async def listen(self) -> None:
        """Take what the host asks, until it goes."""
        while (frame := await self.client.receive()) is not None:
            await self._take(frame)
            self._changed.set()
            self._changed = trio.Event()

    async def opened(self, count: int = 1) -> list[int]:
        """Return the numbers of the open streams as soon as there are so many."""
        while len(self.streams) < count:
            await self._changed.wait()
        return list(self.streams)

    async def wait_asked(self, number: int) -> None:
        """Return when the host asks for a frame of a stream."""
        while not self.asked.get(number):
            await self._changed.wait()

    async def wait_aborted(self, number: int) -> None:
        """Return when nobody waits for a stream any more."""
        while number not in self.aborted:
            await self._changed.wait()

    async def say(self, number: int, *pieces: Frame) -> None:
        """Send the next frame of a stream, as soon as the host asks for it."""
        await self.wait_asked(number)
        self.asked[number] -= 1
        await self.push(number, *pieces)

    async def push(self, number: int, *pieces: Frame) -> None:
        """Send a frame of a stream, asked for or not."""
        await self.client.send(type="pieces", request=number, pieces=list(pieces))

    async def _take(self, frame: Frame) -> None:
        number = frame.get("request", 0)
        match frame["type"]:
            case "welcome":
                self.is_welcome.set()
            case "find_model":
                await self.client.send(type="model", request=number, **self.listing)
            case "stream":
                self.streams[number] = frame
                self.asked[number] = 1
            case "more":
                self.asked[number] += 1
            case "abort":
                self.aborted.append(number)
                del self.streams[number]


@asynccontextmanager
async def lent(host: Host, **listing: Any) -> AsyncIterator[Lender]:
    """Have a client attached that lends models inside the block."""
    lender = Lender(host.connect(), listing or {"hasPrice": True})
    await lender.client.send(**hello(TOKEN, "session", KEY), lendsModels=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lender.listen)
        await lender.is_welcome.wait()
        yield lender
        nursery.cancel_scope.cancel()
    await lender.client.stream.aclose()


def lent_model(models: HostModels) -> CoordinatedModel:
    """Return a model that whoever is attached is asked for."""
    name, listing = (PROVIDER, MODEL), Listing(None, has_price=True)
    return CoordinatedModel(models, name, Thinking.OFF, listing, unknown_price)


async def heard(models: HostModels) -> list[AnswerPiece]:
    """Return the pieces of one answer."""
    async with lent_model(models).stream("", [UserMessage("go")], ()) as pieces:
        return [piece async for piece in pieces]
