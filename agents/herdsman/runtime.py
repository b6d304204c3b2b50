"""What the herd needs of whatever runs its agents: a port, with an implementation per backend.

A `Runtime` starts agents, tells which are there, and ends them. A `Conversation` is the one that an
agent leads. An `Attendant` is the agent's own half of the herd (`agents.herdsman.member`): the
backend tells it what happens in the conversation, and offers its tools to the agent.
"""

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from agents.herdsman.birth import Birth
from agents.herdsman.identity import (
    Handle,
    Identity,
    RequestId,
    SessionId,
)
from agents.herdsman.record import ContextUsage, Proof, RequestKind, State
from agents.models.port import ToolDeclaration
from engine.core.spec import ModelChoice

# Entries of the herd in session files: messages that a model reads, and state that it does not.
RESULT: Final = "pinata-agent-result"
QUESTION: Final = "pinata-agent-question"
ATTENTION: Final = "pinata-agent-attention"
REQUEST: Final = "pinata-agent-request"
GUIDANCE: Final = "pinata-agent-guidance"
BINDING: Final = "pinata-agent-binding"
IDENTITY: Final = "pinata-agent-identity"
RETIRED: Final = "pinata-agent-retired"
FAULT: Final = "pinata-agent-fault"


class Lifecycle(enum.Enum):
    """What a backend sees an agent do; an observation, and never proof that it has finished."""

    IDLE = "idle"
    WORKING = "working"
    BLOCKED = "blocked"
    DONE = "done"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, _: object) -> "Lifecycle":
        """Take what a backend reports and is none of these for unknown."""
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class LiveAgent:
    """An agent that a backend sees.

    Attributes:
        session, session_file: as the agent itself tells them now.
        cwd: None where it does not tell.
        alias: a name that the backend gave the agent's place; None where it has none.
    """

    workspace: str
    handle: Handle
    session: SessionId
    session_file: str
    lifecycle: Lifecycle
    cwd: str | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where an agent can be; `session` is the conversation that it claims, if any."""

    handle: Handle
    session: SessionId | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All agents and places of one moment, taken by one look."""

    agents: tuple[LiveAgent, ...] = ()
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the herd in a session's history.

    Attributes:
        kind: one of the names above.
        details: what it says to programs.
        on_branch: whether it lies on the way from the session's present end to its beginning.
    """

    kind: str
    details: Mapping[str, Any]
    on_branch: bool = True


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the herd that enters a conversation.

    Attributes:
        kind: one of the names above.
        text: what the model reads.
        details: what programs read; saved with the text, in one entry.
    """

    kind: str
    text: str
    details: Mapping[str, Any]


class CompactionReason(enum.Enum):
    """Why a conversation is to be shortened."""

    THRESHOLD = "threshold"
    OVERFLOW = "overflow"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a conversation came to rest: nothing more happens by itself.

    Attributes:
        was_aborted: it was told to stop.
        fault: what the provider of its model said, if that is why.
        usage: how full its context is.
    """

    was_aborted: bool = False
    fault: str | None = None
    usage: ContextUsage | None = None


class Conversation(Protocol):
    """An agent's own session, for as long as the agent is there."""

    @property
    def session(self) -> SessionId:
        """Its id."""
        ...

    @property
    def session_file(self) -> Path:
        """Where it is saved."""
        ...

    @property
    def lifecycle(self) -> Lifecycle:
        """What the agent does now."""
        ...

    async def say(self, message: Message, *, waits: bool) -> None:
        """Put a message into the conversation.

        An idle agent begins to work on it. One that works gets it after the present answer and the
        calls in it.

        Args:
            message: of the kinds REQUEST, GUIDANCE, RESULT, QUESTION or ATTENTION.
            waits: return when the session's file holds the message, instead of when the agent has
                taken it in. One that is dropped by `interrupt` before that is waited for no more.

        Raises:
            ExternalError: the agent takes nothing any more.
        """
        ...

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """Save an entry that no model reads; return when the session's file holds it.

        Raises:
            ExternalError: it cannot be saved.
        """
        ...

    async def entries(self) -> Sequence[Entry]:
        """Return the herd's entries in the history, on all branches, the oldest first.

        Raises:
            ExternalError: the history cannot be read.
        """
        ...

    async def interrupt(self) -> None:
        """Drop what waits, abort what works, and return when the conversation is at rest.

        Raises:
            ExternalError: the agent takes nothing any more.
        """
        ...

    async def recent_output(self) -> Sequence[str]:
        """Return the last lines, at most 80, of what a terminal would have shown."""
        ...


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool of the herd answers to the agent that called it.

    Attributes:
        ends_turn: the agent is not asked for more: it waits.
        details: what programs read.
    """

    text: str
    is_error: bool = False
    ends_turn: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HerdTool:
    """A tool that the herd offers to an agent.

    Attributes:
        call: takes the arguments as the model sent them, and whether the call was the only one of
            its answer. Raises nothing but `trio.Cancelled`, unless there is a bug.
    """

    declaration: ToolDeclaration
    call: Callable[[Mapping[str, Any], bool], Awaitable[ToolReply]]


@dataclass(frozen=True, slots=True)
class Started:
    """An agent that was started, and has a conversation.

    Attributes:
        handle: where it runs.
        proof: what shows later whether it can still be there.
    """

    handle: Handle
    session: SessionId
    session_file: Path
    proof: Proof


class Attendant(Protocol):
    """An agent's own half of the herd, as whoever runs the agent sees it.

    Nothing in here raises anything but `trio.Cancelled`, unless there is a bug.
    """

    @property
    def tools(self) -> Sequence[HerdTool]:
        """What the agent is offered beside the tools of its definition; known before the start."""
        ...

    async def serve(self, conversation: Conversation, started: Started) -> None:
        """Do the agent's part until cancelled; called once, when the agent is ready for work.

        Returns when the agent has nobody to work for any more; whoever runs it ends it then.
        """
        ...

    def active(self) -> None:
        """Note that it got on: a turn began or ended, a piece of an answer, a call began or ended.

        What a tool writes while it works does not count.
        """
        ...

    def answered(self, text: str, *, was_aborted: bool) -> None:
        """Note the visible text of an answer that is complete, or was cut off."""
        ...

    async def came_to_rest(self, ended: Ended) -> None:
        """Take note that the conversation is at rest."""
        ...

    async def may_compact(self, reason: CompactionReason) -> bool:
        """Return whether the conversation may be shortened now."""
        ...


@dataclass(frozen=True, slots=True)
class Launch:
    """An agent to be started.

    Attributes:
        persona: the definition's text, with the files in it.
        model: what to work with where the definition names none; None where nobody knows.
        attendant: the agent's half of the herd.
    """

    birth: Birth
    persona: str
    model: ModelChoice | None
    attendant: Attendant


@dataclass(frozen=True, slots=True)
class ForegroundProcess:
    """A program that an agent has running, as far as can be seen."""

    pid: int
    name: str
    command: str


class Preparation(Protocol):
    """An agent that could be started; nothing exists of it yet."""

    async def start(self) -> Started:
        """Start it; when this fails or is cancelled, nothing of it is left.

        Raises:
            HerdError: it did not come up; PANE_NOT_READY, with what it last said.
            ExternalError: the machine refused.
        """
        ...


class Runtime(Protocol):
    """Runs agents."""

    async def prepare(self, launch: Launch) -> Preparation:
        """Find all that an agent needs: its backend, its model, its tools.

        Raises:
            HerdError: something is not there; INVALID_REQUEST, in one sentence.
        """
        ...

    async def inventory(self, states: Sequence[State]) -> Inventory:
        """Return what is there.

        Args:
            states: generations to look for; others that are ours are told as well.

        Raises:
            ExternalError: that cannot be told.
        """
        ...

    async def stop(self, identity: Identity) -> None:
        """End an agent that is exactly this one, and prove that it is gone.

        Raises:
            HerdError: it is another one by now, or is still there; nothing else was ended.
        """
        ...

    async def capture(self, identity: Identity) -> Sequence[str]:
        """Return the last lines, at most 80, of what the agent's terminal would have shown.

        Raises:
            HerdError: there is no such agent.
        """
        ...

    async def processes(self, identity: Identity) -> Sequence[ForegroundProcess]:
        """Return the programs that the agent has running, the oldest first.

        Raises:
            ExternalError: that cannot be told.
        """
        ...

    def conversation(self, identity: Identity) -> Conversation | None:
        """Return the conversation of an agent that lives in this process."""
        ...


def request_message(request: RequestId, kind: RequestKind, text: str) -> Message:
    """Return a request as the agent reads it; its id is saved beside it, in the same entry."""
    return Message(REQUEST, text, {"request": request, "kind": kind.value})
