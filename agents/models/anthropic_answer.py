"""Turns the events of Anthropic's Messages API into pieces of an answer.

Source: Anthropic's API reference, "Streaming messages". An event is the JSON value that came over
the wire, whoever sent it: nothing is taken for granted about its shape.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agents.models.arguments import (
    CUT_ARGUMENTS,
    LONG_ARGUMENTS,
    MAX_ARGUMENTS_CHARS,
    read_call,
)
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    CallReady,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ThoughtEnded,
    ToolCall,
    Trouble,
    Usage,
)
from agents.models.wire import ReportedError, ShapeError

_REASONS = {
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "pause_turn": StopReason.STOP,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
}
_REFUSAL = "refusal"
# What a block brings with itself, and what its deltas add: the kind, and the key that holds it.
_CONTENT = {"text": "text", "thinking": "thinking", "redacted_thinking": "data"}


@dataclass(slots=True)
class _Open:
    """A block while it arrives.

    Attributes:
        id: of a tool call.
        name: of the tool.
        parts: of its arguments, as JSON text.
        is_too_long: whether there were more of them than an answer may have.
        signature: of a thought, or the content of a redacted one.
    """

    kind: str
    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)
    signature: str = ""
    is_too_long: bool = False


class AnswerReader:
    """Reads one answer, event by event."""

    def __init__(self) -> None:
        self._open: dict[object, _Open] = {}
        self._counts: dict[str, int] = {}
        self._reason: str | None = None
        self._is_complete = False
        self._room_chars = MAX_ARGUMENTS_CHARS
        self._held: list[ToolCall] = []

    @property
    def is_complete(self) -> bool:
        """Whether the provider said that nothing follows."""
        return self._is_complete

    @property
    def usage(self) -> Usage | None:
        """What was counted so far; the provider leaves what its cache did out of the input."""
        if not self._counts:
            return None
        read = self._counts.get("cache_read_input_tokens", 0)
        write = self._counts.get("cache_creation_input_tokens", 0)
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0) + read + write,
            output_tokens=self._counts.get("output_tokens", 0),
            cache_read_tokens=read,
            cache_write_tokens=write,
        )

    def read(self, event: object) -> Iterator[AnswerPiece]:
        """Yield what `event` adds to the answer; unknown events add nothing.

        Raises:
            ReportedError: the provider breaks off.
            ShapeError: it is no event of this API.
        """
        match _text(event, "type"):
            case _ if self._is_complete:
                pass
            case "message_start":
                self._count(_member(_member(event, "message"), "usage"))
            case "content_block_start":
                yield from self._begin(_member(event, "index"), _member(event, "content_block"))
            case "content_block_delta":
                yield from self._add(_member(event, "index"), _member(event, "delta"))
            case "content_block_stop":
                yield from self._end(_member(event, "index"))
            case "message_delta":
                self._reason = _text(_member(event, "delta"), "stop_reason") or self._reason
                self._count(_member(event, "usage"))
                yield from self._end_all()
            case "message_stop":
                yield from self._end_all()
                self._is_complete = True
            case "error":
                error = _member(event, "error")
                raise ReportedError(_text(error, "type"), _text(error, "message"))
            case "":
                raise ShapeError("an event has no type")

    def end(self) -> Iterator[AnswerPiece]:
        """Yield the end of an answer that is complete."""
        if self._reason == _REFUSAL:
            yield AnswerFailed(Trouble.OTHER, "the model refused to answer")
        else:
            yield AnswerEnded(self._stop_reason)

    @property
    def _stop_reason(self) -> StopReason:
        return _REASONS.get(self._reason or "", StopReason.STOP)

    def _begin(self, index: object, block: object) -> Iterator[AnswerPiece]:
        kind = _text(block, "type")
        opened = _Open(kind, _text(block, "id"), _text(block, "name"))
        if kind == "tool_use" and isinstance(given := _member(block, "input"), dict) and given:
            self._add_arguments(opened, json.dumps(given))
        if kind == "redacted_thinking":
            opened.signature = _text(block, "data")
        if kind == "thinking":
            opened.signature = _text(block, "signature")
        self._open[_hashable(index)] = opened
        yield from _said(kind, _text(block, _CONTENT.get(kind, "")))

    def _add(self, index: object, delta: object) -> Iterator[AnswerPiece]:
        opened = self._open.get(_hashable(index))
        if opened is None:
            raise ShapeError("a piece belongs to a block that was not begun")
        match _text(delta, "type"):
            case "text_delta":
                yield from _said("text", _text(delta, "text"))
            case "thinking_delta":
                yield from _said("thinking", _text(delta, "thinking"))
            case "signature_delta":
                opened.signature += _text(delta, "signature")
            case "input_json_delta":
                self._add_arguments(opened, _text(delta, "partial_json"))

    def _end(self, index: object) -> Iterator[AnswerPiece]:
        opened = self._open.pop(_hashable(index), None)
        match opened:
            case _Open(kind="tool_use"):
                yield from self._end_call(opened)
            case _Open(kind="thinking"):
                yield ThoughtEnded(opened.signature)
            case _Open(kind="redacted_thinking"):
                yield ThoughtEnded(opened.signature, is_redacted=True)

    def _end_call(self, opened: _Open) -> Iterator[AnswerPiece]:
        if opened.is_too_long:
            call = ToolCall(opened.id, opened.name, {}, LONG_ARGUMENTS)
        else:
            call = read_call(opened.id, opened.name, "".join(opened.parts))
        if call.fault is None and not self._held:
            yield CallReady(call)
        else:
            # Whether it is wrong or cut off shows when the provider says why it stops.
            self._held.append(call)

    def _end_all(self) -> Iterator[AnswerPiece]:
        """End what is still open, as some servers leave it, and let go of the calls held back."""
        for index in tuple(self._open):
            yield from self._end(index)
        calls, self._held = self._held, []
        if calls and calls[-1].fault is not None and self._stop_reason is StopReason.LENGTH:
            calls[-1] = replace(calls[-1], fault=CUT_ARGUMENTS)
        yield from map(CallReady, calls)

    def _add_arguments(self, opened: _Open, text: str) -> None:
        opened.is_too_long = opened.is_too_long or len(text) > self._room_chars
        if not opened.is_too_long:
            self._room_chars -= len(text)
            opened.parts.append(text)

    def _count(self, usage: object) -> None:
        """Take the newest counts; each is of the whole answer so far."""
        for name, count in usage.items() if isinstance(usage, dict) else ():
            if isinstance(count, int) and count >= 0:
                self._counts[name] = count


def _said(kind: str, text: str) -> Iterator[AnswerPiece]:
    if text and kind == "text":
        yield TextPiece(text)
    if text and kind == "thinking":
        yield ThinkingPiece(text)


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _text(value: object, name: str) -> str:
    found = _member(value, name)
    return found if isinstance(found, str) else ""


def _hashable(index: object) -> object:
    if not isinstance(index, int | str):
        raise ShapeError("a block has no number")
    return index
