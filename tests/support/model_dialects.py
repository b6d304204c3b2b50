"""How the two kinds of model servers put an answer into bytes: as chunks, or as named events.

Sources: OpenAI's API reference, "Chat Completions, streaming"; Anthropic's API reference,
"Streaming messages".
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    CallReady,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ThoughtEnded,
    Trouble,
    Usage,
)

TEXT_CHARS = 4_096
ARGUMENT_CHARS = 12


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call whose arguments are sent letter by letter as they stand, JSON or not."""

    id: str
    name: str
    arguments: str


SpokenPiece = AnswerPiece | RawCall


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an HTTP error.

    Attributes:
        status: of HTTP.
        message: what the server says about it.
        code: its own word for it.
        headers: beside the usual ones.
    """

    status: int
    message: str = "scripted refusal"
    code: str = ""
    headers: Mapping[str, str] | None = None


class Dialect(Protocol):
    """One answer on its way out; made anew for each request."""

    def begin(self, usage: Usage) -> Iterator[bytes]:
        """Open the stream; `usage` is what the answer will have cost, when that is known."""
        ...

    def piece(self, piece: SpokenPiece) -> Iterator[bytes]:
        """Say one piece; an `AnswerFailed` becomes an event in the stream."""
        ...

    def refusal(self, refusal: Refusal) -> bytes:
        """Return the body of an HTTP error."""
        ...


_REFUSALS = {
    Trouble.RATE_LIMIT: (429, "rate_limit_error", "rate_limit_exceeded"),
    Trouble.OVERLOADED: (529, "overloaded_error", "server_overloaded"),
    Trouble.DISCONNECT: (500, "api_error", "server_error"),
    Trouble.AUTHENTICATION: (401, "authentication_error", "invalid_api_key"),
    Trouble.CONTEXT_LENGTH: (400, "invalid_request_error", "context_length_exceeded"),
    Trouble.MALFORMED: (400, "invalid_request_error", "invalid_request"),
    Trouble.OTHER: (400, "invalid_request_error", "invalid_request"),
}


def refusal_of(failed: AnswerFailed) -> Refusal:
    """Return the HTTP error that a server answers with when it fails before its first word."""
    status, _, code = _REFUSALS[failed.trouble]
    delay_s = failed.retry_after_s
    headers = {} if delay_s is None else {"Retry-After": f"{delay_s:g}"}
    return Refusal(status, failed.message, code, headers)


def parts_of(text: str, size: int) -> Iterator[str]:
    """Yield `text` in parts of at most `size` characters."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


class OpenAiDialect:
    """Chunks of `POST /chat/completions`."""

    def __init__(self, body: Mapping[str, object]) -> None:
        self._model = body.get("model")
        options = body.get("stream_options")
        self._counts = isinstance(options, dict) and options.get("include_usage") is True
        self._calls = 0

    def begin(self, usage: Usage) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def piece(self, piece: SpokenPiece) -> Iterator[bytes]:
        match piece:
            case TextPiece():
                for part in parts_of(piece.text, TEXT_CHARS):
                    yield self._chunk({"content": part})
            case ThinkingPiece():
                for part in parts_of(piece.text, TEXT_CHARS):
                    yield self._chunk({"reasoning_content": part})
            case ThoughtEnded():
                return
            case CallReady():
                arguments = json.dumps(piece.call.arguments)
                yield from self._call(RawCall(piece.call.id, piece.call.name, arguments))
            case RawCall():
                yield from self._call(piece)
            case AnswerFailed():
                code = _REFUSALS[piece.trouble][2]
                yield _data({"error": {"message": piece.message, "code": code}})
            case AnswerEnded():
                yield from self._end(piece)

    def refusal(self, refusal: Refusal) -> bytes:
        error = {"message": refusal.message, "type": "scripted", "code": refusal.code or None}
        return json.dumps({"error": error}).encode()

    def _call(self, call: RawCall) -> Iterator[bytes]:
        index, self._calls = self._calls, self._calls + 1
        function = {"name": call.name, "arguments": ""}
        first = {"index": index, "id": call.id, "type": "function", "function": function}
        yield self._chunk({"tool_calls": [first]})
        for part in parts_of(call.arguments, ARGUMENT_CHARS):
            more = {"index": index, "function": {"arguments": part}}
            yield self._chunk({"tool_calls": [more]})

    def _end(self, ended: AnswerEnded) -> Iterator[bytes]:
        words = {StopReason.TOOL_USE: "tool_calls", StopReason.LENGTH: "length"}
        yield self._chunk({}, words.get(ended.stop_reason, "stop"))
        if self._counts:
            usage = ended.usage
            counts = {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            }
            yield _data({**self._frame(), "choices": [], "usage": counts})
        yield b"data: [DONE]\n\n"

    def _frame(self) -> dict[str, object]:
        kind = "chat.completion.chunk"
        return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": self._model}

    def _chunk(self, delta: Mapping[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**self._frame(), "choices": [choice]})


class AnthropicDialect:
    """Events of `POST /v1/messages`."""

    def __init__(self, body: Mapping[str, object]) -> None:
        self._model = body.get("model")
        self._index = -1
        self._open = ""

    def begin(self, usage: Usage) -> Iterator[bytes]:
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_anthropic_input(usage), "output_tokens": 1},
        }
        yield _event("message_start", {"message": message})
        yield _event("ping", {})

    def piece(self, piece: SpokenPiece) -> Iterator[bytes]:
        match piece:
            case TextPiece():
                yield from self._enter("text", {"type": "text", "text": ""})
                for part in parts_of(piece.text, TEXT_CHARS):
                    yield self._delta({"type": "text_delta", "text": part})
            case ThinkingPiece():
                block = {"type": "thinking", "thinking": "", "signature": ""}
                yield from self._enter("thinking", block)
                for part in parts_of(piece.text, TEXT_CHARS):
                    yield self._delta({"type": "thinking_delta", "thinking": part})
            case ThoughtEnded():
                yield from self._end_thought(piece)
            case CallReady():
                arguments = json.dumps(piece.call.arguments)
                yield from self._call(RawCall(piece.call.id, piece.call.name, arguments))
            case RawCall():
                yield from self._call(piece)
            case AnswerFailed():
                error = {"type": _REFUSALS[piece.trouble][1], "message": piece.message}
                yield _event("error", {"error": error})
            case AnswerEnded():
                yield from self._end(piece)

    def refusal(self, refusal: Refusal) -> bytes:
        kinds = {status: kind for status, kind, _ in _REFUSALS.values()}
        kind = kinds.get(refusal.status, "api_error")
        if refusal.code.endswith("_error"):
            kind = refusal.code
        error = {"type": kind, "message": refusal.message}
        return json.dumps({"type": "error", "error": error}).encode()

    def _end_thought(self, ended: ThoughtEnded) -> Iterator[bytes]:
        if ended.is_redacted:
            block = {"type": "redacted_thinking", "data": ended.signature}
            yield from self._enter("redacted_thinking", block)
        else:
            yield from self._enter(
                "thinking", {"type": "thinking", "thinking": "", "signature": ""}
            )
            yield self._delta({"type": "signature_delta", "signature": ended.signature})
        yield from self._leave()

    def _call(self, call: RawCall) -> Iterator[bytes]:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield from self._leave()
        yield from self._enter("tool_use", block)
        for part in parts_of(call.arguments, ARGUMENT_CHARS):
            yield self._delta({"type": "input_json_delta", "partial_json": part})
        yield from self._leave()

    def _end(self, ended: AnswerEnded) -> Iterator[bytes]:
        words = {StopReason.TOOL_USE: "tool_use", StopReason.LENGTH: "max_tokens"}
        reason = words.get(ended.stop_reason, "end_turn")
        counts = {**_anthropic_input(ended.usage), "output_tokens": ended.usage.output_tokens}
        delta = {"stop_reason": reason, "stop_sequence": None}
        yield from self._leave()
        yield _event("message_delta", {"delta": delta, "usage": counts})
        yield _event("message_stop", {})

    def _enter(self, kind: str, block: Mapping[str, object]) -> Iterator[bytes]:
        if self._open == kind:
            return
        yield from self._leave()
        self._open, self._index = kind, self._index + 1
        yield _event("content_block_start", {"index": self._index, "content_block": block})

    def _leave(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield _event("content_block_stop", {"index": self._index})

    def _delta(self, delta: Mapping[str, object]) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})


def _anthropic_input(usage: Usage) -> dict[str, int]:
    """Return the counts of the input; the first holds what no cache had to do with."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }


def _data(content: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def _event(name: str, content: Mapping[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\n" + _data({"type": name, **content})
