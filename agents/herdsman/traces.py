"""What an attempt to start an agent has made so far, and how that is taken back.

It goes in an order that leaves the proof of it for last: the agent, its mailbox, its session.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import trio

from agents.herdsman.assignment import Assignment
from agents.herdsman.controller import Controller
from agents.herdsman.errors import Category, HerdError, ambiguous, broken
from agents.herdsman.identity import Correlation, Identity
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.presence import Presence, observe
from agents.herdsman.record import Request, RequestKind, State
from agents.herdsman.runtime import Started
from agents.herdsman.session_file import discard_session, restore_session
from engine.core.errors import ExternalError

# How long to wait for the mailbox of an agent that is to be taken back.
LOCK_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Traces:
    """What an attempt has made.

    Attributes:
        mailbox: its startup claim is held, so nobody else's records come into it.
        started: None until the agent is up.
    """

    controller: Controller
    assignment: Assignment
    mailbox: Mailbox
    started: Started | None = None

    @property
    def identity(self) -> Identity:
        """All that names the generation, once the agent is up."""
        assert self.started is not None
        caller = self.controller.caller
        of = Correlation(
            self.assignment.generation,
            caller.session,
            caller.workspace,
            self.mailbox.label,
            self.started.handle,
        )
        file = str(self.started.session_file)
        return Identity(of, self.started.session, file, self.assignment.cwd)

    @property
    def ids(self) -> dict[str, str]:
        """What is known of the agent, for those who are told about it."""
        known = {"agent": self.mailbox.label, "request_id": self.assignment.request}
        if self.started is None:
            return known
        return {**known, "pane_id": self.started.handle, "session_id": self.started.session}

    def answer(self) -> dict[str, Any]:
        """Return what the call answers once the agent has its task."""
        identity = self.identity
        return {
            "action": self.assignment.operation,
            "agent": identity.of.label,
            "definition": self.assignment.effective.definition.name,
            "request_id": self.assignment.request,
            "session_id": identity.session,
            "session_path": identity.session_file,
            "owner_session_id": identity.of.owner,
            "pane_id": identity.of.handle,
        }

    def request(self) -> Request:
        """Return the task as it is left for the agent."""
        assignment = self.assignment
        return Request(
            self.identity.of,
            assignment.request,
            RequestKind.TASK,
            assignment.message.text,
            self.controller.premises.clock.now_ms(),
            bindings=assignment.message.bindings,
        )

    async def presence(self) -> Presence:
        """Return whether the agent is there, as far as can be seen now."""
        try:
            inventory = await self.controller.runtime.inventory([])
        except ExternalError:
            return Presence.UNKNOWN
        return observe(self.identity, inventory).presence

    async def withdraw(self) -> bool:
        """Take the task back unless the agent has taken it; return whether it was taken back.

        Raises:
            HerdError: nobody can tell: the mailbox stays locked, or cannot be read or written.
        """
        name = self.assignment.request
        async with self._claim("whether the task was taken"):
            state = await self.mailbox.read_state()
            if state is not None and _has_accepted(state, self.assignment):
                return False
            await self.mailbox.remove_request(name)
        return True

    async def remove(self) -> None:
        """Take everything back.

        Raises:
            HerdError: something of it is still there, or may be.
            ExternalError: as well.
        """
        if self.started is not None:
            await self._stop()
        await self._clear_mailbox()
        managed = self.assignment.managed
        if managed is not None:
            await trio.to_thread.run_sync(restore_session, managed.saved.file, managed.size_bytes)
        elif self.started is not None:
            await trio.to_thread.run_sync(discard_session, self.started.session_file)

    async def _stop(self) -> None:
        """End the agent, unless it is proved to be gone already.

        Raises:
            HerdError: another one is in its place, or it is still there.
        """
        try:
            await self.controller.runtime.stop(self.identity)
        except HerdError as error:
            if error.trouble.category is not Category.TARGET_NOT_FOUND:
                raise
            if await self.presence() is not Presence.LOST:
                raise

    async def _clear_mailbox(self) -> None:
        label = self.mailbox.label
        async with self._claim("what is in the mailbox"):
            contents = await self.mailbox.read()
            if contents is not None:
                if contents.state.of.generation != self.assignment.generation:
                    raise ambiguous(f"the mailbox of {label} is that of another agent")
                if contents.has_pending_request:
                    raise broken(f"a request is left in the mailbox of {label}")
            await self.mailbox.remove()

    def _claim(self, what: str) -> AbstractAsyncContextManager[None]:
        """Lock the mailbox inside the block; an agent about to take its task comes first.

        Raises:
            HerdError: somebody has it for too long, so that `what` is not known.
        """

        def refuse(why: str) -> HerdError:
            return broken(f"nobody can tell {what}, since it stayed locked: {why}")

        return self.mailbox.claim(patience_s=LOCK_S, refuse=refuse)


def _has_accepted(state: State, assignment: Assignment) -> bool:
    """Return whether a generation has taken its task, whatever became of it since."""
    said, name = state.acknowledgement, assignment.request
    if said is not None and said.request == name:
        return said.accepted
    injected = state.injection and state.injection.request
    return name in (state.active, state.completed, injected)
