"""The frames by which a session's host asks models through the program that is attached to it.

Here the host asks and the client answers. What the host asks has a number of its own, `request`,
which answers repeat; it has nothing to do with the `id` of a client's calls. What a stream brings
is asked for frame by frame: a client sends pieces once for `stream` and once for every `more`, all
that have come by then and at least one, so that whoever takes them slowly costs no memory here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from engine.records.model import ThinkingField
from engine.records.request import Request

MOST_PIECES: Final = 10_000
_MOST_FAULT_CHARS = 2_000
_MOST_NAME_CHARS = 500
_Name = Annotated[str, Field(min_length=1, max_length=_MOST_NAME_CHARS)]
RequestNumber = Annotated[int, Field(ge=1, description="the number that the host gave")]


class ListingFrame(Request):
    """Answers `find_model`.

    Attributes:
        fault: why the model cannot be asked; the other fields mean nothing then.
        context_tokens: how much a conversation and its next answer may have; None when unknown.
        has_price: whether the client knows what answers cost.
    """

    type: Literal["model"]
    request: RequestNumber
    fault: Annotated[str | None, Field(max_length=_MOST_FAULT_CHARS)] = None
    context_tokens: Annotated[int | None, Field(ge=1)] = None
    has_price: bool = False


class PiecesFrame(Request):
    """The next part of an answer.

    Attributes:
        pieces: as they came, in order; an `end` or a `fault` is the last of the whole answer. What
            is in one comes from a provider, and is taken apart by whoever reads the answer.
    """

    type: Literal["pieces"]
    request: RequestNumber
    pieces: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_PIECES)]


class UsesFrame(Request):
    """Says with which model the session itself works from now on."""

    type: Literal["uses"]
    provider: _Name
    model: _Name
    thinking: ThinkingField


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What is asked of a model, as clients understand it.

    Attributes:
        thinking: how much it shall think.
        messages: the conversation so far; see `agents.models.coordinator`.
        tools: each with a name, a description and a JSON schema.
    """

    provider: str
    model: str
    thinking: str
    system: str
    messages: Sequence[Mapping[str, object]]
    tools: Sequence[Mapping[str, object]]


def find_model(request: int, provider: str, model: str) -> dict[str, Any]:
    """Return the question whether a model can be asked; the client answers with `model`."""
    return {"type": "find_model", "request": request, "provider": provider, "model": model}


def stream(number: int, asked: StreamRequest) -> dict[str, Any]:
    """Return what opens a stream, and asks for its first pieces."""
    return {
        "type": "stream",
        "request": number,
        "provider": asked.provider,
        "model": asked.model,
        "thinking": asked.thinking,
        "system": asked.system,
        "messages": asked.messages,
        "tools": asked.tools,
    }


def more(request: int) -> dict[str, Any]:
    """Return what asks for the next pieces of a stream."""
    return {"type": "more", "request": request}


def abort(request: int) -> dict[str, Any]:
    """Return that nobody waits for a stream any more; nothing is answered."""
    return {"type": "abort", "request": request}
