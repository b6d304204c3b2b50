"""Makes what a model sends safe to keep, to show and to send back to it.

A model can send anything: endless text, names that no provider takes back, values that JSON cannot
hold. From here on, answers are bounded, names are plain and arguments are JSON.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping

from agents.models.arguments import MAX_ARGUMENTS_CHARS
from agents.models.characters import whole_characters
from agents.models.port import ToolCall
from engine.core.quote import one_line

MAX_TEXT_CHARS = 1_000_000
_PIECE_CHARS = 16_384
_SUMMARY_CHARS = 120
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME_CHARS = 64
_CUT_MARK = "\n[the answer was cut here]"


class TextCollector:
    """Collects an answer's text up to a limit."""

    def __init__(self, limit_chars: int = MAX_TEXT_CHARS) -> None:
        self._parts: list[str] = []
        self._room = limit_chars
        self._is_cut = False

    def add(self, text: str) -> Iterator[str]:
        """Keep `text` as far as there is room; yield what was kept, in pieces of bounded size."""
        kept = whole_characters(text[: self._room])
        self._room -= len(text[: self._room])
        self._is_cut = self._is_cut or len(text) > len(kept)
        self._parts.append(kept)
        for start in range(0, len(kept), _PIECE_CHARS):
            yield kept[start : start + _PIECE_CHARS]

    @property
    def text(self) -> str:
        """All that was kept, and a mark when something was not."""
        return "".join(self._parts) + (_CUT_MARK if self._is_cut else "")


def tidy_call(call: ToolCall, taken: Collection[str], number: int) -> ToolCall:
    """Return `call` with a plain name, an id that is not among `taken`, and JSON arguments.

    Args:
        call: as the model sent it.
        taken: the ids of earlier calls of the conversation.
        number: of this call in the conversation; makes an id when the sent one is no good.
    """
    name = _ODD.sub("_", call.name[:_NAME_CHARS]) or "unnamed"
    call_id = call.id
    if call_id in taken or not _ID.fullmatch(call_id):
        call_id = next(
            each
            for each in (f"call_{number}" + "x" * extra for extra in range(len(taken) + 1))
            if each not in taken
        )
    arguments, fault = _json_object(call.arguments)
    if name != call.name:
        fault = "there is no tool of that name"
    fault = call.fault or fault
    return ToolCall(call_id, name, {} if fault else arguments, fault)


def _json_object(arguments: object) -> tuple[dict[str, object], str | None]:
    """Return the arguments as JSON would hand them on, and what keeps them from being that."""
    if not isinstance(arguments, Mapping):
        return {}, "the arguments must be a JSON object"
    try:
        text = json.dumps(arguments, allow_nan=False)
        plain = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        return {}, f"the arguments are not JSON: {error}"
    if len(text) > MAX_ARGUMENTS_CHARS:
        limit = f"{MAX_ARGUMENTS_CHARS:,} characters"
        return {}, f"the arguments are longer than {limit}; send them in several calls"
    assert isinstance(plain, dict)
    return plain, None


def summarize_call(call: ToolCall) -> str:
    """Return on one line what a call is about, safe on any terminal."""
    subject = next(
        (
            value
            for key in ("path", "command", "pattern", "status")
            if isinstance(value := call.arguments.get(key), str)
        ),
        "",
    )
    return one_line(subject, _SUMMARY_CHARS)
