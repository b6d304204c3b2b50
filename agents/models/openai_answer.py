"""Puts the chunks of a chat completion together, whatever a server makes of the protocol. Pure.

Source: OpenAI's API reference, "Chat Completions, streaming", and what servers that are compatible
with it are known to do otherwise.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agents.models.arguments import (
    CUT_ARGUMENTS,
    LONG_ARGUMENTS,
    MAX_ARGUMENTS_CHARS,
    MAX_CALLS,
    read_call,
)
from agents.models.openai_request import THOUGHT_FIELDS
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

_MAX_TOKENS = 10**12


@dataclass(slots=True)
class _Call:
    """A call that is still arriving."""

    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)
    is_too_long: bool = False


class AnswerReader:
    """One answer while its chunks arrive; keeps no more of it than its calls."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._room_chars = MAX_ARGUMENTS_CHARS
        self._thought_field = ""
        self._finish: str | None = None
        self._usage: Usage | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the server has said why it stopped; only counts may follow."""
        return self._finish is not None

    @property
    def usage(self) -> Usage | None:
        """What was counted; None while nothing was."""
        return self._usage

    def read(self, chunk: object) -> Iterator[AnswerPiece]:
        """Yield what a chunk brings.

        Raises:
            ShapeError: it is not a chunk.
            ReportedError: it is an error.
        """
        content = _object(chunk, "a chunk")
        if content.get("error"):
            raise _reported(content["error"])
        self._count(content.get("usage"))
        choices = _list(content.get("choices"), "choices")
        if not choices:
            return
        choice = _object(choices[0], "a choice")
        self._count(choice.get("usage"))
        yield from self._read_delta(_object(choice.get("delta") or {}, "a delta"))
        finish = _text(choice.get("finish_reason"), "finish_reason")
        self._finish = finish or self._finish

    def end(self) -> Iterator[AnswerPiece]:
        """Yield what is left of a complete answer, its end last."""
        yield from self._end_thought()
        if self._finish in ("content_filter", "error"):
            passes = self._finish == "error"
            trouble = Trouble.DISCONNECT if passes else Trouble.OTHER
            message = f"the provider ended the answer: {self._finish}"
            yield AnswerFailed(trouble, message)
            return
        is_cut = self._finish == "length"
        for call in self._calls:
            yield CallReady(_tool_call(call, is_cut=is_cut and call is self._calls[-1]))
        reason = StopReason.TOOL_USE if self._calls else StopReason.STOP
        yield AnswerEnded(StopReason.LENGTH if is_cut else reason)

    def _read_delta(self, delta: Mapping[str, object]) -> Iterator[AnswerPiece]:
        for name in THOUGHT_FIELDS:
            # Some servers send the same thought under two names.
            if thought := _text(delta.get(name), name):
                self._thought_field = name
                yield ThinkingPiece(thought)
                break
        text = _said(delta.get("content")) + _text(delta.get("refusal"), "refusal")
        calls = _list(delta.get("tool_calls"), "tool_calls")
        if text or calls:
            yield from self._end_thought()
        if text:
            yield TextPiece(text)
        for call in calls:
            self._read_call(_object(call, "a tool call"))

    def _end_thought(self) -> Iterator[AnswerPiece]:
        if self._thought_field:
            yield ThoughtEnded(self._thought_field)
            self._thought_field = ""

    def _read_call(self, piece: Mapping[str, object]) -> None:
        index = piece.get("index")
        if index is not None and not isinstance(index, int):
            raise ShapeError("the index of a tool call is not a number")
        function = _object(piece.get("function") or {}, "a function")
        call_id, name = _text(piece.get("id"), "id"), _text(function.get("name"), "name")
        call = self._find(index, call_id, name)
        if call is None:
            if len(self._calls) > MAX_CALLS:
                return
            call = _Call()
            self._calls.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        if call_id:
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        self._add_arguments(call, function.get("arguments"))

    def _find(self, index: int | None, call_id: str, name: str) -> _Call | None:
        """Return the call that a piece goes on with; None when the piece begins one.

        A known id settles it, and so does a new one, since some servers give all calls one index.
        """
        if call_id in self._by_id:
            return self._by_id[call_id]
        if index is not None:
            latest = self._by_index.get(index)
        else:
            latest = self._calls[-1] if self._calls else None
        if latest is None or (call_id and latest.id):
            return None
        # Without an id and an index, only a name can tell that a call begins.
        return None if index is None and name and latest.name else latest

    def _add_arguments(self, call: _Call, arguments: object) -> None:
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        text = _text(arguments, "arguments")
        if len(text) > self._room_chars:
            call.is_too_long = True
            return
        self._room_chars -= len(text)
        call.parts.append(text)

    def _count(self, usage: object) -> None:
        if not isinstance(usage, Mapping):
            return
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, Mapping) else {}
        cached = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
        self._usage = Usage(
            input_tokens=_tokens(usage.get("prompt_tokens")),
            output_tokens=_tokens(usage.get("completion_tokens")),
            cache_read_tokens=_tokens(cached),
            cache_write_tokens=_tokens(details.get("cache_write_tokens")),
        )


def _tool_call(call: _Call, *, is_cut: bool) -> ToolCall:
    if is_cut or call.is_too_long:
        return ToolCall(call.id, call.name, {}, CUT_ARGUMENTS if is_cut else LONG_ARGUMENTS)
    return read_call(call.id, call.name, "".join(call.parts))


def _reported(error: object) -> ReportedError:
    if not isinstance(error, dict):
        return ReportedError("", str(error))
    code = error.get("code") or error.get("type") or ""
    return ReportedError(str(code), str(error.get("message") or error))


def _said(content: object) -> str:
    """Return the text of a delta; some servers send it in parts."""
    if isinstance(content, list):
        parts = (_object(part, "a part of the content") for part in content)
        return "".join(_text(part.get("text"), "text") for part in parts)
    return _text(content, "content")


def _tokens(count: object) -> int:
    is_count = isinstance(count, int) and 0 <= count <= _MAX_TOKENS
    return int(count) if is_count and isinstance(count, int) else 0


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ShapeError(f"{what} is not an object")
    return value


def _list(value: object, what: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ShapeError(f"{what} is not a list")
    return value


def _text(value: object, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ShapeError(f"{what} is not a text")
    return value
