"""One session that owns agents, with all that its calls to the herd work with."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agents.herdsman.birth import Birth
from agents.herdsman.caller import Caller
from agents.herdsman.identity import GenerationId
from agents.herdsman.look import Look, look
from agents.herdsman.mailbox_locks import delegation_lock
from agents.herdsman.owner import OwnerSession
from agents.herdsman.premises import Premises
from agents.herdsman.runtime import Attendant, Runtime
from agents.roster import Roster


@dataclass(frozen=True, slots=True)
class Controller:
    """A session that owns agents, as its calls are made.

    Attributes:
        owner: tells the session things.
        roster: reads the definitions that hold now; each call may find other ones. Raises
            `PinataError` where they cannot be read.
        attendant: makes the agent's half for a generation.
        agent_dir: the Pi agent directory, in which sessions are saved; None where nobody knows.
        home: what `~` stands for; None where nobody knows.
        turn: held by each call: they are carried out one after the other.
        cleanup_errors: why records of generations that are gone could not be removed; kept by
            whoever tries to remove them.
        deliveries: generations whose results are being delivered, or that are being ended then,
            each with whether there is more to look at; kept by whoever delivers.
        delivery_errors: why results of generations are not delivered, or their agents not gone.
    """

    premises: Premises
    runtime: Runtime
    owner: OwnerSession
    caller: Caller
    roster: Callable[[], Awaitable[Roster]]
    attendant: Callable[[Birth], Attendant]
    agent_dir: Path | None = None
    home: Path | None = None
    turn: trio.Lock = field(default_factory=trio.Lock)
    cleanup_errors: dict[GenerationId, str] = field(default_factory=dict)
    deliveries: dict[GenerationId, bool] = field(default_factory=dict)
    delivery_errors: dict[GenerationId, str] = field(default_factory=dict)

    @property
    def left_over(self) -> Mapping[GenerationId, str]:
        """Why generations that are over, or were closed, are still here."""
        return self.delivery_errors | self.cleanup_errors

    @property
    def is_delivering(self) -> bool:
        """Whether a result is on its way, or its agent is just being ended, without a fault."""
        return not self.deliveries.keys() <= self.delivery_errors.keys()

    async def look(self) -> Look:
        """Look at the whole herd; see `agents.herdsman.look.look`."""
        return await look(self.premises, self.runtime)

    def claim_delegation(self) -> AbstractAsyncContextManager[None]:
        """Have an agent's own agents to it inside the block; nobody else changes those of a lead.

        Whoever closes the caller with its agents must not meet it at work on them.

        Raises:
            HerdError: AGENT_BUSY, on entering: the caller is being closed, or changes them now.
        """
        caller = self.caller
        if caller.is_lead:
            return nullcontext()
        return delegation_lock(self.premises, caller.workspace, caller.session)
