"""Reads a saved conversation back for people: its last part, short, and safe on any terminal."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import CorruptionError
from engine.core.quote import escape, middle_out

EXCERPT_CHARS = 6_000
_MESSAGE_CHARS = 1_200


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """One message as people read it: who spoke, and what, tool calls as one line each."""

    role: str
    text: str


def read_transcript(path: Path) -> tuple[SaidMessage, ...]:
    """Return the messages of a session file in order; blocks, so call it in a thread.

    A torn last line, which a crash or a writer at work leaves, is left out.

    Raises:
        FileNotFoundError: nothing was said yet.
        CorruptionError: a line elsewhere is not an entry.
    """
    data = path.read_bytes()
    lines = data.split(b"\n")
    messages: list[SaidMessage] = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            entry = json.loads(line)
            if entry["type"] == "message":
                messages.append(_said(entry["message"]))
            elif entry["type"] == "custom_message":
                # An extension of Pi's said it, and the model read it as its user's.
                messages.append(_said({"role": "user", "content": entry["content"]}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptionError(f"{path}: line {number} is not a session entry") from error
    return tuple(messages)


def _said(message: dict[str, object]) -> SaidMessage:
    role = str(message["role"])
    content = message["content"]
    if role == "system":
        return SaidMessage(role, "\n\n".join(map(str, _sections(message).values())))
    if isinstance(content, str):
        return SaidMessage(role, content)
    if not isinstance(content, list):
        raise TypeError("content is neither text nor a list")
    text = "\n".join(filter(None, (_piece(piece) for piece in content)))
    if role == "toolResult":
        return SaidMessage(f"tool {message['toolName']}", text)
    failure = message.get("errorMessage")
    return SaidMessage(role, f"{text}\n({failure})".strip() if failure else text)


def _sections(message: dict[str, object]) -> dict[str, object]:
    """Return the parts of a system prompt, which lie beside an empty content."""
    sections = message.get("sections", {})
    if not isinstance(sections, dict):
        raise TypeError("sections are not an object")
    return sections


def _piece(piece: dict[str, object]) -> str:
    match piece["type"]:
        case "text":
            return str(piece["text"])
        case "toolCall":
            arguments = json.dumps(piece["arguments"], ensure_ascii=False)
            return f"[calls {piece['name']} {arguments}]"
        case _:
            return ""


def whole(messages: Sequence[SaidMessage]) -> str:
    """Return all messages as text, prompts too, with nothing in it that steers a terminal."""
    return "".join(f"{escape(said.role)}: {escape(said.text)}\n" for said in messages)


def excerpt(messages: Sequence[SaidMessage], limit_chars: int = EXCERPT_CHARS) -> str:
    """Return the last messages as text, at most `limit_chars` of it, each of them shortened.

    System prompts are left out. Control characters are escaped, so that nothing in the text can
    steer a terminal or turn its writing direction.
    """
    blocks: list[str] = []
    room = limit_chars
    for message in reversed(messages):
        if message.role == "system":
            continue
        block = f"{escape(message.role)}: {middle_out(escape(message.text), _MESSAGE_CHARS)}\n"
        if len(block) > room:
            blocks.append("...\n" if room >= len("...\n") else "")
            break
        blocks.append(block)
        room -= len(block)
    return "".join(reversed(blocks))
