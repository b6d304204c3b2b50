"""Messages of a Pi session file as a model is sent them; pure.

What no provider takes back is mended on the way: answers that broke off are left out, calls that
nobody answered get an answer, and thoughts go back to nobody but the model that had them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agents.models.characters import whole_characters
from agents.models.port import (
    AssistantMessage,
    Message,
    StopReason,
    Thought,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agents.session_branch import Line, Shown
from agents.tidy import tidy_call

NO_ANSWER: Final = "the call was broken off, and what it did is not known"
_IMAGE: Final = "(an image was left out)"
_BROKEN: Final = frozenset({StopReason.ERROR.value, StopReason.ABORTED.value})


def read_messages(
    shown: Sequence[Shown], provider: str, model: str
) -> tuple[tuple[str, Message], ...]:
    """Return messages with the ids of their entries, in order.

    Args:
        shown: what the branch shows.
        provider: of the model that reads them.
        model: its id there.
    """
    return tuple(_Reader(provider, model).read(shown))


@dataclass(slots=True)
class _Reader:
    """Reads one branch.

    Attributes:
        ids: of calls, as the file has them, with what they are called here.
        taken: all that they are called here.
        open: the calls of the last answer that have no answer of their own yet.
    """

    provider: str
    model: str
    ids: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    open: dict[str, ToolCall] = field(default_factory=dict)
    _asked_in: str = ""

    def read(self, shown: Iterable[Shown]) -> Iterator[tuple[str, Message]]:
        for each in shown:
            for message in self._messages(each.message):
                if not isinstance(message, ToolMessage):
                    yield from self._close()
                if isinstance(message, AssistantMessage):
                    self.open = {call.id: call for call in message.calls}
                    self._asked_in = each.entry
                yield each.entry, message

    def _close(self) -> Iterator[tuple[str, Message]]:
        for call in self.open.values():
            yield self._asked_in, ToolMessage(call.id, call.name, NO_ANSWER, is_error=True)
        self.open = {}

    def _messages(self, message: Line) -> Iterator[Message]:
        content = message.get("content")
        match message.get("role"):
            case "user":
                yield UserMessage(_text(content))
            case "assistant" if str(message.get("stopReason")) not in _BROKEN:
                yield self._answer(message)
            case "toolResult":
                name = self.ids.get(str(message.get("toolCallId")), "")
                call = self.open.pop(name, None)
                if call is not None:
                    is_error = message.get("isError") is True
                    yield ToolMessage(call.id, call.name, _text(content), is_error)
            case "bashExecution" if not message.get("excludeFromContext"):
                command, output = message.get("command"), message.get("output")
                yield UserMessage(whole_characters(f"Ran `{command}`\n{output or '(no output)'}"))
            case _:
                pass

    def _answer(self, message: Line) -> AssistantMessage:
        pieces = _pieces(message.get("content"))
        calls = []
        for piece in pieces:
            if piece.get("type") != "toolCall":
                continue
            arguments = piece.get("arguments")
            sent = ToolCall(
                str(piece.get("id")),
                str(piece.get("name")),
                arguments if isinstance(arguments, Mapping) else {},
            )
            call = tidy_call(sent, self.taken, len(self.taken) + 1)
            self.ids[sent.id] = call.id
            self.taken.add(call.id)
            calls.append(ToolCall(call.id, call.name, call.arguments))
        # Other programs write down what a thought is signed with in ways of their own.
        is_own = (message.get("api"), message.get("provider"), message.get("model")) == (
            self.provider,
            self.provider,
            self.model,
        )
        thoughts = tuple(map(_thought, pieces)) if is_own else ()
        return AssistantMessage(
            _text(message.get("content")),
            tuple(calls),
            tuple(thought for thought in thoughts if thought is not None),
        )


def _thought(piece: Line) -> Thought | None:
    if piece.get("type") != "thinking":
        return None
    return Thought(
        str(piece.get("thinking", "")),
        str(piece.get("thinkingSignature", "")),
        piece.get("redacted") is True,
    )


def _text(content: object) -> str:
    """Return what of a message's content is text; half characters are mended."""
    if isinstance(content, str):
        return whole_characters(content)
    texts = [
        _IMAGE if piece.get("type") == "image" else str(piece.get("text", ""))
        for piece in _pieces(content)
        if piece.get("type") in ("text", "image")
    ]
    return whole_characters("".join(texts))


def _pieces(content: object) -> list[Mapping[str, Any]]:
    if not isinstance(content, list):
        return []
    return [piece for piece in content if isinstance(piece, Mapping)]
