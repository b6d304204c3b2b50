"""The agents of a session's host, as its server knows them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Protocol

import trio

from pinata.work.host_owner import OwnerFrame
from pinata.work.host_seat import Seat


class HostHerd(Protocol):
    """The agents that a host's session owns."""

    def attached(self, seat: Seat, *, owns_agents: bool) -> AbstractContextManager[None]:
        """Have a client attached inside the block; one that was attached before is no longer.

        Args:
            seat: the client.
            owns_agents: whether it understands what `engine.records.host_owner` asks.
        """
        ...

    def told(self, frame: OwnerFrame) -> None:
        """Take what the attached client says of its session."""
        ...

    async def instructions(self, seat: Seat) -> str | None:
        """Return what a client's model should know of agents from the start."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether no agent of this process has an assignment that is not finished."""
        ...

    async def wait_idle(self) -> None:
        """Return when none has."""
        ...

    async def wait_told(self) -> None:
        """Return when nothing comes any more that the session could still be told by itself."""
        ...


class NoHerd:
    """No agents."""

    @contextmanager
    def attached(self, seat: Seat, *, owns_agents: bool) -> Iterator[None]:
        """See `HostHerd`."""
        yield

    def told(self, frame: OwnerFrame) -> None:
        """See `HostHerd`."""

    async def instructions(self, seat: Seat) -> str | None:
        """See `HostHerd`."""
        await trio.lowlevel.checkpoint()
        return None

    @property
    def is_idle(self) -> bool:
        """See `HostHerd`."""
        return True

    async def wait_idle(self) -> None:
        """See `HostHerd`."""
        await trio.lowlevel.checkpoint()

    async def wait_told(self) -> None:
        """See `HostHerd`."""
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def no_herd() -> AsyncIterator[HostHerd]:
    """Have no agents inside the block."""
    yield NoHerd()
