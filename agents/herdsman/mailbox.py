"""Mailboxes, where an owner and its agent meet.

The disk is all that both sides know of each other; a signal only has the other one look sooner.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import trio

from agents.herdsman.errors import HerdError, ambiguous, broken, label_exists, not_found
from agents.herdsman.identity import Correlation, Identity, Label, RequestId
from agents.herdsman.mailbox_folder import MailboxFolder, MailboxGoneError
from agents.herdsman.mailbox_locks import claimed, refuse_busy
from agents.herdsman.mailbox_names import (
    ASK_NAME,
    STATE_NAME,
    folder_name,
    request_name,
    result_name,
)
from agents.herdsman.premises import Premises
from agents.herdsman.record import Ask, Contents, Request, Result, State
from agents.herdsman.record_form import ASK, REQUEST, RESULT, STATE, Form, UnreadableRecordError
from engine.core.errors import PinataError, reason_of

T = TypeVar("T")

# An agent that writes something down has its mailbox's lock for a moment; that is no reason to
# refuse a call. Whoever has it for longer is at work on it.
PATIENCE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The mailbox of an agent, whether or not there is one.

    Whoever reads to decide, or writes, has it locked by `claim` or `hold`. All that fails because
    of the machine is a `HerdError` of INTERNAL_FAILURE.

    Attributes:
        workspace: of the agent's owner.
        label: of the agent.
    """

    premises: Premises
    workspace: str
    label: Label
    _place: MailboxFolder = field(repr=False, compare=False)

    @classmethod
    def of(cls, premises: Premises, workspace: str, label: Label) -> "Mailbox":
        """Return the only mailbox for a label in a workspace."""
        name = folder_name(workspace, label)
        return cls(premises, workspace, label, MailboxFolder.named(premises, name))

    @classmethod
    def of_generation(cls, premises: Premises, of: Correlation) -> "Mailbox":
        """Return the mailbox that a generation has, or had."""
        return cls.of(premises, of.workspace, of.label)

    @property
    def folder(self) -> Path:
        """Where its records are."""
        return self._place.path

    async def read(self) -> Contents | None:
        """Return all that is in it; None where there is no mailbox.

        Raises:
            UnreadableRecordError: its state cannot be read, so that it may be anybody's.
        """
        return await trio.to_thread.run_sync(self._place.read)

    async def read_exact(self, identity: Identity) -> Contents:
        """Return all that is in it, which must be exactly this generation's.

        Raises:
            HerdError: TARGET_NOT_FOUND where it is another one's or nobody's, TARGET_AMBIGUOUS
                where that cannot be told.
        """
        try:
            contents = await self.read()
        except UnreadableRecordError as error:
            label = identity.of.label
            raise ambiguous(f"the mailbox of agent {label!r} cannot be read: {error}") from error
        return check_same(identity, contents)

    async def read_state(self) -> State | None:
        """Return its state; see `read`."""
        return await trio.to_thread.run_sync(self._place.read_state)

    async def requests(self) -> Sequence[RequestId]:
        """Return which requests are in it, answered or not, readable or not."""
        return await self._do("read", self._place.requests)

    async def read_request(self, request: RequestId) -> Request | None:
        """Return a request in it; None where that is not there.

        Raises:
            UnreadableRecordError: it is there and cannot be read.
            HerdError: INVALID_REQUEST: that is no id.
        """
        return await trio.to_thread.run_sync(self._place.read_request, request)

    async def read_result(self, request: RequestId) -> Result | None:
        """Return the result of a task in it; see `read_request`."""
        return await trio.to_thread.run_sync(self._place.read_result, request)

    async def read_ask(self) -> Ask | None:
        """Return the question in it; see `read_request`."""
        return await trio.to_thread.run_sync(self._place.read_ask)

    async def exists(self) -> bool:
        """Return whether there is a mailbox, readable or not."""
        return await self._do("read", self._place.has_state)

    async def is_occupied(self) -> bool:
        """Return whether the label is in use: by a state, a request, or somebody who starts it."""

        def look() -> bool:
            place = self._place
            return place.has_state() or place.has_requests() or place.is_starting()

        return await self._do("read", look)

    def claim(
        self, *, patience_s: float = PATIENCE_S, refuse: Callable[[str], HerdError] = refuse_busy
    ) -> AbstractAsyncContextManager[None]:
        """Lock it inside the block, waiting for a moment; for those who control the agent.

        Args:
            patience_s: how long that moment is; 0 where it must be free now.
            refuse: makes the error for a lock that somebody has, of a sentence that says who.

        Raises:
            HerdError: AGENT_BUSY, or what `refuse` made: somebody is at work on the mailbox.
        """
        return self._claimed(patience_s, refuse)

    def hold(self) -> AbstractAsyncContextManager[None]:
        """Lock it inside the block, waiting for as long as it takes; for the agent's own side."""
        return self._claimed(math.inf, refuse_busy)

    def claim_start(self) -> AbstractAsyncContextManager[None]:
        """Have its label inside the block, to start an agent with it.

        Raises:
            HerdError: AGENT_LABEL_EXISTS: somebody starts one with it now.
        """
        what = f"the start of {self.label}"
        name = self._place.start_lock.name
        return claimed(self.premises, name, what, refuse=lambda _: label_exists(self.label))

    async def write_state(self, state: State, *, flush: bool = True, creates: bool = False) -> None:
        """Replace its state.

        Args:
            state: what it is then.
            flush: it is durable on return; without it, a crash of the machine can undo it.
            creates: there may be no mailbox yet; else one that was removed stays removed.

        Raises:
            HerdError: INVALID_REQUEST: the state contradicts itself. TARGET_NOT_FOUND: there is no
                mailbox.
        """

        def write() -> None:
            data, fault = _encoded(STATE, state), "herd.state" if flush else "herd.activity"
            self._place.write(STATE_NAME, data, fault=fault, flush=flush, creates=creates)

        self._check_own(state)
        # Nobody waits for what is noted of an agent's activity.
        await self._change("state", write, *((state.of.owner,) if flush else ()))

    async def write_request(self, request: Request) -> None:
        """Leave a request in it; the agent hears of it.

        Raises:
            HerdError: INVALID_REQUEST: it is none, or too long. TARGET_NOT_FOUND: there is no
                mailbox.
        """

        def write() -> None:
            data, name = _encoded(REQUEST, request), request_name(request.request)
            self._place.write(name, data, fault="herd.request")

        self._check_own(request)
        await self._change("request", write, request.of.owner, str(self.folder))

    async def write_ask(self, ask: Ask) -> None:
        """Put a question into it; see `write_request`."""

        def write() -> None:
            self._place.write(ASK_NAME, _encoded(ASK, ask), fault="herd.ask")

        self._check_own(ask)
        await self._change("question", write, ask.of.owner)

    async def write_result(self, result: Result) -> None:
        """Put a result into it; see `write_request`."""

        def write() -> None:
            data, name = _encoded(RESULT, result), result_name(result.request)
            self._place.write(name, data, fault="herd.result")

        self._check_own(result)
        await self._change("result", write, result.of.owner)

    async def remove_request(self, request: RequestId) -> None:
        """Remove a request, if it is there.

        Raises:
            HerdError: INVALID_REQUEST: that is no id.
        """
        await self._change("request", lambda: self._place.remove(request_name(request)))

    async def remove_result(self, request: RequestId) -> None:
        """Remove the result of a task; see `remove_request`."""
        await self._change("result", lambda: self._place.remove(result_name(request)))

    async def remove_ask(self) -> None:
        """Remove the question, if there is one."""
        await self._change("question", lambda: self._place.remove(ASK_NAME))

    async def reset(self) -> None:
        """Remove what an agent that is gone has left, so that another one can begin.

        Raises:
            HerdError: AGENT_LABEL_EXISTS: somebody's state or request is there; nothing is removed.
        """

        def remove() -> None:
            if self._place.has_state() or self._place.has_requests():
                raise label_exists(self.label)
            self._place.remove_leftovers()

        await self._change("records", remove)

    async def try_out(self) -> None:
        """Check that a state can be written where none is; nothing is there afterwards.

        Raises:
            HerdError: INTERNAL_FAILURE: it cannot, and the reason.
        """
        await self._do("make the mailbox of", self._place.try_out)

    async def remove(self) -> None:
        """Remove it: the state after all else, and the folder last. Its label stays claimed."""
        try:
            state = await self.read_state()
        except UnreadableRecordError:
            state = None
        names = () if state is None else (state.of.owner,)
        await self._change("records", self._place.remove_all, *names, str(self.folder))

    def _claimed(
        self, patience_s: float, refuse: Callable[[str], HerdError]
    ) -> AbstractAsyncContextManager[None]:
        name, what = self._place.lock_name, f"the mailbox of {self.label}"
        return claimed(self.premises, name, what, patience_s=patience_s, refuse=refuse)

    def _check_own(self, record: State | Request | Ask | Result) -> None:
        assert (record.of.workspace, record.of.label) == (self.workspace, self.label)

    async def _change(self, noun: str, change: Callable[[], None], *names: str) -> None:
        try:
            await self._do(f"write or remove the {noun} of", change)
        finally:
            # What failed may have been done all the same.
            self.premises.signals.ring(*names)

    async def _do(self, what: str, call: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(call)
        except MailboxGoneError as error:
            raise not_found(
                f"{self.label} is not there any more: its mailbox was removed"
            ) from error
        except HerdError:
            raise
        except (PinataError, OSError) as error:
            raise _failure(f"cannot {what} {self.label}", error) from error


def check_same(expected: Identity, fresh: Contents | None) -> Contents:
    """Return a fresh reading of a mailbox, if it is still the same generation's.

    Raises:
        HerdError: it is another one's by now, or is gone (TARGET_NOT_FOUND).
    """
    if fresh is None or fresh.state.identity != expected:
        raise not_found(
            f"agent {expected.of.label!r} is not the one it was",
            next_action="call agent_list for the agents that there are",
        )
    return fresh


def _failure(what: str, error: PinataError | OSError) -> HerdError:
    return broken(f"{what}: {reason_of(error)}")


def _encoded(form: Form[T], record: T) -> bytes:
    data = form.encode(record)
    form.check_length(data)
    return data
