"""What a session's host writes down for those who look for it, and the frames it speaks.

Frames are JSON objects, one a line; `type` says which. A client says hello first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from engine.core.errors import CorruptionError, UsageError
from engine.core.quote import quote_value
from engine.records.fields import NO_NUL
from engine.records.host_models import ListingFrame, PiecesFrame, UsesFrame
from engine.records.host_owner import EnteredFrame, HistoryFrame, IdleFrame
from engine.records.json_text import decode_json
from engine.records.request import Request, decode, explain

VERSION: Final = 1
_ID_RULE = "a number, or text of 1 to 200 characters"
_MOST_ID_CHARS = 200
_KEY_LIMIT_CHARS = 300
_PATH_LIMIT_CHARS = 4096
_Goodbye = Literal["quit", "reload", "new", "resume", "fork"]
CallId = Annotated[
    int | Annotated[str, Field(min_length=1, max_length=_MOST_ID_CHARS)],
    Field(description=_ID_RULE),
]


class HostRecordV1(BaseModel):
    """What `host.json` holds.

    Attributes:
        session: its key.
        socket: where the host listens.
        token: what a client must show; unguessable.
        pid: of the host, for people.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Annotated[Literal[1], Field(description="1, the version that this program reads")] = 1
    session: str
    socket: str
    token: Annotated[str, Field(min_length=32)]
    pid: int


def encode_host(record: HostRecordV1) -> bytes:
    """Return the bytes of `host.json`."""
    return record.model_dump_json(indent=1).encode() + b"\n"


def decode_host(data: bytes, where: str) -> HostRecordV1:
    """Return the record in `data`, which was read from `where`.

    Raises:
        CorruptionError: the bytes are not the record of a host of version 1.
    """
    try:
        return HostRecordV1.model_validate_json(data)
    except ValidationError as error:
        fault = explain(error, HostRecordV1.model_json_schema())
        raise CorruptionError(f"{where} is damaged: {fault}; remove it") from error


class StartedLine(Request):
    """What a host says on stdout, once.

    Attributes:
        serving: the key of its session; None when it cannot serve.
        error: why it cannot.
    """

    serving: str | None = None
    error: str | None = None


class HelloFrame(Request):
    """The first frame of a client.

    Attributes:
        role: a session attaches; a nudge has the host look for what is to be told, and goes; a
            person reaches into the session's herd from a terminal.
        owner: the session, the host's or one of its agents', whose agents a person means.
        mode: in which mode the session's program works, for the record.
        trust: what the session says about trusting the project; see `Context.project_trust`.
        lends_models: whether the client understands what `engine.records.host_models` asks.
        owns_agents: whether it understands what `engine.records.host_owner` asks.
    """

    type: Literal["hello"]
    v: Annotated[Literal[1], Field(description="1, the version that this host speaks")]
    token: str
    role: Literal["session", "nudge", "person"]
    session: str
    owner: Annotated[str | None, Field(max_length=_MOST_ID_CHARS)] = None
    cwd: Annotated[
        str,
        Field(max_length=_PATH_LIMIT_CHARS, pattern="^/", description="an absolute path"),
        NO_NUL,
    ] = "/"
    mode: Annotated[str | None, Field(max_length=_MOST_ID_CHARS)] = None
    trust: bool | None = None
    lends_models: bool = False
    owns_agents: bool = False


class CallFrame(Request):
    """Asks for a tool."""

    type: Literal["call"]
    id: CallId
    tool: Annotated[str, Field(max_length=_MOST_ID_CHARS)]
    arguments: dict[str, Any]


class CancelFrame(Request):
    """Asks for the end of a call that is under way."""

    type: Literal["cancel"]
    id: CallId


class HoldFrame(Request):
    """Asks to be answered once nothing is under way that ends with the session."""

    type: Literal["hold"]
    id: CallId


class CommandFrame(Request):
    """Asks for what a person typed to be carried out.

    Attributes:
        text: what stands after the command's name.
    """

    type: Literal["command"]
    id: CallId
    text: str


class AckFrame(Request):
    """Says that a delivery has arrived for good."""

    type: Literal["ack"]
    delivery: Annotated[str, Field(max_length=_KEY_LIMIT_CHARS)]


class GoodbyeFrame(Request):
    """The last frame of a client that says why it goes."""

    type: Literal["goodbye"]
    reason: _Goodbye


ModelFrame = ListingFrame | PiecesFrame | UsesFrame
OwnerFrame = IdleFrame | HistoryFrame | EnteredFrame
ClientFrame = (
    CallFrame
    | CancelFrame
    | HoldFrame
    | CommandFrame
    | AckFrame
    | ModelFrame
    | OwnerFrame
    | GoodbyeFrame
)
_STARTED: TypeAdapter[StartedLine] = TypeAdapter(StartedLine)
_HELLO: TypeAdapter[HelloFrame] = TypeAdapter(HelloFrame)
_CLIENT: Mapping[str, TypeAdapter[Any]] = {
    "call": TypeAdapter(CallFrame),
    "cancel": TypeAdapter(CancelFrame),
    "hold": TypeAdapter(HoldFrame),
    "command": TypeAdapter(CommandFrame),
    "ack": TypeAdapter(AckFrame),
    "model": TypeAdapter(ListingFrame),
    "pieces": TypeAdapter(PiecesFrame),
    "uses": TypeAdapter(UsesFrame),
    "idle": TypeAdapter(IdleFrame),
    "history": TypeAdapter(HistoryFrame),
    "entered": TypeAdapter(EnteredFrame),
    "goodbye": TypeAdapter(GoodbyeFrame),
}


class UnknownFrameError(UsageError):
    """A client sent a frame that this host does not know; a newer client may know more of them.

    Attributes:
        id: what an answer would have to name.
    """

    def __init__(self, kind: str, id_: int | str) -> None:
        self.id = id_
        known = ", ".join(_CLIENT)
        super().__init__(f"unknown frame {quote_value(kind)}; this host knows {known}")


def decode_hello(frame: Mapping[str, Any]) -> HelloFrame:
    """Return a client's first frame.

    Raises:
        UsageError: it is none.
    """
    return decode(_HELLO, frame, place="hello")


def decode_started(line: bytes) -> StartedLine:
    """Return what a host said when it served, or could not.

    Raises:
        UsageError: no host says that.
    """
    return decode(_STARTED, decode_json(line, "stdout"))


def decode_client_frame(frame: Mapping[str, Any]) -> ClientFrame:
    """Return a frame of a client that has said hello.

    Raises:
        UnknownFrameError: it is none that this program knows, but asks for an answer.
        UsageError: it is none.
    """
    kind = frame.get("type")
    adapter = _CLIENT.get(kind) if isinstance(kind, str) else None
    if adapter is None:
        id_ = frame.get("id")
        if isinstance(kind, str) and isinstance(id_, int | str):
            raise UnknownFrameError(kind, id_)
        raise UsageError(f"a frame must be one of {', '.join(_CLIENT)}")
    found: ClientFrame = decode(adapter, frame, place=str(kind))
    return found


@dataclass(frozen=True, slots=True)
class Told:
    """What a host tells of one settlement, in a frame of its own."""

    delivery: str
    run: str
    status: str
    text: str
    answer: Mapping[str, Any]


def hello(token: str, role: Literal["session", "nudge", "person"], session: str) -> dict[str, Any]:
    """Return the hello of a client that says no more than it must."""
    return {"type": "hello", "v": VERSION, "token": token, "role": role, "session": session}


def welcome(
    pinata: str, tools: list[Any], notices: list[str], instructions: str | None
) -> dict[str, Any]:
    """Return the host's answer to a hello.

    Args:
        pinata: the host's version.
        tools: described.
        notices: what the session should know.
        instructions: what its model should know of agents from the start; None for nothing.
    """
    told = {} if instructions is None else {"instructions": instructions}
    what = {"v": VERSION, "pinata": pinata, "tools": tools, "notices": notices}
    return {"type": "welcome", **what, **told}


def notice(text: str) -> dict[str, Any]:
    """Return what the session should know and was not told when it was welcomed."""
    return {"type": "notice", "text": text}


def progress(id_: int | str, number: int, message: str) -> dict[str, Any]:
    """Return how a call comes along."""
    return {"type": "progress", "id": id_, "number": number, "message": message}


def result(
    id_: int | str, answer: Mapping[str, Any], delivery: str | None, text: str | None = None
) -> dict[str, Any]:
    """Return the answer of a call; with `delivery`, the client shall ack it.

    Args:
        id_: the call's.
        answer: for programs.
        delivery: what the answer stands for.
        text: what a model reads of it; None where it reads the answer itself.
    """
    told = {"delivery": delivery, "text": text}
    named = {name: value for name, value in told.items() if value is not None}
    return {"type": "result", "id": id_, "answer": answer, **named}


def call_error(id_: int | str, message: str) -> dict[str, Any]:
    """Return that a call has no answer."""
    return {"type": "error", "id": id_, "error": message}


def delivery(told: Told) -> dict[str, Any]:
    """Return what a run has come to; the client shall ack it."""
    return {
        "type": "delivery",
        "delivery": told.delivery,
        "run": told.run,
        "status": told.status,
        "text": told.text,
        "answer": told.answer,
    }


def status(text: str | None) -> dict[str, Any]:
    """Return in a few words what works; None when nothing does any more."""
    return {"type": "status", "text": text}


def widget(lines: Sequence[str] | None) -> dict[str, Any]:
    """Return how those stand who work, a line each; None when nobody works any more."""
    return {"type": "widget", "lines": lines}


def displaced(reason: str) -> dict[str, Any]:
    """Return the last frame to a client whose place another one has taken."""
    return {"type": "displaced", "reason": reason}


def refused(message: str) -> dict[str, Any]:
    """Return the last frame to a client that is not served, or no longer."""
    return {"type": "refused", "error": message}
