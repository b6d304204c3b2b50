"""The herd of a session's host: the session as owner, its agents, and what goes on by itself."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from agents.herdsman.caller import Caller
from agents.herdsman.controller import Controller
from agents.herdsman.endings import Endings
from agents.herdsman.errors import not_found
from agents.herdsman.identity import GenerationId, SessionId
from agents.herdsman.instructions import instructions
from agents.herdsman.keeper import keep
from agents.herdsman.launches import end_orphans, stamp
from agents.herdsman.listing import agent_records
from agents.herdsman.look import Look, look
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.projection import is_done
from agents.herdsman.signals import ANYTHING
from engine.core.errors import PinataError
from engine.system.bell import Bell
from engine.system.identity import identify
from engine.system.nursery import open_flat_nursery
from pinata.work.context import Context
from pinata.work.herd_members import AgentTools, Attendants
from pinata.work.herd_place import Place, current_roster, find_ground, premises_of
from pinata.work.herd_quiet import is_at_work, untold
from pinata.work.herd_runtime import FindWay, HerdRuntime
from pinata.work.herd_strangers import owner_away
from pinata.work.host_models import HostModels
from pinata.work.host_owner import LeadSession, OwnerFrame
from pinata.work.host_seat import Seat

# Shows a session its agents, given as `agent_list` tells of them.
Show = Callable[[Sequence[Mapping[str, Any]]], None]
# Between two looks; more often nobody can follow.
PAUSE_S: Final = 0.25
TELLING_S: Final = 5.0
# Between two attempts to find out where the session stands.
FIRST_ATTEMPT_S: Final = 1.0
LAST_ATTEMPT_S: Final = 30.0
_log = logging.getLogger(f"pinata.{__name__}")


def show_nobody(_: Sequence[Mapping[str, Any]]) -> None:
    """Show no agents."""


class Herd:
    """The agents of one session; a `HostHerd`."""

    def __init__(
        self,
        context: Context,
        session: SessionId,
        models: HostModels,
        tools: AgentTools,
        runtime: HerdRuntime,
        show: Show,
    ) -> None:
        """Begin without a client; `open_herd` says what the arguments are."""
        self._show = show
        self._context = context
        self._models = models
        self._tools = tools
        self._runtime = runtime
        self._premises = runtime.premises
        self._lead = LeadSession(session)
        self._place: Place | None = None
        self._moved = Bell()
        self._controllers: dict[Place, Controller] = {}
        self._making = trio.Lock()
        self._attendants: list[Attendants] = []
        self._endings = Endings()
        # Agents whose assignments are known to be over; of any other nobody knows that yet.
        self._done: frozenset[GenerationId] = frozenset()
        self._has_looked = Bell()
        self._listener = self._premises.signals.listen(ANYTHING)

    @contextmanager
    def attached(self, seat: Seat, *, owns_agents: bool) -> Iterator[None]:
        """See `HostHerd`."""
        with self._lead.attached(seat.send, owns_agents=owns_agents):
            place = Place(seat.cwd, seat.trust)
            if place != self._place:
                self._place = place
                self._moved.ring()
                self._listener.hear()
            yield

    def told(self, frame: OwnerFrame) -> None:
        """See `HostHerd`."""
        self._lead.told(frame)

    async def instructions(self, seat: Seat) -> str | None:
        """See `HostHerd`."""
        try:
            controller = await self.controller(Place(seat.cwd, seat.trust))
            return instructions(await controller.roster(), controller.caller)
        except PinataError as error:
            _log.warning("the session is told nothing of agents: %s", error)
            return None

    @property
    def is_idle(self) -> bool:
        """See `HostHerd`."""
        return self._runtime.generations <= self._done and not self._endings.is_delivering

    async def wait_idle(self) -> None:
        """See `HostHerd`."""
        while not self.is_idle:
            await self._has_looked.wait()
        await trio.lowlevel.checkpoint()

    async def wait_told(self) -> None:
        """See `HostHerd`."""
        place = self._place
        if place is None:
            await trio.lowlevel.checkpoint()
            return
        caller = (await self.controller(place)).caller
        listener = self._premises.signals.listen(ANYTHING)
        try:
            while is_at_work(await self._look(), caller):
                await listener.wait()
            # A client that tells nobody for so long will not do it later.
            with trio.move_on_after(TELLING_S):
                # Taken first: what is sent while it is looked is heard of, too.
                sent = self._lead.sent
                while await self._is_untold(caller):
                    await sent.wait()
                    sent = self._lead.sent
        finally:
            self._premises.signals.leave(ANYTHING, listener)

    async def _is_untold(self, caller: Caller) -> bool:
        """Return whether the session is to be told something that its client was not sent."""
        try:
            entries = await self._lead.entries()
        except OwnerAwayError:
            return False
        return untold(await self._look(), caller, entries) > self._lead.being_told

    async def _look(self) -> Look:
        return await look(self._premises, self._runtime)

    async def controller(self, place: Place) -> Controller:
        """Return the session as it calls from somewhere.

        Raises:
            PinataError: that is no place to call from.
        """
        async with self._making:
            if place not in self._controllers:
                self._controllers[place] = await self._controller(place)
            # What there is can be shown only as somebody sees it.
            self._listener.hear()
        found = self._controllers[place]
        return replace(found, caller=replace(found.caller, model=self._models.preferred))

    async def owner(self, session: SessionId, place: Place) -> Controller:
        """Return the session, or one of its agents, as the owner of agents.

        Those of an agent that is gone, or that never owned any here, are still its own: a person
        can look at them and close them.

        Raises:
            HerdError: it is neither; TARGET_NOT_FOUND.
        """
        if session == self._lead.session:
            return await self.controller(place)
        for attendants in self._attendants:
            if session in attendants.controllers:
                return attendants.controllers[session]
        lead = await self.controller(place)
        for one in (await self._look()).view(lead.caller):
            if one.contents.state.session == session:
                return owner_away(lead, one.contents.state)
        raise not_found("the agent that this one works for is not there")

    async def _controller(self, place: Place) -> Controller:
        ground = await find_ground(self._context, place)
        roster = partial(current_roster, self._context, ground)
        stated = self._context.environment.get("HOME")
        home, agent_dir = None if stated is None else Path(stated), self._context.agent_dir
        attendants = Attendants(
            premises=self._premises,
            runtime=self._runtime,
            tools=self._tools,
            home=home,
            agent_dir=agent_dir,
            preferred=lambda: self._models.preferred,
            roster=roster,
        )
        self._attendants.append(attendants)
        return Controller(
            premises=self._premises,
            runtime=self._runtime,
            owner=self._lead,
            caller=Caller(self._lead.session, str(ground.workspace), str(ground.cwd), is_lead=True),
            roster=roster,
            attendant=attendants.attendant,
            agent_dir=agent_dir,
            home=home,
            endings=self._endings,
        )

    async def run(self) -> None:
        """Do what goes on by itself; never returns."""
        try:
            await end_orphans(self._premises)
        except Exception:  # noqa: BLE001 - our agents do not depend on what others left
            _log.exception("what dead hosts started may be left")
        async with open_flat_nursery() as nursery:
            nursery.start_soon(self._watch)
            while True:
                moved, place = self._moved.next, self._place
                async with open_flat_nursery() as keeping:
                    if place is not None:
                        keeping.start_soon(self._keep, place)
                    await moved.wait()
                    keeping.cancel_scope.cancel()

    async def _keep(self, place: Place) -> None:
        """Look after the agents; never returns."""
        await keep(await self._insist(place))

    async def _insist(self, place: Place) -> Controller:
        """Return the session as it calls from somewhere, once that can be told."""
        pause_s, reported = FIRST_ATTEMPT_S, ""
        while True:
            try:
                return await self.controller(place)
            except PinataError as error:
                if str(error) != reported:
                    reported = str(error)
                    _log.warning("agents are not looked after from %s: %s", place.cwd, error)
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_ATTEMPT_S)

    async def _watch(self) -> None:
        """Keep up to date which agents have an assignment, and what is shown of all."""
        self._listener.hear()
        while True:
            await self._listener.wait()
            try:
                self._saw(await self._look())
            except PinataError as error:
                _log.warning("it cannot be told which agents there are: %s", error)
            except Exception:  # noqa: BLE001 - the host goes on; the next look may well succeed
                _log.exception("it cannot be told which agents there are, by a fault of pinata")
            self._has_looked.ring()
            # One after the other, however much happens; at rest nothing does.
            await trio.sleep(PAUSE_S)

    def _saw(self, seen: Look) -> None:
        own, states = self._runtime.generations, [one.state for one in seen.scan.contents]
        self._done = frozenset(
            one.of.generation for one in states if one.of.generation in own and is_done(one)
        )
        found = None if self._place is None else self._controllers.get(self._place)
        if found is not None:
            self._show(agent_records(seen, found.caller, self._endings.left_over))


@asynccontextmanager
async def open_herd(
    context: Context,
    session: SessionId,
    models: HostModels,
    *,
    tools: AgentTools,
    find_way: FindWay,
    show: Show = show_nobody,
) -> AsyncIterator[Herd]:
    """Have a session's herd inside the block; on leaving it, all agents of this process end.

    Args:
        context: of the host.
        session: whose herd; its lock is held.
        models: what the session works with.
        tools: makes those by which agents delegate.
        find_way: finds how an agent can be run.
        show: told of the session's agents whenever something has changed; see `Show`.

    Raises:
        UsageError: the environment names no place for the herd's data.
    """
    premises = premises_of(context)
    own = await trio.to_thread.run_sync(identify, os.getpid())
    assert own is not None
    async with open_flat_nursery() as nursery:
        runtime = HerdRuntime(premises, find_way, stamp(own), nursery)
        herd = Herd(context, session, models, tools, runtime, show)
        nursery.start_soon(herd.run)
        try:
            yield herd
        finally:
            nursery.cancel_scope.cancel()
