"""How a run is reached while it works: the file that says where, and the frames that are sent.

What a client sends is decoded strictly; what the owner of the run sends goes to its own user.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    PinataError,
    UsageError,
)
from engine.core.quote import name_list, quote_value
from engine.records.fields import NotNull
from engine.records.request import decode, explain

VERSION: Final = 1
LIMIT_BYTES: Final = 64 << 10  # of the file
_TOKEN_CHARS = 64
# A viewer is shown the run. A user, who is not, reaches into it by hand; a coordinator gives orders
# on behalf of a session.
Role = Literal["viewer", "user", "coordinator"]
_ERRORS: Final[Mapping[str, type[PinataError]]] = {
    "usage": UsageError,
    "conflict": ConflictError,
    "corruption": CorruptionError,
    "external": ExternalError,
}


class LinkV1(BaseModel):
    """What `link.json` holds; only the run's user can read it.

    Attributes:
        socket: where to connect.
        token: unguessable; whoever knows it may read this file.
        pid: of the process that owns the run, for people.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, strict=True)

    kind: Literal["link"] = "link"
    v: Literal[1] = 1
    run: str
    socket: Annotated[str, Field(min_length=1)]
    token: Annotated[str, Field(min_length=_TOKEN_CHARS, repr=False)]
    pid: int


def encode_link(link: LinkV1) -> bytes:
    """Return the bytes of `link.json`."""
    return link.model_dump_json().encode() + b"\n"


def decode_link(data: bytes, where: str) -> LinkV1:
    """Return the link in `data`, which was read from `where`.

    Raises:
        CorruptionError: the bytes are not a link of version 1. The message shows nothing of them.
    """
    try:
        return LinkV1.model_validate_json(data)
    except ValidationError as error:
        raise CorruptionError(f"{where} is damaged, or of another version of pinata") from error


class _Frame(BaseModel):
    # Built when first used: most processes load this module and never do.
    model_config = ConfigDict(
        alias_generator=to_camel, defer_build=True, extra="forbid", frozen=True, strict=True
    )


class HelloFrame(_Frame):
    """What a client says first.

    Attributes:
        role: for whom it speaks, and whether it is shown the run.
        run: the one that it means.
    """

    type: Literal["hello"]
    v: Annotated[int, Field(ge=VERSION, le=VERSION)]  # to a literal, `true` would be 1
    token: Annotated[str, Field(repr=False)]
    role: Role
    run: str


Id = Annotated[int, Field(ge=0, lt=1 << 53)]
Task = Annotated[str, Field(min_length=1)]


class AckFrame(_Frame):
    """All events up to `seq` have been dealt with."""

    type: Literal["ack"]
    seq: Annotated[int, Field(ge=-1)]


class SteerFrame(_Frame):
    """A message for a running agent."""

    type: Literal["steer"]
    id: Id
    task: Task
    text: str
    follow_up: bool = False


class CancelFrame(_Frame):
    """A wish that the run, or one task of it, ends."""

    type: Literal["cancel"]
    id: Id
    task: Annotated[Task | None, NotNull()] = None


class MessagesFrame(_Frame):
    """A question for the conversation of an attempt, the newest one without a number."""

    type: Literal["messages"]
    id: Id
    task: Task
    attempt: Annotated[int | None, NotNull(), Field(ge=1)] = None


RequestFrame = AckFrame | SteerFrame | CancelFrame | MessagesFrame
_REQUESTS: dict[str, type[RequestFrame]] = {
    "ack": AckFrame,
    "steer": SteerFrame,
    "cancel": CancelFrame,
    "messages": MessagesFrame,
}


def decode_hello(frame: object) -> HelloFrame | None:
    """Return the hello that a frame is; None when it is none."""
    try:
        return HelloFrame.model_validate(frame)
    except ValidationError:
        return None


def decode_request(frame: dict[str, Any]) -> RequestFrame:
    """Return what a client that was let in wants.

    Raises:
        UsageError: it is no such frame, or a field of it is wrong.
    """
    name = frame.get("type")
    kind = _REQUESTS.get(name) if isinstance(name, str) else None
    if kind is None:
        known = name_list(list(_REQUESTS), most=len(_REQUESTS))
        raise UsageError(f"unknown frame {quote_value(name)}; the frames are {known}")
    return decode(_adapter(kind), frame, place=f"frame {name}")


@cache
def _adapter(kind: type[RequestFrame]) -> TypeAdapter[RequestFrame]:
    return TypeAdapter(kind)


def encode_error(error: PinataError) -> dict[str, str]:
    """Return what a frame says of an error: its message, and its branch of the error tree."""
    kind = next(name for name, branch in _ERRORS.items() if isinstance(error, branch))
    return {"error": str(error), "kind": kind}


def decode_error(frame: Mapping[str, Any]) -> PinataError:
    """Return the error that `encode_error` made a frame of.

    Raises:
        CorruptionError: it did not.
    """
    match frame:
        case {"error": str(message), "kind": str(kind)} if kind in _ERRORS:
            return _ERRORS[kind](message)
        case _:
            raise CorruptionError("an error that is none")


class FactsV1(BaseModel):
    """What is fixed about a run, as a viewer is told it.

    Attributes:
        folder: where the run is stored.
        started_at_ms: epoch milliseconds.
        agents: which agent has which task.
        after: every task in input order, with the tasks that it waits for.
        notices: what the run's caller was told.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, defer_build=True, frozen=True, populate_by_name=True
    )

    run: str
    folder: str
    started_at_ms: int
    agents: dict[str, str]
    after: dict[str, list[str]]
    notices: list[str]


def encode_facts(facts: FactsV1) -> dict[str, Any]:
    """Return what JSON can hold of `facts`, which is all of it."""
    return facts.model_dump(by_alias=True)


def decode_facts(data: object) -> FactsV1:
    """Return the facts that `encode_facts` made `data` of.

    Raises:
        CorruptionError: it did not.
    """
    try:
        return FactsV1.model_validate(data)
    except ValidationError as error:
        raise CorruptionError(f"the facts of a run are damaged: {explain(error)}") from error
