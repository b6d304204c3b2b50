"""Agents of owners that nobody speaks for, as far as files and processes tell of them."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import trio

from agents.herdsman.birth import Birth
from agents.herdsman.caller import Caller
from agents.herdsman.controller import Controller
from agents.herdsman.errors import HerdError, not_found
from agents.herdsman.identity import Identity, SessionId
from agents.herdsman.launches import is_alive
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.record import ProcessStamp, Proof, State
from agents.herdsman.runtime import (
    Conversation,
    Entry,
    ForegroundProcess,
    Inventory,
    Launch,
    Message,
    Preparation,
    Slot,
)


def slots_of(states: Sequence[State], own: ProcessStamp | None) -> list[Slot]:
    """Return where generations that this process does not run may still be; blocks.

    Args:
        states: of the generations.
        own: this process, which knows that it runs none of them; None where it is no host.

    Raises:
        ExternalError: it cannot be told now what runs.
    """
    return [Slot(one.handle, one.session) for one in states if _may_be_there(one.proof, own)]


def _may_be_there(proof: Proof, own: ProcessStamp | None) -> bool:
    if proof.child is not None and is_alive(proof.child):
        return True
    return proof.host != own and is_alive(proof.host)


class NoRuntime:
    """Runs no agents; a `Runtime` for whoever looks, or clears up after those that are lost."""

    async def prepare(self, launch: Launch) -> Preparation:
        """See `Runtime`."""
        raise self._refusal(launch.birth.label)

    async def inventory(self, states: Sequence[State]) -> Inventory:
        """See `Runtime`."""
        slots = await trio.to_thread.run_sync(slots_of, states, None)
        return Inventory((), tuple(slots))

    async def stop(self, identity: Identity) -> None:
        """See `Runtime`."""
        raise self._refusal(identity.of.label)

    async def capture(self, identity: Identity) -> Sequence[str]:
        """See `Runtime`."""
        raise self._refusal(identity.of.label)

    async def processes(self, identity: Identity) -> Sequence[ForegroundProcess]:
        """See `Runtime`."""
        raise self._refusal(identity.of.label)

    def conversation(self, identity: Identity) -> Conversation | None:
        """See `Runtime`."""
        return None

    def _refusal(self, label: str) -> HerdError:
        return not_found(f"no host runs the agent {label}")


def owner_away(lead: Controller, state: State) -> Controller:
    """Return an agent that nobody speaks for as the owner of those that it has started.

    Args:
        lead: the session that it works for, or worked for.
        state: of the agent.
    """
    of = state.of
    return Controller(
        premises=lead.premises,
        runtime=lead.runtime,
        owner=AwayOwner(state.session),
        caller=Caller(state.session, of.workspace, state.cwd, is_lead=False, allowed=frozenset()),
        roster=lead.roster,
        attendant=no_attendant,
        agent_dir=lead.agent_dir,
        home=lead.home,
    )


def no_attendant(_: Birth) -> NoReturn:
    """Be what makes the agents' halves for those who start none."""
    raise AssertionError("nobody starts an agent from here")


class AwayOwner:
    """A session that nobody speaks for; an `OwnerSession`."""

    def __init__(self, session: SessionId) -> None:
        """Take the session's id."""
        self._session = session

    @property
    def session(self) -> SessionId:
        """See `OwnerSession`."""
        return self._session

    @property
    def is_idle(self) -> bool:
        """See `OwnerSession`."""
        return False

    async def wait_changed(self) -> None:
        """See `OwnerSession`."""
        await trio.sleep_forever()

    async def entries(self) -> Sequence[Entry]:
        """See `OwnerSession`."""
        await self._refuse()

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """See `OwnerSession`."""
        await self._refuse()

    async def tell(self, key: str, message: Message, *, only_if_idle: bool) -> bool:
        """See `OwnerSession`."""
        await self._refuse()

    async def _refuse(self) -> NoReturn:
        await trio.lowlevel.checkpoint()
        raise OwnerAwayError
