"""What an agent's loop needs from a model: messages and tools in, pieces of an answer out.

Nothing in here knows a provider. A model that is out of reach answers with `AnswerFailed`, a value:
only a bug raises out of a stream.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool.

    Attributes:
        id: unique in the conversation; the tool's answer refers to it.
        arguments: a JSON object; empty when `fault` is set.
        fault: why the arguments could not be understood, as a sentence for the model.
    """

    id: str
    name: str
    arguments: Mapping[str, object]
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the engine says to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model answered: visible text and the tools it wants called, in order."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """A tool's answer to the call with the id `call`."""

    call: str
    tool: str
    text: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as the model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Usage:
    """What answers cost.

    Attributes:
        cost_usd: None when a price is unknown; adding something unknown stays unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )


class StopReason(Enum):
    """Why a model stopped talking; the values are the words of a Pi session file."""

    STOP = "stop"
    TOOL_USE = "toolUse"
    LENGTH = "length"
    ERROR = "error"


class Trouble(Enum):
    """What went wrong between us and a model; all but the last may pass by themselves."""

    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    DISCONNECT = "disconnect"
    OTHER = "other"

    @property
    def may_pass(self) -> bool:
        """Whether the same request can succeed a moment later."""
        return self is not Trouble.OTHER


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPiece:
    """A piece of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallReady:
    """A complete tool call."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class AnswerEnded:
    """The answer is complete; nothing follows."""

    stop_reason: StopReason
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """The answer broke off; nothing follows and what came before does not count.

    Attributes:
        message: the provider's own words, for people.
        usage: what the broken answer cost all the same.
    """

    trouble: Trouble
    message: str
    usage: Usage = field(default_factory=Usage)


AnswerPiece = TextPiece | ThinkingPiece | CallReady | AnswerEnded | AnswerFailed


class Model(Protocol):
    """Somebody who continues a conversation."""

    @property
    def provider(self) -> str:
        """The provider's name."""
        ...

    @property
    def id(self) -> str:
        """The model's name at its provider."""
        ...

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AbstractAsyncContextManager[AsyncIterator[AnswerPiece]]:
        """Open the answer to `messages`: pieces, then one `AnswerEnded` or `AnswerFailed`.

        Leaving the context early, or cancelling it, drops the rest of the answer at once.
        """
        ...
