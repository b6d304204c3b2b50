"""A run in the hands of this process: how it stands, how to reach into it, and how it ended."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from engine.core.errors import ConflictError, ExternalError, PinataError
from engine.core.events import Trace
from engine.core.ids import RunId, TaskId
from engine.core.outcome import Status
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.work.ending import ask_end
from pinata.work.observer import Observer, OpenedRun

Answer = dict[str, Any]
Work = Callable[[Observer], Awaitable[Answer]]
_GIVEN_UP = "the call for it was cancelled"
_log = logging.getLogger(f"pinata.{__name__}")


class OwnedRun:
    """A run in the hands of this process, from the call for it until its answer is there.

    It stands between the run and whoever watches it, so that it knows how the run stands.

    Attributes:
        is_in_background: nobody ever waits for its answer.
        is_awaited: somebody waits for its answer, and has not given up.
    """

    def __init__(self, observer: Observer, *, is_in_background: bool = False) -> None:
        """Begin without a run.

        Args:
            observer: hears all that is heard of the run.
            is_in_background: see above.
        """
        self.is_in_background = is_in_background
        self.is_awaited = not is_in_background
        self._observer = observer
        self._opened: OpenedRun | None = None
        self._view = RunView()
        self._reason: str | None = None
        self._preparing = trio.CancelScope()
        self._has_opened, self._has_ended = trio.Event(), trio.Event()
        self._answer: Answer | None = None
        self._failure: PinataError | None = None

    @property
    def id(self) -> RunId | None:
        """The run's id; None until it is opened."""
        return None if self._opened is None else self._opened.id

    @property
    def survives(self) -> bool:
        """Whether it goes on when its session has ended; never before it is opened."""
        return self._opened is not None and self._opened.survives

    @property
    def failure(self) -> PinataError | None:
        """Why the call ended without an answer; None before it has ended, and if it has one."""
        return self._failure

    @property
    def has_settled(self) -> bool:
        """Whether the opened run has come to its end, whatever became of the call."""
        return self._view.settled_at_ms is not None

    def run_opened(self, run: OpenedRun) -> None:
        """See `Observer`."""
        self._opened, self._view = run, run.view.copy()
        self._view.settled_at_ms = None  # a settled run that is opened goes on
        self._has_opened.set()
        self._observer.run_opened(run)

    def happened(self, logged: Logged) -> None:
        """See `Observer`."""
        self._view.apply(*logged)
        self._observer.happened(logged)

    def noted(self, event: Trace) -> None:
        """See `Observer`."""
        self._observer.noted(event)

    def request_cancel(self, reason: str) -> None:
        """Ask for the end; returns at once, and once is enough.

        A run that is still being prepared leaves nothing behind.
        """
        self._reason = self._reason or reason
        if self._opened is None:
            self._preparing.cancel()
        else:
            self._opened.cancel(reason)

    def _give_up(self) -> None:
        self.is_awaited = False
        self.request_cancel(_GIVEN_UP)

    def steer(self, task: TaskId, text: str, *, follow_up: bool) -> None:
        """Leave a message for an agent of the opened run; see `SteerTask`."""
        assert self._opened is not None
        self._opened.steer(task, text, follow_up=follow_up)

    async def cancel(self, reason: str, task: TaskId | None = None) -> bool:
        """Ask for the end of the opened run, or of one task; return whether it has come already.

        What was asked is durable then. An agent at work needs a moment to end.

        Raises:
            UsageError: the run has no such task.
            ConflictError: the run, or the task, has settled.
        """
        run = self._opened
        assert run is not None
        return await ask_end(run, reason, task, standing=self._status, is_over=self._has_ended)

    def _status(self, task: TaskId | None) -> Status:
        if task is not None:
            seen = self._view.tasks.get(task)
            return Status.QUEUED if seen is None else seen.status
        return Status.RUNNING if self._view.settled_at_ms is None else self._view.status

    async def wait_opened(self) -> OpenedRun:
        """Return the run once it is about to work.

        Raises:
            PinataError: nothing came of the call.
        """
        opened = await self.wait_begun()
        assert opened is not None
        return opened

    async def wait_begun(self) -> OpenedRun | None:
        """Return the run once it is about to work; None when there turned out to be nothing to do.

        Raises:
            PinataError: nothing came of the call.
        """
        try:
            await self._has_opened.wait()
        except trio.Cancelled:
            self._give_up()
            raise
        if self._opened is None and self._failure is not None:
            raise self._failure
        return self._opened

    async def wait_answer(self) -> Answer:
        """Return the answer of the call; whoever stops waiting for it ends the run.

        Raises:
            PinataError: it has none.
        """
        try:
            await self._has_ended.wait()
        except trio.Cancelled:
            self._give_up()
            raise
        if self._answer is None:
            assert self._failure is not None
            raise self._failure
        return self._answer

    async def carry(self, work: Work) -> None:
        """Do the work; whatever goes wrong is kept for those who wait."""
        try:
            with self._preparing:
                self._answer = await work(self)
            if self._answer is None:
                self._failure = ConflictError(f"cancelled before anything began: {self._reason}")
        except PinataError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - the other runs of this process go on
            _log.exception("%s broke off", self._name)
            kind = type(error).__name__
            self._failure = ExternalError(f"{self._name} broke off by a fault of pinata: {kind}")
        finally:
            self._has_opened.set()
            self._has_ended.set()

    @property
    def _name(self) -> str:
        return "a run" if self._opened is None else f"run {self._opened.id}"
