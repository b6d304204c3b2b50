"""The records of a mailbox, as values. Their stored form, and its limits, are in `record_form`.

Times are milliseconds since 1970-01-01 UTC.
"""

import enum
from dataclasses import dataclass, field
from typing import Final, Literal

from agents.herdsman.identity import (
    AskId,
    Correlation,
    Handle,
    Identity,
    RequestId,
    SessionId,
)
from engine.core.stored import STORED

PROTOCOL: Final = 4


class RequestKind(enum.Enum):
    """What an owner wants of its agent."""

    TASK = "task"
    STEER = "steer"
    INTERRUPT = "interrupt"
    REPLY = "reply"


class RejectionCode(enum.Enum):
    """Why an agent refused a request."""

    BUSY = "busy"
    IDLE = "idle"
    INVALID = "invalid"
    IDENTITY = "identity"
    DELIVERY = "delivery"
    AMBIGUOUS = "ambiguous"


class FailureCode(enum.Enum):
    """Why an assignment ended without a text."""

    EMPTY_RESULT = "empty_result"
    RESULT_TOO_LARGE = "result_too_large"
    WRITE_FAILURE = "write_failure"


@dataclass(frozen=True, slots=True)
class Binding:
    """What a semantic reference, such as `result:scout#1`, stands for."""

    __pydantic_config__ = STORED

    semantic: str
    canonical: str


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The agent's last answer to a request.

    Attributes:
        code: why it was refused; only then.
    """

    __pydantic_config__ = STORED

    request: RequestId
    accepted: bool
    at_ms: int
    code: RejectionCode | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Injection:
    """An accepted request whose text the agent's own history does not hold yet."""

    __pydantic_config__ = STORED

    request: RequestId
    kind: RequestKind


@dataclass(frozen=True, slots=True)
class ResultError:
    """A result that could not be written.

    Attributes:
        status: of the result that is lost.
        retry_safe: always false: the assignment is over.
        cleanup_safe: always true: nothing else is lost by closing the agent.
        next_action: what its owner can do.
    """

    __pydantic_config__ = STORED

    of: Correlation
    request: RequestId
    message: str
    status: Literal["completed", "failed"]
    attempts: int
    failed_ms: int
    next_action: str
    code: Literal["write_failure"] = "write_failure"
    retry_safe: Literal[False] = False
    cleanup_safe: Literal[True] = True


@dataclass(frozen=True, slots=True)
class ProcessStamp:
    """A process, told from any later one with the same number."""

    __pydantic_config__ = STORED

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What shows whether a generation can still be there.

    Attributes:
        backend: what runs it.
        host: the process that started it, and that an agent in-process lives in.
        child: the program that is the agent, where it is one of its own.
        mark: what the processes of the agent carry; see `engine.system.process`.
    """

    __pydantic_config__ = STORED

    backend: Literal["in-process", "process", "herdr-pi"]
    host: ProcessStamp
    child: ProcessStamp | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What a generation's mailbox says about it.

    Attributes:
        active: the task that it works on.
        pending_ask: the question that it waits for an answer to.
        completed: the task whose result it has written.
        last_activity_ms: of the active task; see `agents.herdsman.activity`.
        delegates: it may start agents of its own; None where nobody noted that.
    """

    __pydantic_config__ = STORED

    of: Correlation
    session: SessionId
    session_file: str
    cwd: str
    definition: str
    proof: Proof
    updated_ms: int
    active: RequestId | None = None
    pending_ask: AskId | None = None
    last_activity_ms: int | None = None
    completed: RequestId | None = None
    result_error: ResultError | None = None
    acknowledgement: Acknowledgement | None = None
    injection: Injection | None = None
    delegates: bool | None = None
    version: Literal[4] = PROTOCOL

    @property
    def identity(self) -> Identity:
        """All that names the generation."""
        return Identity(self.of, self.session, self.session_file, self.cwd)

    @property
    def handle(self) -> Handle:
        """Where the generation runs."""
        return self.of.handle

    def fault(self) -> str | None:
        """Return what in it cannot be true together; None when all can."""
        error, said = self.result_error, self.acknowledgement
        rules = (
            (self.pending_ask is not None and self.active is None, "an ask without an assignment"),
            (
                self.pending_ask is not None and self.completed is not None,
                "an ask and a completed assignment",
            ),
            (
                self.active is not None and self.active == self.completed,
                "an assignment both active and completed",
            ),
            (
                error is not None and (self.active or self.completed) is not None,
                "a result error and an assignment",
            ),
            (
                self.injection is not None and self.active is None,
                "an injection without an assignment",
            ),
            (
                said is not None and said.accepted == (said.code is not None),
                "an acknowledgement whose code does not go with it",
            ),
        )
        return next((what for broken, what in rules if broken), None)


@dataclass(frozen=True, slots=True)
class Request:
    """What an owner left for its agent.

    Attributes:
        ask: the question that a reply answers; of replies alone, and there always.
        bindings: what the semantic references in the text stand for.
    """

    __pydantic_config__ = STORED

    of: Correlation
    request: RequestId
    kind: RequestKind
    text: str
    created_ms: int
    ask: AskId | None = None
    bindings: tuple[Binding, ...] = ()
    version: Literal[4] = PROTOCOL


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of an agent to its owner.

    Attributes:
        request: the assignment that it belongs to.
        question: as the owner reads it, files included.
    """

    __pydantic_config__ = STORED

    of: Correlation
    ask: AskId
    request: RequestId
    session: SessionId
    question: str
    created_ms: int
    bindings: tuple[Binding, ...] = ()
    version: Literal[4] = PROTOCOL

    def belongs_to(self, state: State) -> bool:
        """Return whether it is the question that `state` waits with, in every field."""
        return (
            self.of == state.of
            and self.ask == state.pending_ask
            and self.request == state.active
            and self.session == state.session
        )


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """How full an agent's context was at its end; None is what nobody could tell."""

    __pydantic_config__ = STORED

    tokens: int | None = None
    context_window: int | None = None
    percent: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an assignment has no text; `message` is a sentence for its owner."""

    __pydantic_config__ = STORED

    code: FailureCode
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """What an assignment came to.

    Attributes:
        text: of a completed one, not blank.
        error: of a failed one.
    """

    __pydantic_config__ = STORED

    of: Correlation
    request: RequestId
    status: Literal["completed", "failed"]
    completed_ms: int
    text: str | None = None
    error: Failure | None = None
    usage: ContextUsage | None = None
    version: Literal[4] = PROTOCOL


@dataclass(frozen=True, slots=True)
class NothingPending:
    """The agent has answered every request in its mailbox."""


@dataclass(frozen=True, slots=True)
class OnePending:
    """The agent has one request to answer."""

    request: Request


@dataclass(frozen=True, slots=True)
class UnclearPending:
    """The agent has a request to answer, and which cannot be told: two, or an unreadable one."""

    why: str


Pending = NothingPending | OnePending | UnclearPending


@dataclass(frozen=True, slots=True)
class Contents:
    """What one look found in a mailbox whose state is readable.

    Attributes:
        ask: its ask record; None when there is none, or it cannot be read.
        ask_fault: why the ask record cannot be read.
        pending: the request that its agent has not answered, by an acknowledgement in its state.
        results: the requests for which a result file is there, readable or not.
        is_starting: a living process starts an agent there.
    """

    state: State
    ask: Ask | None = None
    ask_fault: str | None = None
    pending: Pending = field(default_factory=NothingPending)
    results: frozenset[RequestId] = frozenset()
    is_starting: bool = False

    @property
    def has_pending_request(self) -> bool:
        """Whether there is a request that the agent has not answered, readable or not."""
        return not isinstance(self.pending, NothingPending)

    @property
    def open_ask(self) -> Ask | None:
        """The question that the agent waits with; None where there is none, or it is unclear."""
        ask = self.ask
        return ask if ask is not None and ask.belongs_to(self.state) else None
