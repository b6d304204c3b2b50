"""The owner's end of one connection to a run: who is let in, what it is shown, what it may ask.

Frames are JSON lines. The client says `hello` and, if it is let in, is told `welcome`. A viewer is
then sent a `snapshot`, all `events` after it and, of a lean run, a `note` of whatever only shows
what an agent does; it sends an `ack` of what it has dealt with, and gets a new snapshot when it
falls behind. `ended` says that the run has settled. Questions (`steer`, `cancel`, `messages`)
carry an `id`, which `done` or `error` repeats.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeVar, assert_never

import trio

from agents.transcript import SaidMessage
from engine.core.errors import ConflictError, PinataError, UsageError
from engine.core.events import Sender
from engine.core.ids import TaskId
from engine.core.view import RunView
from engine.records.link import (
    VERSION,
    AckFrame,
    CancelFrame,
    FactsV1,
    HelloFrame,
    MessagesFrame,
    RequestFrame,
    SteerFrame,
    decode_request,
    encode_error,
    encode_facts,
)
from engine.records.view import encode_view
from engine.store import RunFolder
from engine.system.nursery import open_flat_nursery
from pinata.work.conversation import read_conversation
from pinata.work.frames import FrameError, FrameReader, encode_frame, send_bytes, send_frame
from pinata.work.link_ring import Entry
from pinata.work.linked_run import LinkedRun

T = TypeVar("T")

PATIENCE_S: Final = 10.0
MOST_BEHIND: Final = 1_000
MOST_VIEWERS: Final = 32
# Events that come close together travel together.
_BATCH_S = 0.03
_BATCH_BYTES = 256 << 10
# For those who are not shown the run, and stay for a moment only.
_SPARE_SEATS = 16
_MOST_READING = 4
_MOST_ENCODING = 2


class Bounds:
    """What all connections of a process may do at once.

    Attributes:
        reading: conversations that are read and sent; they are long.
        encoding: threads that are busy for a connection, so that runs find some that are not.
    """

    def __init__(self) -> None:
        self.reading = trio.CapacityLimiter(_MOST_READING)
        self.encoding = trio.CapacityLimiter(_MOST_ENCODING)


async def serve_viewer(
    run: LinkedRun,
    stream: trio.abc.Stream,
    reader: FrameReader,
    hello: HelloFrame,
    *,
    bounds: Bounds,
) -> None:
    """Serve one who was let in, until it leaves or the run's owner has nothing more to say.

    Args:
        run: the one that is served.
        stream: closed by the caller.
        reader: of the stream.
        hello: how it began.
        bounds: shared by all connections of this process.
    """
    # Gone, or stuck: nobody is left to be told.
    with suppress(FrameError):
        is_shown = hello.role == "viewer"
        if run.viewers >= MOST_VIEWERS + (0 if is_shown else _SPARE_SEATS):
            refused = f"run {run.run.id} has {MOST_VIEWERS} viewers already: close one of them"
            frame = {"type": "error", **encode_error(ConflictError(refused))}
            await send_frame(stream, frame, patience_s=PATIENCE_S)
            return
        run.viewer_came()
        try:
            await _Viewer(run, stream, reader, hello, bounds).serve()
        finally:
            run.viewer_left()


class _Viewer:
    """One client that was let in."""

    def __init__(
        self,
        run: LinkedRun,
        stream: trio.abc.Stream,
        reader: FrameReader,
        hello: HelloFrame,
        bounds: Bounds,
    ) -> None:
        self._run = run
        self._stream = stream
        self._reader = reader
        self._is_shown = hello.role == "viewer"
        self._sender = Sender.PARENT if hello.role == "coordinator" else Sender.USER
        self._bounds = bounds
        self._sending, self._answering = trio.Lock(), trio.Lock()
        self._times_opened = 0
        self._place = 0
        self._acknowledged = -1
        self._knows_end = False

    async def serve(self) -> None:
        await self._send(encode_frame({"type": "welcome", "v": VERSION, "run": self._run.run.id}))
        async with open_flat_nursery() as nursery:
            nursery.start_soon(self._answer_all, nursery.cancel_scope)
            if self._is_shown:
                await self._show()
            else:
                await self._wait_leaving()
            # What was asked is answered first.
            async with self._answering:
                nursery.cancel_scope.cancel()

    async def _wait_leaving(self) -> None:
        while not self._run.is_leaving:
            await self._run.news.park()

    async def _show(self) -> None:
        """Show the run until its owner has nothing more to say."""
        run = self._run
        while True:
            if self._is_behind():
                await self._send_snapshot()
            elif self._place < run.ring.end:
                entries = run.ring.since(self._place, _BATCH_BYTES)
                self._place += len(entries)
                await self._send(_frames(entries))
            elif run.is_settled and not self._knows_end:
                self._knows_end = True
                await self._send(encode_frame({"type": "ended"}))
            elif run.is_leaving:
                return
            else:
                await run.news.park()
                await self._wait_batch()

    async def _wait_batch(self) -> None:
        if not (self._run.is_settled or self._run.is_leaving):
            await trio.sleep(_BATCH_S)

    def _is_behind(self) -> bool:
        run = self._run
        return (
            self._times_opened != run.times_opened
            or self._place < run.ring.start
            or run.view.seq - self._acknowledged > MOST_BEHIND
        )

    async def _send_snapshot(self) -> None:
        run = self._run
        # All of one moment: nothing is waited for in between.
        self._place, self._times_opened = run.ring.end, run.times_opened
        self._knows_end = False
        view, facts = run.view.copy(), run.facts
        self._acknowledged = max(self._acknowledged, view.seq)
        notes = _frames([run.note(event) for event in run.doings])
        snapshot = await self._in_thread(partial(_snapshot, facts, view))
        await self._send(snapshot + notes)

    async def _answer_all(self, everything: trio.CancelScope) -> None:
        """Do what the client asks, one thing after the other, until it leaves."""
        fault: FrameError | None = None
        try:
            while (frame := await self._reader.receive()) is not None:
                async with self._answering:
                    await self._answer(frame)
        except FrameError as error:
            fault = error
        if fault is not None:
            await self._send_error(None, fault)
        everything.cancel()

    async def _answer(self, frame: dict[str, Any]) -> None:
        try:
            request = decode_request(frame)
        except UsageError as error:
            raise FrameError(str(error)) from error
        if isinstance(request, AckFrame):
            self._acknowledged = max(self._acknowledged, min(request.seq, self._run.view.seq))
            return
        try:
            told = await self._do(request)
        except PinataError as error:
            await self._send_error(request.id, error)
            return
        await self._send(encode_frame({"type": "done", "id": request.id, **told}))

    async def _do(self, request: RequestFrame) -> dict[str, Any]:
        match request:
            case SteerFrame():
                self._run.steer(
                    TaskId(request.task),
                    request.text,
                    follow_up=request.follow_up,
                    sender=self._sender,
                )
                return {}
            case CancelFrame():
                task = None if request.task is None else TaskId(request.task)
                return {"ended": await self._run.cancel(task, self._sender)}
            case MessagesFrame():
                await self._send_messages(request)
                return {}
            case AckFrame():
                return {}
            case _:
                assert_never(request)

    async def _send_messages(self, request: MessagesFrame) -> None:
        run = self._run
        read = partial(
            read_conversation,
            RunFolder(run.run.folder),
            run.run.agents,
            run.view.copy(),
            TaskId(request.task),
            request.attempt,
        )
        async with self._bounds.reading:
            said = await self._in_thread(read)
            for part in _parts(said):
                messages = [{"role": each.role, "text": each.text} for each in part]
                frame = {"type": "messages", "id": request.id, "messages": messages}
                await self._send(await self._in_thread(partial(encode_frame, frame)))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work, limiter=self._bounds.encoding)

    async def _send_error(self, request: int | None, error: PinataError) -> None:
        about = {} if request is None else {"id": request}
        await self._send(encode_frame({"type": "error", **about, **encode_error(error)}))

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await send_bytes(self._stream, data, patience_s=PATIENCE_S)


def _snapshot(facts: FactsV1, view: RunView) -> bytes:
    shown = {"run": encode_facts(facts), "view": encode_view(view)}
    return encode_frame({"type": "snapshot", "seq": view.seq, **shown})


def _frames(entries: Iterable[Entry]) -> bytes:
    """Return frames of events that follow on each other, and of notes between them."""
    frames: list[bytes] = []
    for is_note, group in groupby(entries, lambda entry: entry.is_note):
        if is_note:
            frames += (b'{"type":"note","event":' + entry.data + b"}\n" for entry in group)
        else:
            events = b",".join(entry.data for entry in group)
            frames.append(b'{"type":"events","events":[' + events + b"]}\n")
    return b"".join(frames)


def _parts(said: Sequence[SaidMessage]) -> Iterable[Sequence[SaidMessage]]:
    """Return messages in parts that are not long, unless a message is."""
    part: list[SaidMessage] = []
    size = 0
    for each in said:
        if part and size + len(each.text) > _BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.text)
    if part:
        yield part
