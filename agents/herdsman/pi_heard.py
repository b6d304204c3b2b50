"""What a Pi in RPC mode says, as far as it concerns a managed agent; pure.

A child is not trusted: whatever it sends is a value or a sentence. Source: Pi's RPC protocol as
version 1.6 speaks it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agents.backends.pi_fields import Fields, decode_fields, decode_question
from agents.backends.pi_records import ASKING, NAME_CHARS
from agents.herdsman.record import ContextUsage

_DIALOGS = frozenset({"select", "confirm", "input", "editor"})
_USAGE = "pinata:usage"
_MOST_PERCENT = 1e6


@dataclass(frozen=True, slots=True)
class Replied:
    """A command was answered.

    Attributes:
        id: the name that the command was sent with.
        fault: why it was not carried out; None when it was.
        data: what the answer says.
    """

    id: str
    fault: str | None
    data: Fields = field(default_factory=Fields)


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The child has begun to work on something, or goes on."""


@dataclass(frozen=True, slots=True)
class GotOn:
    """A turn began or ended, or more of an answer came; `text` is what of it is visible."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer of the model is complete, or broke off with `fault`.

    Attributes:
        text: all of it that is visible.
        calls: the ids of the calls in it.
    """

    text: str
    calls: tuple[str, ...] = ()
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
    """A tool call ended with this output."""

    call: str
    output: str


@dataclass(frozen=True, slots=True)
class Entered:
    """Something of an extension's is in the session's file, or is written in the next moment.

    Attributes:
        is_message: the model reads it.
    """

    kind: str
    details: Mapping[str, Any]
    is_message: bool


@dataclass(frozen=True, slots=True)
class CompactionBegan:
    """The conversation is about to be shortened; `is_manual` when somebody wants it by hand."""

    is_manual: bool


@dataclass(frozen=True, slots=True)
class CompactionEnded:
    """The conversation is shortened, or is not going to be."""


@dataclass(frozen=True, slots=True)
class Measured:
    """So full was the context when the child came to rest."""

    usage: ContextUsage | None


@dataclass(frozen=True, slots=True)
class Asked:
    """Our extension in the child waits for an answer to `question`."""

    id: str
    question: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DialogOpened:
    """Somebody else's extension waits for a person.

    Attributes:
        limit_s: after which it waits no more; None when it waits for ever.
    """

    id: str
    limit_s: float | None


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing more happens by itself."""

    was_aborted: bool


@dataclass(frozen=True, slots=True)
class ExtensionFailed:
    """An extension broke while it did `what`."""

    what: str
    fault: str


Heard: TypeAlias = (
    Replied
    | RunBegan
    | GotOn
    | Answered
    | CallBegan
    | CallEnded
    | Entered
    | CompactionBegan
    | CompactionEnded
    | Measured
    | Asked
    | DialogOpened
    | Settled
    | ExtensionFailed
)


def decode_heard(line: bytes) -> Heard | None:
    """Return what a line says; None when it says nothing that matters to a managed agent.

    Raises:
        PiProtocolError: it is no record of Pi's.
    """
    record = decode_fields(line)
    read = _READERS.get(record.some_text("type"))
    return None if read is None else read(record)


def _reply(record: Fields) -> Replied:
    # A line that Pi could not read is answered without an id.
    if record.is_set("success"):
        return Replied(record.some_text("id"), None, record.inner("data"))
    return Replied(record.some_text("id"), record.some_text("error") or "it gave no reason")


def _piece(record: Fields) -> GotOn:
    event = record.inner("assistantMessageEvent")
    is_text = event.some_text("type") == "text_delta"
    return GotOn(event.some_text("delta") if is_text else "")


def _message(record: Fields) -> Answered | Entered | None:
    message = record.inner("message")
    match message.some_text("role"):
        case "assistant":
            return _answer(message)
        case "custom":
            details = message.inner("details").fields
            return Entered(message.some_text("customType"), details, is_message=True)
        case _:
            return None


def _answer(message: Fields) -> Answered:
    content = message.each("content")
    calls = tuple(
        each.some_text("id")[:NAME_CHARS]
        for each in content
        if each.some_text("type") == "toolCall"
    )
    reason = message.some_text("stopReason")
    fault = None
    if reason in ("error", "aborted"):
        fault = message.some_text("errorMessage") or reason
    return Answered(_texts(content), calls, fault, is_aborted=reason == "aborted")


def _texts(content: tuple[Fields, ...]) -> str:
    return "".join(each.some_text("text") for each in content if each.some_text("type") == "text")


def _call_began(record: Fields) -> CallBegan:
    call, tool = record.text("toolCallId")[:NAME_CHARS], record.text("toolName")[:NAME_CHARS]
    return CallBegan(call, tool, record.inner("args").fields)


def _call_ended(record: Fields) -> CallEnded:
    output = _texts(record.inner("result").each("content"))
    return CallEnded(record.text("toolCallId")[:NAME_CHARS], output)


def _appended(record: Fields) -> Entered | None:
    entry = record.inner("entry")
    match entry.some_text("type"):
        case "custom":
            data = entry.inner("data").fields
            return Entered(entry.some_text("customType"), data, is_message=False)
        case "custom_message":
            details = entry.inner("details").fields
            return Entered(entry.some_text("customType"), details, is_message=True)
        case _:
            return None


def _extension(record: Fields) -> Asked | DialogOpened | Measured | None:
    method = record.some_text("method")
    if method == "input" and record.some_text("title") == ASKING:
        return Asked(record.text("id"), decode_question(record.text("placeholder")))
    if method == "setStatus" and record.some_text("statusKey") == _USAGE:
        return Measured(_usage(record.some_text("statusText")))
    if method not in _DIALOGS:
        return None
    limit_s = record.number("timeout") / 1000
    return DialogOpened(record.text("id"), limit_s or None)


def _usage(text: str) -> ContextUsage | None:
    """Return how full the context is, as far as the child can tell."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    usage = Fields(told)
    tokens, window = int(usage.number("tokens")), int(usage.number("contextWindow"))
    percent = min(usage.number("percent"), _MOST_PERCENT)
    is_known = told.get("tokens") is not None
    return ContextUsage(tokens if is_known else None, window or None, percent if is_known else None)


# By its type, what a record says; all others say nothing.
_READERS: Mapping[str, Callable[[Fields], Heard | None]] = {
    "response": _reply,
    "agent_start": lambda _: RunBegan(),
    "turn_start": lambda _: GotOn(),
    "turn_end": lambda _: GotOn(),
    "message_update": _piece,
    "message_end": _message,
    "tool_execution_start": _call_began,
    "tool_execution_end": _call_ended,
    "entry_appended": _appended,
    "compaction_start": lambda record: CompactionBegan(record.some_text("reason") == "manual"),
    "compaction_end": lambda _: CompactionEnded(),
    "extension_ui_request": _extension,
    "extension_error": lambda record: ExtensionFailed(
        record.some_text("event"), record.some_text("error")
    ),
    "agent_settled": lambda record: Settled(record.is_set("aborted")),
}
