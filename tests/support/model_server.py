"""A model server on the loopback interface that says what a test wants, to whoever asks it.

It answers `POST .../chat/completions` as OpenAI does and `POST .../messages` as Anthropic does.
What it says comes from prepared answers, or from a script as the `scripted` model reads it.
"""

import json
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

import h11
import trio
import trio.testing

from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    Model,
    StopReason,
    Trouble,
    Usage,
)
from agents.models.script import Script
from agents.models.scripted import ScriptedModel
from tests.support.model_dialects import (
    AnthropicDialect,
    Dialect,
    OpenAiDialect,
    Refusal,
    SpokenPiece,
    refusal_of,
)

_DIALECTS: Mapping[str, Callable[[Mapping[str, object]], Dialect]] = {
    "/chat/completions": OpenAiDialect,
    "/messages": AnthropicDialect,
}
_EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
_BRIEF_FACTS = {
    "task": re.compile(r"^# Task (\S+)$", re.MULTILINE),
    "workspace": re.compile(r"^## Workspace\n\n[^`\n]*`([^`\n]+)`", re.MULTILINE),
    "fingerprint": re.compile(r"^- Fingerprint: (\S+)$", re.MULTILINE),
}
_REPAIR = "\n## Repair\n"


class After(Enum):
    """What happens when all that was prepared has been sent."""

    END = "end"
    CUT = "cut"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class Spoken:
    """An answer in pieces, put into the asker's dialect.

    Attributes:
        pieces: without an end at the end, `after` says what becomes of it.
        after: END adds the end that a healthy server would add.
    """

    pieces: Sequence[SpokenPiece]
    after: After = After.END


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer byte by byte.

    Attributes:
        chunks: of the body; each is sent by itself.
    """

    chunks: Sequence[bytes]
    after: After = After.END
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: _EVENT_STREAM)


Answer = Spoken | Refusal | RawAnswer | Model


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What somebody asked.

    Attributes:
        headers: by their names in lower case.
    """

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, object]

    @property
    def first_text(self) -> str:
        """The text of the first user message: the brief."""
        messages = self.body.get("messages")
        for message in messages if isinstance(messages, list) else ():
            if message["role"] == "user":
                return _text_of(message["content"])
        return ""


@dataclass
class ModelServer:
    """A server while it listens, and what has happened to it.

    Attributes:
        url: without a path.
        requests: all that came, in order.
        connections: how many were opened.
        disconnects: how often an asker went away before its answer was complete.
    """

    url: str
    requests: list[ModelRequest] = field(default_factory=list)
    connections: int = 0
    disconnects: int = 0
    _listening: trio.CancelScope = field(default_factory=trio.CancelScope)
    _gone: trio.Event = field(default_factory=trio.Event)
    _asked: trio.Event = field(default_factory=trio.Event)

    @property
    def openai_url(self) -> str:
        """What a client of OpenAI's dialect takes for its base URL."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """What a client of Anthropic's dialect takes for its base URL."""
        return self.url

    async def stop_listening(self) -> None:
        """Refuse connections from now on, and cut those that are open."""
        self._listening.cancel()
        await trio.testing.wait_all_tasks_blocked()

    def note_request(self, request: ModelRequest) -> None:
        """Note that somebody has asked."""
        self.requests.append(request)
        self._asked.set()
        self._asked = trio.Event()

    async def wait_asked(self, count: int) -> None:
        """Wait until there were so many requests."""
        while len(self.requests) < count:
            await self._asked.wait()

    async def wait_disconnected(self) -> None:
        """Wait until an asker has gone away from an unfinished answer."""
        await self._gone.wait()


def one_after_another(*answers: Answer) -> Callable[[ModelRequest], Answer]:
    """Return what gives each request the next answer, and empty ones after the last."""
    left = iter(answers)
    return lambda _: next(left, Spoken(()))


def from_script(script: Script) -> Callable[[ModelRequest], Answer]:
    """Return what answers as the script says for the task that the brief names.

    A brief that asks for a repair is its task's second attempt; one that names no task is `any`.
    """
    models: dict[tuple[str, int], ScriptedModel] = {}

    def choose(request: ModelRequest) -> Answer:
        brief = request.first_text
        facts = {
            name: found[1] for name, each in _BRIEF_FACTS.items() if (found := each.search(brief))
        }
        key = (facts.pop("task", "any"), 2 if _REPAIR in brief else 1)
        if key not in models:
            models[key] = ScriptedModel(script, "loopback", *key, facts)
        return models[key]

    return choose


@asynccontextmanager
async def open_model_server(
    choose: Callable[[ModelRequest], Answer],
) -> AsyncIterator[ModelServer]:
    """Listen on a free port of 127.0.0.1 until the context is left; answers still open are cut."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    server = ModelServer(f"http://127.0.0.1:{port}")

    async def serve(stream: trio.SocketStream) -> None:
        server.connections += 1
        # A server outlives whatever becomes of one connection.
        with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
            async with stream:
                await _Connection(server, stream, choose).serve()

    async def listen() -> None:
        with server._listening:
            await trio.serve_listeners(serve, listeners)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()


class _Connection:
    """One connection of an asker, with as many requests as it likes, one at a time."""

    def __init__(
        self,
        server: ModelServer,
        stream: trio.SocketStream,
        choose: Callable[[ModelRequest], Answer],
    ) -> None:
        self._server = server
        self._stream = stream
        self._choose = choose
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        self._left = False

    async def serve(self) -> None:
        """Answer requests until the asker leaves or an answer breaks the connection off."""
        while (request := await self._read_request()) is not None:
            self._server.note_request(request)
            dialect = next(
                (make for end, make in _DIALECTS.items() if request.path.endswith(end)), None
            )
            if dialect is None:
                await self._send_whole(404, {}, b'{"error": {"message": "no such path"}}')
            elif not await self._answer_watched(request, dialect(request.body)):
                return
            self._http.start_next_cycle()

    async def _answer_watched(self, request: ModelRequest, dialect: Dialect) -> bool:
        """Return whether the connection can go on; drop the answer when the asker leaves."""
        lasts = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            try:
                lasts = await self._answer(self._choose(request), dialect)
            except trio.BrokenResourceError:
                self._note_left()
            nursery.cancel_scope.cancel()
        return lasts and self._http.our_state is h11.DONE

    async def _watch(self, scope: trio.CancelScope) -> None:
        """Notice that the asker leaves; what it sends early is for its next request."""
        with suppress(trio.BrokenResourceError):
            while data := await self._stream.receive_some():
                self._http.receive_data(data)
        self._note_left()
        scope.cancel()

    def _note_left(self) -> None:
        if self._http.our_state is not h11.DONE and not self._left:
            self._left = True
            self._server.disconnects += 1
            self._server._gone.set()

    async def _answer(self, answer: Answer, dialect: Dialect) -> bool:
        match answer:
            case Refusal():
                body = dialect.refusal(answer)
                await self._send_whole(answer.status, dict(answer.headers or {}), body)
                return True
            case RawAnswer():
                await self._send_head(answer.status, answer.headers)
                for chunk in answer.chunks:
                    await self._send(h11.Data(data=chunk))
                return await self._finish(answer.after)
            case Spoken():
                async with aclosing(_each(answer)) as pieces:
                    return await self._speak(pieces, dialect, answer.after, _usage_of(answer))
            case _:
                async with answer.stream("", (), ()) as streamed:
                    return await self._speak(streamed, dialect, After.END, Usage())

    async def _speak(
        self,
        pieces: AsyncIterator[SpokenPiece],
        dialect: Dialect,
        after: After,
        usage: Usage,
    ) -> bool:
        begun = False
        async for piece in pieces:
            dropped = isinstance(piece, AnswerFailed) and piece.trouble is Trouble.DISCONNECT
            if isinstance(piece, AnswerFailed) and not begun and not dropped:
                return await self._answer(refusal_of(piece), dialect)
            if not begun:
                begun = True
                await self._send_head(200, _EVENT_STREAM)
                await self._send_all(dialect.begin(usage))
            if dropped:
                return False
            if isinstance(piece, AnswerEnded) and after is After.END:
                await self._send_end(dialect.piece(piece))
                return True
            await self._send_all(dialect.piece(piece))
        return await self._finish(after)

    async def _finish(self, after: After) -> bool:
        if after is After.HANG:
            await trio.sleep_forever()
        if after is After.CUT:
            return False
        await self._send(h11.EndOfMessage())
        return True

    async def _send_all(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            await self._send(h11.Data(data=part))

    async def _send_end(self, parts: Iterable[bytes]) -> None:
        """Send the last parts; whoever leaves once it has them has left nothing unfinished."""
        events = (*(h11.Data(data=part) for part in parts), h11.EndOfMessage())
        await self._stream.send_all(b"".join(self._http.send(event) or b"" for event in events))

    async def _send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        sizes = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        await self._send_head(status, {**sizes, **headers})
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        await self._send(h11.Response(status_code=status, headers=list(headers.items())))

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send_all(data)

    async def _read_request(self) -> ModelRequest | None:
        """Return the next request; None when there is none."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._stream.receive_some())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode(): value.decode() for name, value in head.headers}
                path = head.target.decode().partition("?")[0]
                return ModelRequest(path, headers, json.loads(bytes(body) or b"{}"))
            else:
                return None


async def _each(answer: Spoken) -> AsyncGenerator[SpokenPiece, None]:
    for piece in answer.pieces:
        await trio.lowlevel.checkpoint()
        yield piece
    ends = answer.pieces and isinstance(answer.pieces[-1], AnswerEnded | AnswerFailed)
    if answer.after is After.END and not ends:
        yield AnswerEnded(StopReason.STOP)


def _usage_of(answer: Spoken) -> Usage:
    ends = (piece.usage for piece in answer.pieces if isinstance(piece, AnswerEnded))
    return next(ends, Usage())


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")
