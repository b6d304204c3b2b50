"""The life of a host, as a pure function of what happens to it and when.

    attached --- client gone, or goodbye but for good ---> away, with a deadline
        ^                                                    |
        |<------------------- a client attaches -------------+
        |                                                    | the deadline has passed
        |<-- a client attaches --- leaving <-----------------+
        |                            ^  |
        +--- goodbye for good -------+  +--- nothing is under way ---> gone

On the way into `leaving`, what does not survive its session is cancelled; what survives keeps the
host there. A signal ends it from anywhere.
"""

import enum
from dataclasses import dataclass
from typing import Final, assert_never

# How long a session may be away before what does not survive it is cancelled.
GRACE_S: Final = 60.0


class Phase(enum.Enum):
    """How a host stands."""

    ATTACHED = "attached"
    AWAY = "away"
    LEAVING = "leaving"
    GONE = "gone"


class Goodbye(enum.Enum):
    """Why a client says that it goes."""

    QUIT = "quit"
    RELOAD = "reload"
    NEW = "new"
    RESUME = "resume"
    FORK = "fork"


@dataclass(frozen=True, slots=True)
class Attached:
    """A client has shown that it is the session's."""

    client: int


@dataclass(frozen=True, slots=True)
class Left:
    """A client has gone.

    Attributes:
        goodbye: what it said about that; None when it just went.
    """

    client: int
    goodbye: Goodbye | None


@dataclass(frozen=True, slots=True)
class Looked:
    """Time has passed, or work has ended."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Somebody ends the host."""


Event = Attached | Left | Looked | Stopped


@dataclass(frozen=True, slots=True)
class Displace:
    """Tell a client that another one has taken its place, and let it go."""

    client: int


@dataclass(frozen=True, slots=True)
class CancelWork:
    """Cancel what does not survive its session."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """End everything that is left, and the host."""


Act = Displace | CancelWork | Leave


@dataclass(frozen=True, slots=True)
class Life:
    """How a host stands.

    Attributes:
        client: who is attached.
        away_until_s: when `leaving` begins unless somebody attaches; in `away` alone.
    """

    phase: Phase
    client: int | None = None
    away_until_s: float | None = None


def begin(now_s: float) -> Life:
    """Return the life of a new host: whoever started it has yet to attach."""
    return Life(Phase.AWAY, away_until_s=now_s + GRACE_S)


def advance(life: Life, event: Event, now_s: float, *, busy: bool) -> tuple[Life, tuple[Act, ...]]:
    """Return the life after `event`, and what to do about it.

    Args:
        life: before.
        event: any, in any phase; what has no meaning there changes nothing.
        now_s: a time that never goes back.
        busy: whether anything is under way: a call, a run, a homecoming.
    """
    if life.phase is Phase.GONE:
        return life, ()
    match event:
        case Attached(client):
            return Life(Phase.ATTACHED, client), _displaced(life)
        case Left(client, goodbye):
            return _left(life, client, goodbye, now_s, busy=busy)
        case Looked():
            return _looked(life, now_s, busy=busy)
        case Stopped():
            return Life(Phase.GONE), (Leave(),)
        case _:
            assert_never(event)


def _displaced(life: Life) -> tuple[Act, ...]:
    return () if life.client is None else (Displace(life.client),)


def _left(
    life: Life, client: int, goodbye: Goodbye | None, now_s: float, *, busy: bool
) -> tuple[Life, tuple[Act, ...]]:
    if client != life.client:
        return life, ()
    if goodbye is Goodbye.QUIT:
        return _leaving("the session has ended", busy=busy)
    return Life(Phase.AWAY, away_until_s=now_s + GRACE_S), ()


def _looked(life: Life, now_s: float, *, busy: bool) -> tuple[Life, tuple[Act, ...]]:
    if life.phase is Phase.LEAVING and not busy:
        return Life(Phase.GONE), (Leave(),)
    if life.away_until_s is not None and now_s >= life.away_until_s:
        return _leaving(f"the session has been away for {GRACE_S:g} s", busy=busy)
    return life, ()


def _leaving(reason: str, *, busy: bool) -> tuple[Life, tuple[Act, ...]]:
    if busy:
        return Life(Phase.LEAVING), (CancelWork(reason),)
    return Life(Phase.GONE), (Leave(),)
