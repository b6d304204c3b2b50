"""The other end of a link: how another process of the same user watches a run, and reaches into it.

What the run's owner says is applied as it arrives, whether or not somebody watches, so that
questions are answered meanwhile and whoever begins to watch begins from how the run stands.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from agents.transcript import SaidMessage
from engine.core.errors import CorruptionError, PinataError
from engine.core.events import Event, Trace
from engine.core.ids import RunId, TaskId
from engine.core.quote import quote_value
from engine.core.view import RunView
from engine.records.event import Logged, decode_logged
from engine.records.link import FactsV1, Role, decode_error, decode_facts
from engine.records.view import decode_view
from engine.store import RunFolder
from engine.system.nursery import open_flat_nursery
from pinata.work.frames import FrameError, FrameReader, send_frame
from pinata.work.link_entry import PATIENCE_S, LinkLostError, enter
from pinata.work.link_ring import Doings
from pinata.work.observer import Observer, OpenedRun

_log = logging.getLogger(f"pinata.{__name__}")
Frame = dict[str, Any]


class _Question:
    """What was asked, until it is answered."""

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.has_ended = False
        self.error: PinataError | None = None
        self.said: list[SaidMessage] = []


class LinkClient:
    """A connection to the process that owns a run; see `open_link`."""

    def __init__(self, run: RunId, stream: trio.abc.Stream, reader: FrameReader) -> None:
        """Begin right after the welcome."""
        self._run = run
        self._stream = stream
        self._reader = reader
        self._sending = trio.Lock()
        self._questions: dict[int, _Question] = {}
        self._next_id = 0
        self._facts: FactsV1 | None = None
        self._view = RunView()
        self._doings = Doings()
        self._observer: Observer | None = None
        self._has_ended = False
        self._is_lost = False
        self._news = trio.lowlevel.ParkingLot()

    async def steer(self, task: TaskId, text: str, *, follow_up: bool) -> None:
        """Leave a message for the agent that works on `task`.

        Raises:
            UsageError: there is no such task, or the text is blank or too long.
            ConflictError: the task is not running, or its agent has already ended.
            LinkLostError: the run's owner is gone.
        """
        await self._ask({"type": "steer", "task": task, "text": text, "followUp": follow_up})

    async def cancel(self, task: TaskId | None = None) -> bool:
        """Ask for the end of the run, or of one task; return whether it has come already.

        What was asked is durable then. An agent at work needs a moment to end.

        Raises:
            UsageError: the run has no such task.
            ConflictError: the run, or the task, has settled.
            LinkLostError: the run's owner is gone; it may have heard all the same.
        """
        about = {} if task is None else {"task": task}
        asked = await self._ask({"type": "cancel", **about})
        return asked.has_ended

    async def messages(self, task: TaskId, attempt: int | None) -> Sequence[SaidMessage]:
        """Return all that was said in an attempt at a task, the newest one without a number.

        Raises:
            UsageError: there is no such task or attempt, or nothing was said in it yet.
            CorruptionError: what is stored is damaged.
            LinkLostError: the run's owner is gone.
        """
        about = {} if attempt is None else {"attempt": attempt}
        return (await self._ask({"type": "messages", "task": task, **about})).said

    async def watch(self, observer: Observer) -> None:
        """Let `observer` see the run until it has settled and all of that was shown.

        It is told how the run stands (`run_opened`) at first and each time it fell too far behind
        to be told all.

        Args:
            observer: the only one at a time.

        Raises:
            LinkLostError: the run's owner is gone, and the run has not settled.
        """
        assert self._observer is None
        self._observer = observer
        try:
            self._show_all()
            while not self._has_ended:
                await self._wait_news()
        finally:
            self._observer = None

    async def wait_reopened(self) -> None:
        """Return once a run that has settled goes on in the same process.

        Raises:
            LinkLostError: its owner has nothing more to say of it.
        """
        while self._has_ended:
            await self._wait_news()

    async def _wait_news(self) -> None:
        if self._is_lost:
            raise LinkLostError(self._run)
        await self._news.park()

    async def _ask(self, frame: Frame) -> _Question:
        if self._is_lost:
            raise LinkLostError(self._run)
        question, number = _Question(), self._next_id
        self._next_id += 1
        self._questions[number] = question
        try:
            await self._send({**frame, "id": number})
            await question.answered.wait()
        finally:
            del self._questions[number]
        if question.error is not None:
            raise question.error
        return question

    async def _send(self, frame: Frame) -> None:
        try:
            async with self._sending:
                await send_frame(self._stream, frame, patience_s=PATIENCE_S)
        except FrameError as error:
            raise LinkLostError(self._run) from error

    async def receive_all(self) -> None:
        """Apply what the run's owner says until it says nothing more."""
        try:
            while (frame := await self._reader.receive()) is not None:
                if self._apply(frame):
                    await self._acknowledge()
        except (FrameError, CorruptionError) as error:
            _log.info("run %s: its owner is not understood: %s", self._run, error)
        finally:
            self._lose()

    async def _acknowledge(self) -> None:
        # An owner that is about to end hears nothing more, but its last words are still to come.
        with suppress(LinkLostError):
            await self._send({"type": "ack", "seq": self._view.seq})

    def _lose(self) -> None:
        self._is_lost = True
        for question in self._questions.values():
            if not question.answered.is_set():
                question.error = LinkLostError(self._run)
                question.answered.set()
        self._news.unpark_all()

    def _apply(self, frame: Frame) -> bool:
        """Apply one frame; return whether that is to be acknowledged.

        Raises:
            CorruptionError: it makes no sense.
            FrameError: the owner is about to close the connection, and says why.
        """
        match frame.get("type"):
            case "snapshot":
                self._begin(decode_facts(frame.get("run")), decode_view(frame.get("view")))
                return True
            case "events":
                for logged in _events(frame.get("events"), self._run):
                    self._happened(logged)
                return True
            case "note":
                for logged in _events([frame.get("event")], self._run):
                    self._noted(logged.event)
            case "ended":
                self._has_ended = True
                self._news.unpark_all()
            case "messages" | "done" | "error":
                self._hear_answer(frame)
            case other:
                raise CorruptionError(f"unknown frame {quote_value(other)}")
        return False

    def _begin(self, facts: FactsV1, view: RunView) -> None:
        self._facts, self._view, self._doings = facts, view, Doings()
        self._has_ended = False
        self._show_all()
        self._news.unpark_all()

    def _show_all(self) -> None:
        """Show the observer how the run stands; without a snapshot there is nothing to show."""
        if self._observer is None or self._facts is None:
            return
        self._observer.run_opened(self._opened(self._facts))
        for event in self._doings:
            self._observer.noted(event)

    def _opened(self, facts: FactsV1) -> OpenedRun:
        return OpenedRun(
            id=self._run,
            folder=Path(facts.folder),
            started_at_ms=facts.started_at_ms,
            agents={TaskId(task): agent for task, agent in facts.agents.items()},
            after={
                TaskId(task): tuple(TaskId(each) for each in after)
                for task, after in facts.after.items()
            },
            view=self._view.copy(),
            notices=tuple(facts.notices),
        )

    def _happened(self, logged: Logged) -> None:
        self._view.apply(*logged)
        self._doings.happened(logged.event)
        if self._observer is not None:
            self._observer.happened(logged)

    def _noted(self, event: Event) -> None:
        if not isinstance(event, Trace):
            raise CorruptionError("a note of what is none")
        self._doings.noted(event)
        if self._observer is not None:
            self._observer.noted(event)

    def _hear_answer(self, frame: Frame) -> None:
        if "id" not in frame:
            raise FrameError(str(frame.get("error")))
        question = self._questions.get(frame["id"])
        if question is None:
            return  # whoever asked has given up
        try:
            match frame["type"]:
                case "messages":
                    question.said += [SaidMessage(**each) for each in frame["messages"]]
                    return
                case "done":
                    question.has_ended = bool(frame.get("ended"))
                case _:
                    question.error = decode_error(frame)
        except (KeyError, TypeError) as error:
            raise CorruptionError("an answer without sense") from error
        question.answered.set()


def _events(data: object, run: RunId) -> list[Logged]:
    if not isinstance(data, list):
        raise CorruptionError("events that are no list")
    return [decode_logged(each, run=run) for each in data]


@asynccontextmanager
async def open_link(folder: RunFolder, *, role: Role = "viewer") -> AsyncIterator[LinkClient]:
    """Be connected, inside the block, to the process that owns a run.

    Args:
        folder: the run's.
        role: for whom it is: what a coordinator tells an agent is recorded as the session's, what
            others do as the user's. Only a viewer is shown the run.

    Raises:
        NoLinkError: nobody serves the run.
        ConflictError: it has too many viewers already.
    """
    async with enter(folder, role) as (stream, reader), open_flat_nursery() as nursery:
        client = LinkClient(folder.run, stream, reader)
        nursery.start_soon(client.receive_all)
        yield client
        nursery.cancel_scope.cancel()
