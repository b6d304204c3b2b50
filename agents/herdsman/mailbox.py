"""Mailboxes, where an owner and its agent meet, and the locks that keep each other's calls apart.

The disk is all that both sides know of each other; a signal only has the other one look sooner.
Locks are taken in this order, and never an earlier one while a later one is held: delegation,
activation, startup, mailbox, lifecycle. The kernel lets go of those of a process that dies.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import trio

from agents.herdsman.errors import HerdError, broken, busy, label_exists, not_found
from agents.herdsman.identity import Label, RequestId, SessionId
from agents.herdsman.mailbox_folder import (
    ASK_NAME,
    STATE_NAME,
    MailboxFolder,
    MailboxGoneError,
    folder_name,
    request_name,
    result_name,
)
from agents.herdsman.premises import Premises
from agents.herdsman.record import Ask, Contents, Request, Result, State
from agents.herdsman.records import ASK, REQUEST, RESULT, STATE, Form, UnreadableRecordError
from engine.core.errors import HeldElsewhereError, PinataError, reason_of
from engine.system import locks
from engine.system.files import make_private_dir

T = TypeVar("T")

# How long to wait for another start or end of an agent in the same workspace.
LIFECYCLE_PATIENCE_S: Final = 30.0
_DIGEST_CHARS: Final = 32
_TRY_AGAIN: Final = "try again in a moment"


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
    def of_state(cls, premises: Premises, state: State) -> "Mailbox":
        """Return the mailbox that a state is from."""
        return cls.of(premises, state.of.workspace, state.of.label)

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

    def claim(self) -> AbstractAsyncContextManager[None]:
        """Lock it inside the block; for those who control the agent.

        Raises:
            HerdError: AGENT_BUSY: somebody has it locked.
        """
        return _claimed(self.premises, self._lock, self._what, _busy)

    def hold(self) -> AbstractAsyncContextManager[None]:
        """Lock it inside the block, waiting for as long as it takes; for the agent's own side."""
        return _held(self.premises, self._lock, self._what)

    def claim_start(self) -> AbstractAsyncContextManager[None]:
        """Have its label inside the block, to start an agent with it.

        Raises:
            HerdError: AGENT_LABEL_EXISTS: somebody starts one with it now.
        """
        what = f"the start of {self.label}"
        name = self._place.start_lock.name
        return _claimed(self.premises, name, what, lambda _: label_exists(self.label))

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

    async def remove(self) -> None:
        """Remove it: the state after all else, and the folder last. Its label stays claimed."""
        try:
            state = await self.read_state()
        except UnreadableRecordError:
            state = None
        names = () if state is None else (state.of.owner,)
        await self._change("records", self._place.remove_all, *names, str(self.folder))

    @property
    def _lock(self) -> str:
        return f"mailbox-{self.folder.name}.lock"

    @property
    def _what(self) -> str:
        return f"the mailbox of {self.label}"

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


def delegation_lock(
    premises: Premises, workspace: str, session: SessionId
) -> AbstractAsyncContextManager[None]:
    """Return what keeps a session that works for another from changing what works for it.

    Raises:
        HerdError: AGENT_BUSY, on entering: it changes it now, or is being closed.
    """
    name = f"delegation-{_digest(workspace, session)}.lock"
    return _claimed(premises, name, f"what works for session {session}", _busy)


@asynccontextmanager
async def activation_lock(premises: Premises, session_file: str) -> AsyncIterator[None]:
    """Have a saved session, by whatever path it is reached, to oneself inside the block.

    Raises:
        HerdError: AGENT_BUSY: somebody continues it now.
    """
    real = await trio.to_thread.run_sync(os.path.realpath, session_file)
    name = f"activation-{_digest(real)}.lock"
    async with _claimed(premises, name, f"the session {session_file}", _busy):
        yield


@asynccontextmanager
async def lifecycle_lock(premises: Premises, workspace: str) -> AsyncIterator[None]:
    """Be the only one to start and end agents in a workspace inside the block; waits for a while.

    Raises:
        HerdError: AGENT_BUSY: others take too long.
    """
    what = f"starting and ending agents in {workspace}"
    async with AsyncExitStack() as stack:
        with trio.move_on_after(LIFECYCLE_PATIENCE_S) as scope:
            held = _held(premises, f"lifecycle-{_digest(workspace)}.lock", what)
            await stack.enter_async_context(held)
        if scope.cancelled_caught:
            raise _busy(f"{what} takes others longer than {LIFECYCLE_PATIENCE_S:g} s")
        yield


@asynccontextmanager
async def _claimed(
    premises: Premises, name: str, what: str, refuse: Callable[[str], HerdError]
) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        try:
            path = await _lock_file(premises, name)
            lock = locks.claim(path, what=what, holder=premises.holder)
            await stack.enter_async_context(lock)
        except HeldElsewhereError as error:
            raise refuse(str(error)) from error
        except (PinataError, OSError) as error:
            raise _failure(f"cannot lock {what}", error) from error
        yield


@asynccontextmanager
async def _held(premises: Premises, name: str, what: str) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        try:
            path = await _lock_file(premises, name)
            lock = locks.hold(path, what=what, holder=premises.holder)
            await stack.enter_async_context(lock)
        except (PinataError, OSError) as error:
            raise _failure(f"cannot lock {what}", error) from error
        yield


async def _lock_file(premises: Premises, name: str) -> Path:
    await trio.to_thread.run_sync(make_private_dir, premises.locks)
    return premises.locks / name


def _busy(reason: str) -> HerdError:
    return busy(reason, next_action=_TRY_AGAIN)


def _failure(what: str, error: PinataError | OSError) -> HerdError:
    return broken(f"{what}: {reason_of(error) if isinstance(error, OSError) else error}")


def _digest(*parts: str) -> str:
    return hashlib.sha256(b"\0".join(map(os.fsencode, parts))).hexdigest()[:_DIGEST_CHARS]


def _encoded(form: Form[T], record: T) -> bytes:
    data = form.encode(record)
    form.check_length(data)
    return data
