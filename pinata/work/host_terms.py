"""What a host's server is given: what it serves, and the runs that go on beside it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.core.ids import RunId
from pinata.work.host_calls import Perform, TextOf, as_it_is
from pinata.work.host_delivery import Owed
from pinata.work.host_herd import HostHerd, NoHerd
from pinata.work.host_models import HostModels
from pinata.work.host_seat import Send, show_nothing

Show = Callable[[Send], Awaitable[None]]


class Runs(Protocol):
    """The runs of the host's process."""

    @property
    def is_idle(self) -> bool:
        """Whether none is under way."""
        ...

    @property
    def broken_off(self) -> Mapping[RunId, str]:
        """Why runs broke off that have not gone on since."""
        ...

    async def wait_idle(self) -> None:
        """Return when none is under way."""
        ...

    async def wait_mortal(self) -> None:
        """Return when none is under way that ends with its session."""
        ...

    def cancel_mortal(self, reason: str) -> None:
        """Ask those to end that do not survive their session."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What a server serves, and with what.

    Attributes:
        session: the key of its session.
        token: what a client must show.
        version: of this program.
        tools: described, as clients are told of them.
        perform: carries out calls.
        owed: what the session has still to be told.
        show: keeps what a client shows of the work up to date; never returns.
        models: those that clients lend.
        herd: the agents of its session.
        text_of: what models read of answers.
        asked: called whenever somebody asks for something, or a run has ended.
    """

    session: str
    token: str
    version: str
    tools: Sequence[Mapping[str, Any]]
    perform: Perform
    owed: Owed
    show: Show = show_nothing
    models: HostModels = field(default_factory=HostModels)
    herd: HostHerd = field(default_factory=NoHerd)
    text_of: TextOf = as_it_is
    asked: Callable[[], None] = lambda: None
