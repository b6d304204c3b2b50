"""One try to bring an agent up with a task: it is there and has taken it, or nothing of it is left.

What cannot be undone for certain stays as it is, and the answer says so, with both causes.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import trio

from agents.herdsman.errors import Category, HerdError, Trouble, ambiguous, broken, invalid
from agents.herdsman.identity import Identity
from agents.herdsman.presence import Presence, observe
from agents.herdsman.record import State
from agents.herdsman.record_form import request_size
from agents.herdsman.runtime import Inventory, Preparation
from agents.herdsman.submit import leave, wait_answer
from agents.herdsman.traces import Traces
from engine.core.errors import PinataError, reason_of

# All of an attempt together, but for undoing it.
START_S: Final = 240.0
# What a started agent may take until its mailbox says that it is there.
READY_S: Final = 30.0
# What it may take until it has taken its task.
TASK_PATIENCE_S: Final = 30.0
# What undoing may take altogether.
UNDO_S: Final = 60.0
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
        traces: what it has made so far.
        stage: how far it has come, in a word.
        may_have_task: the task was left in the mailbox, or may have been.
        is_taken: the agent has taken it, though nobody saw it do so in time.
    """

    traces: Traces
    stage: str = "start"
    may_have_task: bool = False
    is_taken: bool = False

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
        return self.traces.answer()

    async def _bring_up(self, preparation: Preparation) -> None:
        self.traces = replace(self.traces, started=await preparation.start())
        self._check_session()
        self.stage = "readiness"
        state = await self._wait_ready()
        self.stage = "session"
        await self._prove_session(state)
        self.stage = "task"
        await self._hand_over()

    def _check_session(self) -> None:
        managed = self.traces.assignment.managed
        if managed is not None and managed.saved.session != self.traces.identity.session:
            raise ambiguous(f"{self._label} leads another session than it was started for")

    async def _wait_ready(self) -> State:
        """Return the agent's state once it has written one.

        Raises:
            HerdError: PANE_NOT_READY: it is gone, or too slow; TARGET_AMBIGUOUS: it writes that it
                is another one.
        """
        controller, mailbox = self.traces.controller, self.traces.mailbox
        signals, owner = controller.premises.signals, controller.caller.session
        listener = signals.listen(owner)
        why = f"it was not ready within {READY_S:g} s"
        try:
            with trio.move_on_after(READY_S):
                while True:
                    state = await mailbox.read_state()
                    if state is not None:
                        if state.identity == self.traces.identity:
                            return state
                        raise ambiguous(f"the mailbox of {self._label} is that of another agent")
                    if await self.traces.presence() is Presence.LOST:
                        why = "it has ended"
                        break
                    with trio.move_on_after(_LOOK_AGAIN_S):
                        await listener.wait()
        finally:
            signals.leave(owner, listener)
        raise self._not_ready(why, await self._recent_output())

    async def _prove_session(self, state: State) -> None:
        """Wait until the runtime sees the agent in the session that it was started in.

        Raises:
            HerdError: it sees another one there (TARGET_AMBIGUOUS), or none in time
                (PANE_NOT_READY).
        """
        identity = self.traces.identity
        for _ in range(_SESSION_LOOKS):
            inventory = await self.traces.controller.runtime.inventory([state])
            if observe(identity, inventory).presence is Presence.LIVE:
                return
            if _sessions_at(identity, inventory) - {identity.session}:
                raise ambiguous(f"another session is where {self._label} was started")
            await trio.sleep(_LOOK_AGAIN_S)
        raise self._not_ready("it does not tell which session it leads")

    async def _hand_over(self) -> None:
        """Leave the task, and wait until the agent has taken it.

        Raises:
            HerdError: it has not, as far as is known.
        """
        request, mailbox = self.traces.request(), self.traces.mailbox
        size, limit = request_size(request), self.traces.assignment.limit_bytes
        if size > limit:
            raise invalid(
                f"the task makes a record of {size:,} bytes, and {limit:,} bytes are allowed",
                next_action="put the long part into a file, and name that in `files`",
            )
        self.may_have_task = True
        await leave(mailbox, self.traces.identity, request)
        answer = await wait_answer(mailbox, request, patience_s=TASK_PATIENCE_S)
        if answer is None:
            raise broken(f"agent {self._label!r} has not taken its task in {TASK_PATIENCE_S:g} s")
        if not answer.accepted:
            assert answer.code is not None
            reason = answer.message or answer.code.value
            raise broken(f"agent {self._label!r} refused its task: {reason}")

    async def _fail(self, primary: HerdError) -> dict[str, Any]:
        """Undo the attempt, unless the agent has taken its task after all; then return the answer.

        Raises:
            HerdError: see `carry_out`.
        """
        cleanup = await self._undo()
        if cleanup is not None:
            raise self._left_over(primary, cleanup) from primary
        if self.is_taken:
            return self.traces.answer()
        raise self._told(primary, rollback_occurred=True) from primary

    async def _abandon(self) -> None:
        """Undo the attempt of a call that is cancelled, unless the agent has taken its task."""
        cleanup = await self._undo()
        if cleanup is not None:
            _log.warning("agent %s was given up, and something is left: %s", self._label, cleanup)

    async def _undo(self) -> HerdError | None:
        """Take back what was made, unless the agent has its task; return what stood in the way.

        Nothing cancels it, but it does not take for ever.
        """
        cleanup = broken(f"undoing it took longer than {UNDO_S:g} s")
        with trio.move_on_after(UNDO_S, shield=True):
            try:
                await self._take_back()
            except (PinataError, OSError) as error:
                cleanup = _as_herd_error(error)
            else:
                return None
        if self.traces.started is not None and not self.may_have_task:
            # Whoever looks after the session's agents tries again.
            generation = self.traces.assignment.generation
            self.traces.controller.endings.cleanup_errors[generation] = str(cleanup)
        return cleanup

    async def _take_back(self) -> None:
        if self.may_have_task:
            if not await self.traces.withdraw():
                self.is_taken = True
                return
            self.may_have_task = False
        await self.traces.remove()

    async def _recent_output(self) -> dict[str, Any]:
        """Return what the agent showed last, if that can be had."""
        lines: Sequence[str] = ()
        with trio.move_on_after(_CAPTURE_S), suppress(PinataError):
            lines = await self.traces.controller.runtime.capture(self.traces.identity)
        return {"recent_output": list(lines[-_SHOWN_LINES:])} if lines else {}

    @property
    def _label(self) -> str:
        return self.traces.mailbox.label

    def _told(self, error: HerdError, **changes: Any) -> HerdError:  # noqa: ANN401 - see `told`
        details = {"stage": self.stage, **error.trouble.details}
        ids = {**self.traces.ids, **error.trouble.ids}
        return error.told(ids=ids, details=details, **changes)

    def _not_ready(self, why: str, details: Mapping[str, Any] | None = None) -> HerdError:
        message = f"agent {self._label!r} did not come up: {why}"
        return HerdError(Trouble(Category.PANE_NOT_READY, message, details=details or {}))

    def _left_over(self, primary: HerdError, cleanup: HerdError) -> HerdError:
        action = "call agent_list, and close the agent if that is offered"
        if self.may_have_task:
            action = "do not give the task again: call agent_list to see whether it was taken"
        left = Trouble(
            Category.ROLLBACK_FAILURE,
            f"{primary}; it could not be undone: {cleanup}",
            retry_attempted=True,
            next_action=action,
            primary=primary.trouble,
            cleanup=cleanup.trouble,
        )
        return self._told(HerdError(left))


def _sessions_at(identity: Identity, inventory: Inventory) -> set[str]:
    """Return the sessions that are told of the place where an agent was started."""
    handle = identity.of.handle
    return {agent.session for agent in inventory.agents if agent.handle == handle}


def _as_herd_error(error: PinataError | OSError) -> HerdError:
    if isinstance(error, HerdError):
        return error
    return broken(reason_of(error))
