"""When a managed agent's session is retired: its context is full, so it is brought to an end.

What is retired is not continued. The agent finishes what it is at and hands over completely; a
summary of a summary would lose what the next one needs.
"""

import enum
from collections.abc import Iterable
from typing import Final

from agents.herdsman.identity import SessionId
from agents.herdsman.runtime import GUIDANCE, RETIRED, CompactionReason, Entry, Message

_GUIDANCE: Final = (
    "The context of this session is almost full, and the session will not be continued after this "
    "assignment. Bring the operation that you are at to a coherent end. Start nothing new, and "
    "delegate to no further agents. Then hand over completely in your final message: what is "
    "done and where it is, what is left, what you found out, and which files whoever goes on has "
    "to read."
)


class Step(enum.Enum):
    """What follows when a conversation is to be shortened."""

    COMPACT = "compact"
    RETIRE_AND_COMPACT = "retire_and_compact"
    RETIRE_AND_GO_ON = "retire_and_go_on"


def step(reason: CompactionReason, *, is_on: bool, has_assignment: bool) -> Step:
    """Return what to do.

    A full context ends the session instead of being shortened. One that overflowed is shortened all
    the same, or the agent could not even hand over.
    """
    if not is_on or not has_assignment or reason is CompactionReason.MANUAL:
        return Step.COMPACT
    if reason is CompactionReason.OVERFLOW:
        return Step.RETIRE_AND_COMPACT
    return Step.RETIRE_AND_GO_ON


def is_retired(entries: Iterable[Entry], session: SessionId) -> bool:
    """Return whether a session's history says that it is retired.

    A mark that names another session came with a copied history, and says nothing about this one.
    """
    return any(_names(entry, RETIRED, session) for entry in entries)


def is_guided(entries: Iterable[Entry], session: SessionId) -> bool:
    """Return whether the agent of a retired session was told what follows from that."""
    return any(_names(entry, GUIDANCE, session) for entry in entries)


def mark(session: SessionId) -> dict[str, str]:
    """Return the details of the entry that retires a session."""
    return {"session": session}


def guidance(session: SessionId) -> Message:
    """Return what the agent of a session that was retired just now is told."""
    return Message(GUIDANCE, _GUIDANCE, {"session": session})


def _names(entry: Entry, kind: str, session: SessionId) -> bool:
    return entry.kind == kind and entry.details.get("session") == session
