"""One try to bring an agent up with a task: it is there and has taken it, or nothing of it is left.

What cannot be undone for certain stays as it is, and the answer says so, with both causes.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import trio

from agents.herdsman.assignment import Assignment
from agents.herdsman.controller import Controller
from agents.herdsman.errors import Category, HerdError, Trouble, ambiguous, broken, invalid
from agents.herdsman.identity import Correlation, Identity
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.presence import Presence, observe
from agents.herdsman.record import NoHandOff, Request, RequestKind, State
from agents.herdsman.records import request_size
from agents.herdsman.runtime import Inventory, Preparation, Started
from agents.herdsman.session_file import discard_session, restore_session
from agents.herdsman.submit import leave, wait_answer
from engine.core.errors import ExternalError, PinataError, reason_of

# All of an attempt together, but for undoing it.
START_S: Final = 240.0
# What a started agent may take until its mailbox says that it is there.
READY_S: Final = 30.0
# What it may take until it has taken its task.
TASK_PATIENCE_S: Final = 30.0
# What undoing may take altogether, and for the mailbox alone.
UNDO_S: Final = 60.0
LOCK_S: Final = 10.0
# A look that nobody rings for.
_LOOK_AGAIN_S: Final = 0.25
_SESSION_LOOKS: Final = 8
_CAPTURE_S: Final = 2.0
_SHOWN_LINES: Final = 20
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(slots=True)
class Attempt:
    """A try whose startup claim is held.

    Attributes:
        stage: how far it has come, in a word.
        started: None until the agent is up.
        may_have_task: the task was left in the mailbox, or may have been.
    """

    controller: Controller
    assignment: Assignment
    mailbox: Mailbox
    stage: str = "start"
    started: Started | None = None
    may_have_task: bool = False

    async def carry_out(self, preparation: Preparation) -> dict[str, Any]:
        """Bring the agent up and return the answer of the call, once it has taken its task.

        Raises:
            HerdError: it has not, and nothing of it is left (`rollback_occurred`); or something
                is (ROLLBACK_FAILURE).
        """
        try:
            with trio.fail_after(START_S):
                await self._bring_up(preparation)
        except trio.TooSlowError:
            return await self._fail(self._not_ready(f"it took longer than {START_S:g} s"))
        except (PinataError, OSError) as error:
            return await self._fail(_as_herd_error(error))
        except BaseException:
            await self._abandon()
            raise
        return self._answer()

    async def _bring_up(self, preparation: Preparation) -> None:
        self.started = await preparation.start()
        self.stage = "readiness"
        state = await self._wait_ready()
        self.stage = "session"
        await self._prove_session(state)
        self.stage = "task"
        await self._hand_over()

    @property
    def identity(self) -> Identity:
        """All that names the generation, once the agent is up."""
        assert self.started is not None
        caller, label = self.controller.caller, self.mailbox.label
        of = Correlation(
            self.assignment.generation,
            caller.session,
            caller.workspace,
            label,
            self.started.handle,
        )
        file = str(self.started.session_file)
        return Identity(of, self.started.session, file, self.assignment.cwd)

    async def _wait_ready(self) -> State:
        """Return the agent's state once it has written one.

        Raises:
            HerdError: PANE_NOT_READY: it is gone, or too slow; TARGET_AMBIGUOUS: it writes that it
                is another one.
        """
        signals, owner = self.controller.premises.signals, self.controller.caller.session
        listener = signals.listen(owner)
        why = f"it was not ready within {READY_S:g} s"
        try:
            with trio.move_on_after(READY_S):
                while True:
                    state = await self.mailbox.read_state()
                    if state is not None:
                        self._check_own(state)
                        return state
                    if await self._presence() is Presence.LOST:
                        why = "it has ended"
                        break
                    with trio.move_on_after(_LOOK_AGAIN_S):
                        await listener.wait()
        finally:
            signals.leave(owner, listener)
        raise self._not_ready(why, await self._recent_output())

    def _check_own(self, state: State) -> None:
        if state.identity != self.identity:
            raise ambiguous(f"the mailbox of {self.mailbox.label} is that of another agent")
        managed = self.assignment.managed
        if managed is not None and managed.saved.session != state.session:
            raise ambiguous(f"{self.mailbox.label} leads another session than it was started for")

    async def _prove_session(self, state: State) -> None:
        """Wait until the runtime sees the agent in the session that it was started in.

        Raises:
            HerdError: it sees another one there (TARGET_AMBIGUOUS), or none in time
                (PANE_NOT_READY).
        """
        identity = self.identity
        for _ in range(_SESSION_LOOKS):
            inventory = await self.controller.runtime.inventory([state])
            if observe(identity, inventory).presence is Presence.LIVE:
                return
            there = _session_at(identity, inventory)
            if there not in (None, identity.session):
                raise ambiguous(f"another session is where {self.mailbox.label} was started")
            await trio.sleep(_LOOK_AGAIN_S)
        raise self._not_ready("it does not tell which session it leads")

    async def _hand_over(self) -> None:
        """Leave the task, and wait until the agent has taken it.

        Raises:
            HerdError: it has not, as far as is known.
        """
        request = self._request()
        size, limit = request_size(request), self.assignment.limit_bytes
        if size > limit:
            raise invalid(
                f"the task makes a record of {size:,} bytes, and {limit:,} bytes are allowed",
                next_action="put the long part into a file, and name that in `files`",
            )
        self.may_have_task = True
        await leave(self.mailbox, self.identity, request)
        answer = await wait_answer(self.mailbox, request, patience_s=TASK_PATIENCE_S)
        if answer is None:
            raise broken(
                f"agent {self.mailbox.label!r} has not taken its task within {TASK_PATIENCE_S:g} s"
            )
        if not answer.accepted:
            assert answer.code is not None
            reason = answer.message or answer.code.value
            raise broken(f"agent {self.mailbox.label!r} refused its task: {reason}")

    def _request(self) -> Request:
        assignment = self.assignment
        return Request(
            self.identity.of,
            assignment.request,
            RequestKind.TASK,
            assignment.message.text,
            self.controller.premises.clock.now_ms(),
            bindings=assignment.message.bindings,
        )

    async def _fail(self, primary: HerdError) -> dict[str, Any]:
        """Undo the attempt, unless the agent has taken its task after all; then return the answer.

        Raises:
            HerdError: see `carry_out`.
        """
        cleanup = broken(f"undoing it took longer than {UNDO_S:g} s")
        with trio.move_on_after(UNDO_S, shield=True):
            try:
                if await self._has_taken_task():
                    return self._answer()
                await self._undo()
            except (PinataError, OSError) as error:
                cleanup = _as_herd_error(error)
            else:
                raise self._told(primary, rollback_occurred=True) from primary
        self._note_left(cleanup)
        raise self._left_over(primary, cleanup) from primary

    async def _abandon(self) -> None:
        """Undo the attempt of a call that is cancelled, unless the agent has taken its task."""
        with trio.move_on_after(UNDO_S, shield=True) as scope:
            try:
                if not await self._has_taken_task():
                    await self._undo()
            except (PinataError, OSError) as error:
                _log.warning("%s: a start that was given up has left something", error)
                self._note_left(_as_herd_error(error))
        if scope.cancelled_caught:
            self._note_left(broken(f"undoing it took longer than {UNDO_S:g} s"))

    async def _has_taken_task(self) -> bool:
        """Return whether the agent has taken its task; if it has not, it will not any more.

        Raises:
            HerdError: nobody can tell: the mailbox stays locked.
        """
        if not self.may_have_task:
            return False
        async with self._locked("whether the task was taken"):
            state = await self.mailbox.read_state()
            if state is not None and _has_accepted(state, self._request()):
                return True
            await self.mailbox.remove_request(self.assignment.request)
            self.may_have_task = False
        return False

    async def _undo(self) -> None:
        """Remove what the attempt has made, in an order that leaves the proof of it for last.

        Raises:
            HerdError: something of it is still there, or may be.
            ExternalError: as well.
        """
        if self.started is not None:
            await self._stop()
        async with self._locked("what is in the mailbox"):
            contents = await self.mailbox.read()
            if contents is not None and contents.state.of.generation != self.assignment.generation:
                raise ambiguous(f"the mailbox of {self.mailbox.label} is that of another agent")
            if contents is not None and not isinstance(contents.hand_off, NoHandOff):
                raise broken(f"a request is left in the mailbox of {self.mailbox.label}")
            await self.mailbox.remove()
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
            if await self._presence() is not Presence.LOST:
                raise

    async def _presence(self) -> Presence:
        try:
            inventory = await self.controller.runtime.inventory([])
        except ExternalError:
            return Presence.UNKNOWN
        return observe(self.identity, inventory).presence

    @asynccontextmanager
    async def _locked(self, what: str) -> AsyncIterator[None]:
        """Hold the mailbox inside the block.

        Raises:
            HerdError: somebody has it for too long, so that `what` is not known.
        """
        async with AsyncExitStack() as stack:
            with trio.move_on_after(LOCK_S) as scope:
                await stack.enter_async_context(self.mailbox.hold())
            if scope.cancelled_caught:
                raise broken(f"nobody can tell {what}: it was locked for {LOCK_S:g} s")
            yield

    async def _recent_output(self) -> dict[str, Any]:
        """Return what the agent showed last, if that can be had."""
        with trio.move_on_after(_CAPTURE_S):
            try:
                lines = await self.controller.runtime.capture(self.identity)
            except PinataError:
                return {}
            return {"recent_output": list(lines[-_SHOWN_LINES:])} if lines else {}
        return {}

    def _answer(self) -> dict[str, Any]:
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

    def _ids(self) -> dict[str, str]:
        known = {"agent": self.mailbox.label, "request_id": self.assignment.request}
        if self.started is None:
            return known
        return {**known, "pane_id": self.started.handle, "session_id": self.started.session}

    def _told(self, error: HerdError, **changes: Any) -> HerdError:  # noqa: ANN401 - see `told`
        details = {"stage": self.stage, **error.trouble.details}
        ids = {**self._ids(), **error.trouble.ids}
        return error.told(ids=ids, details=details, **changes)

    def _not_ready(self, why: str, details: dict[str, Any] | None = None) -> HerdError:
        return HerdError(
            Trouble(
                Category.PANE_NOT_READY,
                f"agent {self.mailbox.label!r} did not come up: {why}",
                details=details or {},
            )
        )

    def _left_over(self, primary: HerdError, cleanup: HerdError) -> HerdError:
        action = "call agent_list, and close the agent if that is offered"
        if self.may_have_task:
            action = "do not give the task again: call agent_list to see whether it was taken"
        return self._told(
            HerdError(
                Trouble(
                    Category.ROLLBACK_FAILURE,
                    f"{primary}; it could not be undone: {cleanup}",
                    retry_attempted=True,
                    next_action=action,
                    primary=primary.trouble,
                    cleanup=cleanup.trouble,
                )
            )
        )

    def _note_left(self, cleanup: HerdError) -> None:
        """Have what is left removed later on, unless it may have the task."""
        if self.started is not None and not self.may_have_task:
            self.controller.cleanup_errors[self.assignment.generation] = str(cleanup)


def _has_accepted(state: State, request: Request) -> bool:
    """Return whether a generation has taken a task, whatever became of it since."""
    if state.of != request.of:
        return False
    said = state.acknowledgement
    if said is not None and said.request == request.request:
        return said.accepted
    injected = state.injection and state.injection.request
    return request.request in (state.active, state.completed, injected)


def _session_at(identity: Identity, inventory: Inventory) -> str | None:
    """Return the session of whoever is where an agent was started; None if that is not told."""
    for agent in inventory.agents:
        if agent.handle == identity.of.handle:
            return agent.session
    return None


def _as_herd_error(error: PinataError | OSError) -> HerdError:
    if isinstance(error, HerdError):
        return error
    return broken(reason_of(error) if isinstance(error, OSError) else str(error))
