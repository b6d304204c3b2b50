"""An owner with agents over many lives of their process, each of which ends when it will.

    history = Book()
    async with open_life(folder, history, number=1) as life:
        await life.delegate("a1")
        ...
    async with open_life(folder, history, number=2) as life:
        await life.revive()

The agents have their own half of the herd, and go on in their sessions when they are revived, as
agents do that outlive the process that started them. What the owner holds outlives all.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agents.herd_definition import HerdDefinition
from agents.herdsman.birth import Birth
from agents.herdsman.closing import close
from agents.herdsman.controller import Controller
from agents.herdsman.controls import steer
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import HerdError
from agents.herdsman.keeper import keep
from agents.herdsman.record import Contents, State
from agents.herdsman.scan import scan
from tests.support.deaths import Died
from tests.support.herd_desks import Desk, open_desk
from tests.support.herd_records import LEAD
from tests.support.herd_talk import Turn
from tests.support.herd_told import Book, telling

# How long an agent works.
WORK_S = 0.3


@dataclass
class Life:
    """One life of the process.

    Attributes:
        controller: of the owner.
    """

    desk: Desk
    book: Book
    nursery: trio.Nursery
    controller: Controller = field(init=False)
    _keeping: trio.CancelScope = field(default_factory=trio.CancelScope)

    def __post_init__(self) -> None:
        self.controller = telling(self.desk.controller(), self.book)

    def begin(self, controller: Controller) -> None:
        """Have the owner call with another controller from now on, and be looked after with it."""
        self.controller = telling(controller, self.book)
        self.keep()

    def keep(self) -> None:
        """Have the owner's side do what it does by itself, from the beginning."""
        self._keeping.cancel()
        self._keeping = trio.CancelScope()
        self.nursery.start_soon(self._keep, self._keeping)

    async def _keep(self, scope: trio.CancelScope) -> None:
        with scope:
            await keep(self.controller)

    async def delegate(self, label: str) -> str | None:
        """Delegate to a new agent, whose model answers once; return the task, if it took it."""
        self._play(label)
        with suppress(HerdError):
            answer = await delegate(
                self.controller, definition="scout", task=f"task {label}", label=label, files=()
            )
            return str(answer["request_id"])
        return None

    async def steer(self, which: int) -> None:
        """Correct one of the agents; a refusal is an answer."""
        labels = await self.desk.labels()
        if labels:
            label = labels[which % len(labels)]
            self._play(label)
            with suppress(HerdError):
                await steer(self.controller, agent=label, message="go on", files=())

    async def contents(self) -> tuple[Contents, ...]:
        """Return all mailboxes."""
        found = await scan(self.desk.premises)
        assert not found.unreadable
        return found.contents

    async def kill(self, which: int) -> None:
        """End one of the agents that are there."""
        here = [agent for agent in self.desk.runtime.agents if not agent.is_gone.is_set()]
        if here:
            await self.desk.runtime.kill(here[which % len(here)])

    async def revive(self) -> None:
        """Let all agents go on that are not there."""
        here = {
            agent.identity.of.generation
            for agent in self.desk.runtime.agents
            if not agent.is_gone.is_set()
        }
        for one in await self.contents():
            if one.state.of.generation not in here:
                self._play(one.state.of.label)
                self.desk.runtime.revive(one.state, self.desk.member(birth_of(one.state)))
        self.ring()

    def ring(self) -> None:
        """Wake the owner's side for nothing."""
        self.desk.premises.signals.ring(LEAD)

    async def settle(self) -> None:
        """Let everybody do what there is to do, for a long time."""
        await trio.sleep(120)

    async def states(self) -> list[State]:
        """Return the states of all agents."""
        return [one.state for one in await self.contents()]

    async def close_all(self) -> None:
        """Close all agents that are left; none may have a result, which is to be delivered."""
        for one in await self.contents():
            assert not one.results, one
            await close(self.controller, agent=one.state.of.label)

    def _play(self, label: str) -> None:
        self.desk.runtime.script(label).play(Turn(f"result of {label}", takes_s=WORK_S))


def birth_of(state: State) -> Birth:
    """Return what an agent was started with, as far as its own half needs that."""
    of = state.of
    return Birth(
        generation=of.generation,
        owner=of.owner,
        workspace=of.workspace,
        label=of.label,
        cwd=state.cwd,
        definition=HerdDefinition(state.definition, "", "", ()),
        is_delegating=False,
    )


@asynccontextmanager
async def open_life(folder: Path, book: Book, *, number: int) -> AsyncIterator[Life]:
    """Have one life inside the block; the process can die in it, which ends the block silently.

    Args:
        folder: of all that lasts.
        book: what the owner holds.
        number: of the life, from 1.
    """
    try:
        async with open_desk(folder) as desk, trio.open_nursery() as nursery:
            desk.runtime.handle_prefix = f"life-{number}-"
            life = Life(desk, book, nursery)
            life.keep()
            yield life
            nursery.cancel_scope.cancel()
    except* Died:
        pass
