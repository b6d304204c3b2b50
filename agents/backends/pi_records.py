"""What a Pi in RPC mode says, taken apart into what an agent's loop needs to know; pure.

A child is not trusted: whatever it sends is a value or a sentence, and never an exception of a kind
that nobody expects. Source: Pi's RPC protocol as version 1.6 speaks it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from agents.backends.pi_fields import Fields, decode_fields, decode_question
from agents.models.port import StopReason, Usage

ASKING: Final = "pinata:ask"
NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Replied:
    """A command was answered.

    Attributes:
        id: the name that the command was sent with.
        fault: why it was not carried out; None when it was.
        model: provider and id of the child's model, with a slash between them; empty where the
            answer does not tell.
    """

    id: str
    fault: str | None
    model: str = ""


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The child is about to ask its model."""


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of text, or of reasoning."""

    text: str
    is_thought: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The model's answer is complete, or broke off with `fault`."""

    stop_reason: StopReason
    usage: Usage
    fault: str | None = None
    is_aborted: bool = False


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A tool call began; `arguments` are the model's."""

    call: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A tool call ended."""

    call: str
    tool: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Charged:
    """A tool call was charged for by itself, such as a script that asked another model."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Retrying:
    """The child asks its model once more after a fault, when `delay_s` have passed."""

    delay_s: float
    fault: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was replaced by a summary of itself, which cost `usage`."""

    tokens_before: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class Queued:
    """So many messages wait in the child for the end of its turn."""

    count: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Our extension in the child waits for an answer to `question`."""

    id: str
    question: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DialogOpened:
    """Somebody else's extension waits for a person, who is not there."""

    id: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing more happens by itself."""


@dataclass(frozen=True, slots=True)
class ExtensionFailed:
    """An extension broke; `fault` says which and how."""

    fault: str


Heard: TypeAlias = (
    Replied
    | TurnBegan
    | Said
    | Answered
    | CallBegan
    | CallEnded
    | Charged
    | Retrying
    | Compacted
    | Queued
    | Asked
    | DialogOpened
    | Settled
    | ExtensionFailed
)
_DIALOGS = frozenset({"select", "confirm", "input", "editor"})


def decode_record(line: bytes) -> Heard | None:
    """Return what a line says; None when it says nothing that matters here.

    Raises:
        PiProtocolError: it is no record of Pi's.
    """
    found = _Record(decode_fields(line).fields)
    read = _READERS.get(found.some_text("type"))
    return None if read is None else read(found)


class _Record(Fields):
    """A record, and what the kinds of them say."""

    __slots__ = ()

    def reply(self) -> Replied:
        # A line that Pi could not read is answered without a number.
        if self.is_set("success"):
            model = self.inner("data").inner("model")
            name = f"{model.some_text('provider')}/{model.some_text('id')}" if model.fields else ""
            return Replied(self.some_text("id"), None, name)
        return Replied(self.some_text("id"), self.some_text("error") or "it gave no reason")

    def piece(self) -> Said | None:
        event = self.inner("assistantMessageEvent")
        match event.some_text("type"):
            case "text_delta":
                return Said(event.some_text("delta"))
            case "thinking_delta":
                return Said(event.some_text("delta"), is_thought=True)
            case _:
                return None

    def message(self) -> Answered | Charged | None:
        message = self.inner("message")
        if message.some_text("role") == "toolResult" and message.inner("usage").fields:
            return Charged(message.usage())
        if message.some_text("role") != "assistant":
            return None
        reason = message.some_text("stopReason")
        if reason in ("error", "aborted"):
            fault = message.some_text("errorMessage") or reason
            is_aborted = reason == "aborted"
            return Answered(StopReason.ERROR, message.usage(), fault, is_aborted=is_aborted)
        known = {each.value: each for each in StopReason}
        return Answered(known.get(reason, StopReason.STOP), message.usage())

    def call(self) -> CallBegan | CallEnded:
        call, tool = self.text("toolCallId")[:NAME_CHARS], self.text("toolName")[:NAME_CHARS]
        if self.some_text("type") == "tool_execution_start":
            return CallBegan(call, tool, self.inner("args").fields)
        return CallEnded(call, tool, self.is_set("isError"))

    def compaction(self) -> Compacted | None:
        result = self.inner("result")
        if not result.fields:
            return None
        return Compacted(int(result.number("tokensBefore")), result.usage())

    def extension(self) -> Asked | DialogOpened | ExtensionFailed | None:
        if self.some_text("type") == "extension_error":
            where, fault = self.some_text("extensionPath"), self.some_text("error")
            return ExtensionFailed(f"{where}: {fault}")
        method = self.some_text("method")
        if method == "input" and self.some_text("title") == ASKING:
            return Asked(self.text("id"), decode_question(self.text("placeholder")))
        return DialogOpened(self.text("id")) if method in _DIALOGS else None


def _retry(record: _Record) -> Retrying:
    return Retrying(record.number("delayMs") / 1000, record.some_text("errorMessage"))


def _queue(record: _Record) -> Queued:
    return Queued(record.length("steering") + record.length("followUp"))


# By its type, what a record says; all others say nothing.
_READERS: Mapping[str, Callable[[_Record], Heard | None]] = {
    "response": _Record.reply,
    "turn_start": lambda _: TurnBegan(),
    "message_update": _Record.piece,
    "message_end": _Record.message,
    "tool_execution_start": _Record.call,
    "tool_execution_end": _Record.call,
    "auto_retry_start": _retry,
    "compaction_end": _Record.compaction,
    "queue_update": _queue,
    "extension_ui_request": _Record.extension,
    "extension_error": _Record.extension,
    "agent_settled": lambda _: Settled(),
}
