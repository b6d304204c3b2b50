"""A saved Pi session as text: what was said on its present branch, as its model would be told.

Source: Pi's session format, version 3, and how Pi builds a model's context from it. Reasoning,
system prompts, images, and what extensions noted or said are left out, but for the herd's own
requests: these are what the agent was told.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.herdsman.excerpt import last_bytes, without_middle
from agents.herdsman.identity import SessionId
from agents.herdsman.marker import is_marker
from agents.herdsman.runtime import REQUEST
from agents.session_form import VERSION, decode_line
from engine.core.errors import CorruptionError

TRANSCRIPT_LIMIT_BYTES: Final = 16 << 10
TOOL_RESULT_LIMIT_BYTES: Final = 4 << 10

_Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConversationText:
    """The end of a conversation.

    Attributes:
        was_cut: something on the branch is not in the text, or not whole.
    """

    text: str
    was_cut: bool


def conversation_text(data: bytes, session: SessionId) -> ConversationText:
    """Return the end of the conversation that a session file holds.

    Lines that are no entries are passed over, as Pi does it: the last one may be half written.

    Args:
        data: the whole file.
        session: whose file it must be.

    Raises:
        CorruptionError: it is another session's, or no session file of this version.
    """
    _check_header(data, session)
    branch = _Branch(data)
    blocks, total_bytes, was_cut = [], 0, False
    for entry in branch.latest_first():
        block, was_shortened = _block(entry, branch.edits)
        was_cut = was_cut or was_shortened
        if block:
            blocks.append(block)
            total_bytes += len(block.encode("utf-8", "replace"))
        if total_bytes > TRANSCRIPT_LIMIT_BYTES:
            # Nothing before this can be seen any more.
            break
    text, was_longer = last_bytes("\n\n".join(reversed(blocks)), TRANSCRIPT_LIMIT_BYTES)
    return ConversationText(text, was_cut or was_longer)


def _check_header(data: bytes, session: SessionId) -> None:
    header = decode_line(data[: data.find(b"\n") + 1])
    if header is None or header.get("type") != "session" or header.get("version") != VERSION:
        raise CorruptionError("the file is no session of this version")
    if header.get("id") != session:
        raise CorruptionError("the file is another session's")


class _Branch:
    """The entries that a model would be told of; the last one in the file is the branch's end.

    A file has parents before children, so one walk from its end meets the branch in order and need
    not read the lines in between.

    Attributes:
        edits: what replaces entries that are still to come; None hides one.
    """

    def __init__(self, data: bytes) -> None:
        """Begin at the end of a session file."""
        self.edits: dict[str, Any] = {}
        self._path = _path(data)

    def latest_first(self) -> Iterator[_Entry]:
        """Yield the entries, the latest first; the latest summary stands for all before it."""
        for entry in self._path:
            if entry.get("type") == "compaction":
                yield from self._kept(entry)
                yield entry
                return
            self._note_edit(entry)
            yield entry

    def _kept(self, compaction: _Entry) -> Sequence[_Entry]:
        """Return what was said before a summary and is told all the same, the latest first."""
        kept = []
        for entry in self._path:
            # An earlier summary is part of this one.
            if entry.get("type") != "compaction":
                self._note_edit(entry)
                kept.append(entry)
            if entry["id"] == compaction.get("firstKeptEntryId"):
                return kept
        return ()

    def _note_edit(self, entry: _Entry) -> None:
        if entry.get("type") == "context_edit":
            # A later edit of the same entry has been met before.
            self.edits.setdefault(str(entry.get("targetId")), entry.get("replacement"))


def _path(data: bytes) -> Iterator[_Entry]:
    """Yield the entries of the branch, from its end to its beginning."""
    wanted: str | None = None
    for line in _lines_backwards(data):
        # Looking for the bytes of a usual id is far cheaper than reading the line.
        if wanted and wanted.isascii() and wanted.isalnum() and wanted.encode() not in line:
            continue
        entry = decode_line(line)
        if entry is None or entry.get("type") == "session" or not isinstance(entry.get("id"), str):
            continue
        if wanted is None or entry["id"] == wanted:
            yield entry
            parent = entry.get("parentId")
            if not isinstance(parent, str) or not parent:
                return
            wanted = parent


def _lines_backwards(data: bytes) -> Iterator[bytes]:
    end = len(data)
    while end > 0:
        begin = data.rfind(b"\n", 0, end) + 1
        yield data[begin:end]
        end = begin - 1


def _block(entry: _Entry, edits: Mapping[str, Any]) -> tuple[str, bool]:
    """Return an entry as text, blank where there is nothing to show, and whether it was cut."""
    edited = entry["id"] in edits
    replacement = edits.get(entry["id"])
    if edited and replacement is None:
        return "", False
    match entry:
        case {"type": "compaction", "summary": str(summary)}:
            return _said("Summary of the conversation so far", summary), False
        case {"type": "branch_summary", "summary": str(summary)}:
            return _said("Summary of a branch that was left", summary), False
        case {"type": "custom_message", "customType": kind} if kind != REQUEST:
            return "", False
        case {"type": "custom_message"}:
            message: _Entry = {"role": "user", "content": entry.get("content")}
        case {"type": "message", "message": dict(found)}:
            message = found
        case _:
            return "", False
    if isinstance(replacement, dict):
        message = {**message, "content": replacement.get("content")}
    return _message(message)


def _message(message: _Entry) -> tuple[str, bool]:
    text = _text(message.get("content"))
    match message.get("role"):
        case "user" if not is_marker(text):
            return _said("User", text), False
        case "assistant":
            calls = (_call(piece) for piece in _pieces(message.get("content")))
            return "\n\n".join(filter(None, (_said("Assistant", text), *calls))), False
        case "toolResult":
            short, was_cut = without_middle(text, TOOL_RESULT_LIMIT_BYTES)
            failed = " (error)" if message.get("isError") is True else ""
            return f"Result of {message.get('toolName')}{failed}:\n{short}", was_cut
        case _:
            return "", False


def _said(who: str, text: str) -> str:
    return f"{who}:\n{text}" if text.strip() else ""


def _text(content: object) -> str:
    """Return the visible text of a message."""
    if isinstance(content, str):
        return content
    texts = (piece.get("text") for piece in _pieces(content) if piece.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _call(piece: _Entry) -> str:
    """Return a tool call as text; nothing for what is none."""
    if piece.get("type") != "toolCall":
        return ""
    arguments = json.dumps(piece.get("arguments"), ensure_ascii=False)
    return f"Call of {piece.get('name')}:\n{arguments}"


def _pieces(content: object) -> Sequence[_Entry]:
    if not isinstance(content, list):
        return ()
    return [piece for piece in content if isinstance(piece, dict)]
