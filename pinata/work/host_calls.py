"""The calls that a host's clients have under way; they go on when the client is gone."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, assert_never

import trio

from engine.core.errors import ConflictError, PinataError
from engine.core.ids import RunId
from engine.records.host import CallFrame, CommandFrame, HoldFrame, call_error, progress, result
from pinata.work.host_seat import Seat
from pinata.work.observer import OpenedRun

# Of all clients together: what a client left behind counts, or leaving would be a way around it.
MOST_CALLS: Final = 64
# What a session without a person calls before it ends; no tool has such a name.
HOLD: Final = "hold"
# What a person types to a session's program; its one argument is the `text`, as is its answer.
COMMAND: Final = "command"
CANCELLED: Final = "the call was cancelled"
_log = logging.getLogger(f"pinata.{__name__}")

Answer = Mapping[str, Any]
AskingFrame = CallFrame | HoldFrame | CommandFrame
Opened = Callable[[OpenedRun], None]
Tell = Callable[[int, str], Awaitable[None]]
# What a model reads of a tool's answer; None where it reads the answer itself.
TextOf = Callable[[str, Answer], str | None]


def as_it_is(_tool: str, _answer: Answer) -> str | None:
    """Have models read answers as they are."""
    return None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client calls.

    Attributes:
        cwd: where the client stands.
        trust: see `pinata.work.context.Context.project_trust`.
        owner: whose agents a person means; None where the session itself calls.
    """

    tool: str
    arguments: Mapping[str, Any]
    cwd: Path
    trust: bool | None
    owner: str | None = None


class Perform(Protocol):
    """Carries out a call."""

    async def __call__(self, asked: Asked, opened: Opened, tell: Tell) -> Answer:
        """Return its answer.

        Args:
            asked: what is called.
            opened: told of the run whose end is waited for, once there is one.
            tell: told how it comes along, as `progress` frames say it.

        Raises:
            PinataError: it was refused, or failed.
        """
        ...


class KeyOf(Protocol):
    """Finds what an answer tells."""

    async def __call__(self, run: RunId) -> str | None:
        """Return the key of the newest settlement of `run` that nobody has confirmed."""
        ...


class Call:
    """A call under way."""

    def __init__(self, seat: Seat, frame: AskingFrame) -> None:
        """Begin before anything has happened."""
        self.seat = seat
        self.id = frame.id
        self.asked = Asked(*_what(frame), seat.cwd, seat.trust)
        self.scope = trio.CancelScope()
        self._run: OpenedRun | None = None
        self._reason: str | None = None

    @property
    def run(self) -> RunId | None:
        """The run whose end it waits for."""
        return None if self._run is None else self._run.id

    @property
    def survives(self) -> bool:
        """Whether what it waits for goes on when the session has ended."""
        return self._run is not None and self._run.survives

    def opened(self, run: OpenedRun) -> None:
        """Hear that the call waits for a run."""
        self._run = run
        if self._reason is not None:
            run.cancel(self._reason)

    def cancel(self, reason: str) -> None:
        """Ask for the end; a run that is open ends in order, and is the call's answer then."""
        self._reason = reason
        if self._run is None:
            self.scope.cancel()
        else:
            self._run.cancel(reason)

    async def tell(self, number: int, message: str) -> None:
        """Tell the client how the call comes along."""
        await self.seat.send(progress(self.id, number, message))


def _what(frame: AskingFrame) -> tuple[str, Mapping[str, Any]]:
    """Return what a frame asks for, and with which arguments."""
    match frame:
        case CallFrame():
            return frame.tool, frame.arguments
        case HoldFrame():
            return HOLD, {}
        case CommandFrame():
            return COMMAND, {"text": frame.text}
        case _:
            assert_never(frame)


class Calls:
    """The calls of all clients, each in a task of its own."""

    def __init__(
        self,
        perform: Perform,
        key_of: KeyOf,
        ended: Callable[[], None],
        text_of: TextOf = as_it_is,
    ) -> None:
        """Begin without a call.

        Args:
            perform: carries one out.
            key_of: finds the settlement that the answer of a call tells.
            ended: called after each.
            text_of: what models read of answers.
        """
        self._text_of = text_of
        self._perform = perform
        self._key_of = key_of
        self._ended = ended
        self._under_way: list[Call] = []
        self._is_idle = trio.Event()
        self._is_idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether none is under way."""
        return not self._under_way

    async def wait_idle(self) -> None:
        """Return when none is under way."""
        while self._under_way:
            await self._is_idle.wait()
        await trio.lowlevel.checkpoint()

    def begin(self, nursery: trio.Nursery, seat: Seat, frame: AskingFrame) -> None:
        """Begin a call of an attached client.

        Raises:
            ConflictError: too many are under way, or one of the same client with the same id.
        """
        if len(self._under_way) >= MOST_CALLS:
            raise ConflictError(f"{MOST_CALLS} calls are under way: wait until one has ended")
        if self._find(seat, frame.id) is not None:
            raise ConflictError(f"a call with the id {frame.id!r} is under way: choose another id")
        call = Call(seat, frame)
        self._under_way.append(call)
        self._is_idle = trio.Event()
        nursery.start_soon(self._carry, call)

    def cancel(self, seat: Seat, id_: int | str) -> None:
        """Ask for the end of a call; one that has ended needs none."""
        call = self._find(seat, id_)
        if call is not None:
            call.cancel("cancelled by the coordinator")

    def cancel_mortal(self, reason: str) -> None:
        """Ask for the end of every call that does not wait for a run that survives."""
        for call in self._under_way:
            if not call.survives:
                call.cancel(reason)

    def awaited_by(self, seat: Seat) -> Collection[RunId]:
        """Return the runs whose end a call of the client will tell."""
        return {call.run for call in self._under_way if call.seat is seat and call.run is not None}

    def _find(self, seat: Seat, id_: int | str) -> Call | None:
        return next((one for one in self._under_way if (one.seat, one.id) == (seat, id_)), None)

    async def _carry(self, call: Call) -> None:
        try:
            await call.seat.send(await self._outcome(call))
        finally:
            self._under_way.remove(call)
            if not self._under_way:
                self._is_idle.set()
            self._ended()

    async def _outcome(self, call: Call) -> Mapping[str, Any]:
        """Return the frame that tells what came of a call."""
        try:
            with call.scope:
                answer = await self._perform(call.asked, call.opened, call.tell)
                return await self._result(call, answer)
            return call_error(call.id, CANCELLED)
        except PinataError as error:
            return call_error(call.id, str(error))
        except Exception as error:  # noqa: BLE001 - the other calls and runs of this process go on
            _log.exception("a call of %s broke off", call.asked.tool)
            kind = type(error).__name__
            return call_error(call.id, f"{call.asked.tool} broke off by a fault of pinata: {kind}")

    async def _result(self, call: Call, answer: Answer) -> Mapping[str, Any]:
        key = None if call.run is None else await self._key_of(call.run)
        if key is not None:
            call.seat.sent.add(key)
        return result(call.id, answer, key, self._text_of(call.asked.tool, answer))
