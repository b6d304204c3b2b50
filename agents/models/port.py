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
class Thought:
    """A stretch of reasoning, handed back to its provider as it came.

    Attributes:
        text: what may be read of it; empty when it is redacted.
        signature: the provider's proof that it is its own, or the redacted content.
    """

    text: str
    signature: str = ""
    is_redacted: bool = False


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model answered: visible text and the tools it wants called, in order."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    thoughts: tuple[Thought, ...] = ()


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
        input_tokens: of everything that was sent, what came out of a cache included.
        cost_usd: None when a price is unknown; adding something unknown stays unknown.
        cache_read_tokens: the part of the input that the provider had in its cache.
        cache_write_tokens: the part of the input that the provider put into its cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


class StopReason(Enum):
    """Why a model stopped talking; the values are the words of a Pi session file.

    ABORTED is what a model that was told to stop did.
    """

    STOP = "stop"
    TOOL_USE = "toolUse"
    LENGTH = "length"
    ERROR = "error"
    ABORTED = "aborted"


class Trouble(Enum):
    """What went wrong between us and a model.

    The first three may pass by themselves. A server that breaks (5xx) counts as a disconnect: it
    says nothing about how much it is asked.
    """

    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    DISCONNECT = "disconnect"
    AUTHENTICATION = "authentication"
    CONTEXT_LENGTH = "context_length"
    MALFORMED = "malformed"
    OTHER = "other"

    @property
    def may_pass(self) -> bool:
        """Whether the same request can succeed a moment later."""
        return self in (Trouble.RATE_LIMIT, Trouble.OVERLOADED, Trouble.DISCONNECT)

    @property
    def is_throttling(self) -> bool:
        """Whether the provider is asked too much, by this agent or by others."""
        return self in (Trouble.RATE_LIMIT, Trouble.OVERLOADED)


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPiece:
    """A piece of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtEnded:
    """The reasoning so far makes one thought; the next piece begins another."""

    signature: str = ""
    is_redacted: bool = False


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
        message: the provider's own words, for people; never holds a key.
        usage: what the broken answer cost all the same.
        retry_after_s: how long the provider asks to be left alone; None when it does not say.
    """

    trouble: Trouble
    message: str
    usage: Usage = field(default_factory=Usage)
    retry_after_s: float | None = None


UNENDED = AnswerFailed(Trouble.DISCONNECT, "the answer stopped without an end")
AnswerPiece = TextPiece | ThinkingPiece | ThoughtEnded | CallReady | AnswerEnded | AnswerFailed


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

    @property
    def context_tokens(self) -> int | None:
        """How many tokens a conversation and its next answer may have; None when unknown."""
        ...

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AbstractAsyncContextManager[AsyncIterator[AnswerPiece]]:
        """Open the answer to `messages`: pieces, then one `AnswerEnded` or `AnswerFailed`.

        Leaving the context early, or cancelling it, drops the rest of the answer at once.
        """
        ...
