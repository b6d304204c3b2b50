"""One session that owns agents, with all that its calls to the herd work with."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agents.herdsman.birth import Birth
from agents.herdsman.caller import Caller
from agents.herdsman.endings import Endings
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
        endings: what is known of ends, by all callers of the session.
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
    endings: Endings = field(default_factory=Endings)

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
