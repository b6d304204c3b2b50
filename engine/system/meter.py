"""Who wants to know what the programs of a run use, while they run and at their end.

Here programs are handed to whoever measures those of their mark; reading what they use is in
`engine.system.resources`, which nobody loads who does not measure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from engine.system.identity import ProcessIdentity


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was started under a mark.

    Attributes:
        mark: `<token of the run>/<label>`.
        call: what tells it and all that it starts from other programs; see PINATA_CALL.
        leader: the process that was started.
    """

    mark: str
    call: str
    leader: ProcessIdentity

    @property
    def label(self) -> str:
        """The mark without the token."""
        return self.mark.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Resources:
    """What a program and all that it started use.

    Attributes:
        cpu_s: seconds of computing so far, those of children that have ended included.
        memory_bytes: resident now; what several processes share counts for each of them.
        processes: alive now.
        read_bytes, written_bytes: from and to storage so far; None where the kernel does not tell.
    """

    cpu_s: float = 0.0
    memory_bytes: int = 0
    processes: int = 0
    read_bytes: int | None = None
    written_bytes: int | None = None

    def plus(self, other: "Resources") -> "Resources":
        """Return what both use together."""
        return Resources(
            self.cpu_s + other.cpu_s,
            self.memory_bytes + other.memory_bytes,
            self.processes + other.processes,
            _sum(self.read_bytes, other.read_bytes),
            _sum(self.written_bytes, other.written_bytes),
        )

    def followed_by(self, later: "Resources") -> "Resources":
        """Return `later`, where what was used once stays used.

        A process that lost its parents takes its numbers with it when it dies.
        """
        return Resources(
            max(self.cpu_s, later.cpu_s),
            later.memory_bytes,
            later.processes,
            _larger(self.read_bytes, later.read_bytes),
            _larger(self.written_bytes, later.written_bytes),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


def _larger(one: int | None, other: int | None) -> int | None:
    return other if one is None else max(one, other or 0)


class Meter(Protocol):
    """Measures the programs of one run."""

    def began(self, program: Program) -> None:
        """A program was started; called on the loop."""
        ...

    async def ended(self, program: Program) -> None:
        """A program has ended and is not collected yet, so /proc still tells what it used."""
        ...


_meters: dict[str, Meter] = {}


@contextmanager
def measure_programs(token: str, meter: Meter) -> Iterator[None]:
    """Inside the block, hand every program to `meter` whose mark begins with `token` and a slash.

    One block per token at a time.
    """
    assert token not in _meters
    _meters[token] = meter
    try:
        yield
    finally:
        del _meters[token]


def begin(program: Program | None) -> None:
    """Hand a program that was just started to whoever measures it, if anybody does."""
    if program is not None and (meter := _meter_of(program)) is not None:
        meter.began(program)


async def end(program: Program | None) -> None:
    """Say that a program has ended, before it is collected."""
    if program is not None and (meter := _meter_of(program)) is not None:
        await meter.ended(program)


def _meter_of(program: Program) -> Meter | None:
    return _meters.get(program.mark.partition("/")[0])
