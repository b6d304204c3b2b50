"""The frames by which a session's host tells the session of its agents, and reads what it told.

Here the host asks and the client answers. What the host asks has a number of its own, `request`,
which answers repeat. The client tells by itself whether it is idle, whenever that changes.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from engine.records.host_models import RequestNumber
from engine.records.request import Request

MOST_ENTRIES: Final = 100_000
_MOST_FAULT_CHARS = 2_000
_MOST_KIND_CHARS = 200


class IdleFrame(Request):
    """Says whether the session is idle: no answer is under way, and none is about to be."""

    type: Literal["idle"]
    idle: bool


class EntryField(Request):
    """An entry of the herd in the session's history.

    Attributes:
        on_branch: whether the session, as it stands, goes on from it.
    """

    kind: Annotated[str, Field(max_length=_MOST_KIND_CHARS)]
    details: dict[str, Any]
    on_branch: bool


class HistoryFrame(Request):
    """Answers `read_history`: the herd's entries, the oldest first."""

    type: Literal["history"]
    request: RequestNumber
    entries: Annotated[list[EntryField], Field(max_length=MOST_ENTRIES)] = Field(
        default_factory=list
    )
    fault: Annotated[str | None, Field(max_length=_MOST_FAULT_CHARS)] = None


class EnteredFrame(Request):
    """Answers `enter`.

    Attributes:
        entered: whether the session's file holds the entry; without a fault it is false where the
            session was busy, and nothing was done.
    """

    type: Literal["entered"]
    request: RequestNumber
    entered: bool
    fault: Annotated[str | None, Field(max_length=_MOST_FAULT_CHARS)] = None


def read_history(request: int, kinds: Sequence[str]) -> dict[str, Any]:
    """Return the question for all entries of these kinds; the client answers with `history`."""
    return {"type": "read_history", "request": request, "kinds": list(kinds)}


def enter(
    request: int,
    kind: str,
    details: Mapping[str, Any],
    *,
    text: str | None = None,
    only_if_idle: bool = False,
) -> dict[str, Any]:
    """Return the order to put something into the session; the client answers with `entered`.

    Args:
        request: a number that no other order has.
        kind: what the entry is called.
        details: what programs read of it; with a `delivery` that the session holds already, in an
            entry of the same kind, nothing is put in again.
        text: what the model reads, upon which the session works; None for what no model reads.
        only_if_idle: do nothing while an answer is under way.
    """
    return {
        "type": "enter",
        "request": request,
        "kind": kind,
        "details": details,
        "text": text,
        "onlyIfIdle": only_if_idle,
    }
