"""The runs that this process owns: they go on beside each other and outlive the calls for them."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import trio

from agents.traffic import Traffic
from engine.core.errors import ConflictError
from engine.core.ids import RunId
from engine.system.bell import Bell
from engine.system.nursery import open_flat_nursery
from pinata.work.link import Links, open_links
from pinata.work.observer import Both, NoOnlooker, Observer, Onlooker, Silence
from pinata.work.owned_run import OwnedRun, Work
from pinata.work.shown import RunCache

Announce = Callable[[OwnedRun], Awaitable[None]]
_log = logging.getLogger(f"pinata.{__name__}")


class Runtime:
    """What has one run go on beside the others; nothing that befalls one ends another.

    Attributes:
        traffic: shared by the agents of all runs.
        cache: what this process remembers of runs that it showed.
        links: lets other processes reach the runs.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        traffic: Traffic,
        announce: Announce,
        links: Links,
        onlooker: Onlooker,
    ) -> None:
        """Begin without a run; `open_runtime` says what the arguments are."""
        self.traffic = traffic
        self.links = links
        self.cache = RunCache()
        self._nursery = nursery
        self._announce = announce
        self._onlooker = onlooker
        self._under_way: list[OwnedRun] = []
        self._failures: dict[RunId, str] = {}
        self._unsettled: set[RunId] = set()
        self._closed_because: str | None = None
        self._is_idle = trio.Event()
        self._is_idle.set()
        self._has_ended = Bell()

    def start(self, observer: Observer, work: Work) -> OwnedRun:
        """Begin the work of a call that carries a run, for somebody who waits for its answer.

        Args:
            observer: hears of the run.
            work: carries it, and tells the observer that it is given.

        Raises:
            ConflictError: this process is ending.
        """
        return self._start(observer, work)

    def start_in_background(self, work: Work) -> OwnedRun:
        """Begin such work for somebody who is told when it has ended.

        Raises:
            ConflictError: this process is ending.
        """
        return self._start(Silence(), work, is_in_background=True)

    def _start(self, observer: Observer, work: Work, *, is_in_background: bool = False) -> OwnedRun:
        if self._closed_because is not None:
            raise ConflictError(f"no new run: {self._closed_because}")
        seen_by = self._onlooker.begin()
        owned = OwnedRun(Both(observer, seen_by), is_in_background=is_in_background)
        self._under_way.append(owned)
        self._is_idle = trio.Event()
        self._nursery.start_soon(self._carry, owned, work, seen_by)
        return owned

    def find(self, run: RunId) -> OwnedRun | None:
        """Return a run that this process owns at the moment."""
        return next((each for each in self._under_way if each.id == run), None)

    @property
    def runs(self) -> frozenset[RunId]:
        """The runs that this process owns at the moment."""
        return frozenset(each.id for each in self._under_way if each.id is not None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    async def wait_idle(self) -> None:
        """Return when nothing is under way."""
        while self._under_way:
            await self._is_idle.wait()
        await trio.lowlevel.checkpoint()

    async def wait_mortal(self) -> None:
        """Return when nothing is under way but what survives its session."""
        while any(not owned.survives for owned in self._under_way):
            await self._has_ended.wait()
        await trio.lowlevel.checkpoint()

    def cancel_mortal(self, reason: str) -> None:
        """Ask the runs to end that do not survive their session; returns at once."""
        for owned in self._under_way:
            if not owned.survives:
                owned.request_cancel(reason)

    def failure(self, run: RunId) -> str | None:
        """Return why a run broke off in this process, if its last call did."""
        return self._failures.get(run)

    @property
    def broken_off(self) -> Mapping[RunId, str]:
        """Why runs broke off in this process that have not settled here, or gone on, since."""
        under_way = self.runs
        return {run: self._failures[run] for run in self._unsettled if run not in under_way}

    def _note_end(self, owned: OwnedRun, run: RunId) -> None:
        self._failures.pop(run, None)
        self._unsettled.discard(run)
        if owned.failure is not None:
            self._failures[run] = str(owned.failure)
            _log.warning("run %s broke off: %s", run, owned.failure)
            if not owned.has_settled:
                self._unsettled.add(run)

    async def _carry(self, owned: OwnedRun, work: Work, seen_by: Observer) -> None:
        try:
            await owned.carry(work)
            if owned.id is not None:
                self._note_end(owned, owned.id)
        finally:
            self._under_way.remove(owned)
            self._onlooker.end(seen_by)
            self._has_ended.ring()
            if not self._under_way:
                self._is_idle.set()
        if not owned.is_awaited and owned.id is not None:
            await self._tell(owned)

    async def _tell(self, owned: OwnedRun) -> None:
        try:
            await self._announce(owned)
        except Exception:  # noqa: BLE001 - whoever is told must not end the other runs
            _log.exception("run %s: its end could not be announced", owned.id)

    async def close(self, reason: str) -> None:
        """Start no more runs, ask those under way to end, and wait until they have."""
        self._closed_because = self._closed_because or reason
        for owned in self._under_way:
            owned.request_cancel(reason)
        await self._is_idle.wait()


async def _nobody(_: OwnedRun) -> None:
    """Announce nothing."""


@asynccontextmanager
async def open_runtime(
    traffic: Traffic,
    *,
    leaving: str,
    announce: Announce = _nobody,
    onlooker: Onlooker | None = None,
) -> AsyncIterator[Runtime]:
    """Own runs inside the block; on leaving it, they are cancelled and waited for.

    A cancel from outside ends them at once and leaves their logs as they stand; whoever takes such
    a run over closes it.

    Args:
        traffic: shared by the agents of all runs.
        leaving: why runs are cancelled that are under way at the end, for their records.
        announce: told of each run that was opened, once it has ended, unless somebody waits for its
            answer: those in the background, and those that were given up.
        onlooker: watches all runs; nobody does without.
    """
    async with open_links() as links, open_flat_nursery() as nursery:
        runtime = Runtime(nursery, traffic, announce, links, onlooker or NoOnlooker())
        try:
            yield runtime
        finally:
            await runtime.close(leaving)
