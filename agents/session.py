"""Writes an agent's conversation as a Pi session file, so that Pi can open and continue it.

Source: Pi's session format, version 3. One JSON object a line, each with the id of the entry before
it; the last entry is where a reader continues. Only what was said is in it, never a credential.
"""

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trio

from agents.models.port import (
    AssistantMessage,
    StopReason,
    Thought,
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)
from engine.core.errors import ExternalError, reason_of
from engine.core.spec import ModelChoice
from engine.system.clock import Clock

VERSION = 3
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """What a session file says about itself before anybody speaks."""

    id: str
    cwd: str
    model: ModelChoice


class SessionFile:
    """An open session file. Entries appear in the order of the calls, each as one whole line.

    The file itself appears with the first conversation, like Pi's own. An entry whose call is
    cancelled is written with the next one, or when the file is closed. Nothing is flushed to the
    disk's platter: a conversation is for reading, and nothing is decided from it.
    """

    def __init__(
        self, path: Path, header: SessionHeader, clock: Clock, next_id: Callable[[], str]
    ) -> None:
        self._path = path
        self._model = header.model
        self._clock = clock
        self._next_id = next_id
        self._descriptor: int | None = None
        self._waiting: list[Mapping[str, object]] = [_first(header.id, header.cwd, clock)]
        self._leaf: str | None = None
        self._append("model_change", {"provider": self._model.provider, "modelId": self._model.id})
        self._append("thinking_level_change", {"thinkingLevel": self._model.thinking.value})
        self._root = self._leaf
        self._system: Mapping[str, object] = {}

    async def open_conversation(
        self, system: str, tools: Sequence[ToolDeclaration], first: UserMessage
    ) -> str:
        """Begin a conversation of its own, beside any earlier one in this file.

        Returns:
            the id of the first message's entry, like every method that adds a message.

        Raises:
            ExternalError: the file cannot be created or written, or something stands there already.
        """
        self._leaf = self._root
        self._system = {
            "role": "system",
            "content": "",
            "sections": {"preamble": system},
            "toolsAdded": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                }
                for tool in tools
            ],
            "timestamp": self._clock.now_ms(),
        }
        self._append("message", {"message": self._system})
        return await self.add_user(first)

    async def add_user(self, message: UserMessage) -> str:
        """Add what the engine said."""
        entry = self._message({"role": "user", "content": _text(message.text)})
        await self._write()
        return entry

    async def add_answer(
        self,
        message: AssistantMessage,
        stop_reason: StopReason,
        usage: Usage,
        error: str | None = None,
    ) -> str:
        """Add what the model said.

        An answer that broke off, with `error`, stays readable but is hidden from whoever continues
        the conversation.
        """
        content: list[object] = []
        content += [_thinking(thought) for thought in message.thoughts]
        if message.text:
            content += _text(message.text)
        content += [
            {
                "type": "toolCall",
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
            for call in message.calls
        ]
        choice = self._model
        failure: dict[str, object] = {} if error is None else {"errorMessage": error}
        entry = self._message(
            {
                "role": "assistant",
                "content": content,
                "api": choice.provider,
                "provider": choice.provider,
                "model": choice.id,
                "usage": _usage(usage),
                "stopReason": stop_reason.value,
                **failure,
            }
        )
        if error is not None:
            self._append("context_edit", {"targetId": entry, "replacement": None})
        await self._write()
        return entry

    async def add_tool(self, message: ToolMessage) -> str:
        """Add what a tool answered."""
        entry = self._message(
            {
                "role": "toolResult",
                "toolCallId": message.call,
                "toolName": message.tool,
                "content": _text(message.text),
                "isError": message.is_error,
            }
        )
        await self._write()
        return entry

    async def add_compaction(
        self, *, summary: str, first_kept: str, tokens_before: int, usage: Usage
    ) -> str:
        """Add that `summary` stands for everything before the entry `first_kept`.

        Args:
            summary: all that whoever continues the conversation is told about what came before.
            first_kept: the id of the first entry that is still shown.
            tokens_before: about how long the conversation was.
            usage: what the summary cost.
        """
        entry = self._append(
            "compaction",
            {
                "summary": summary,
                "firstKeptEntryId": first_kept,
                "tokensBefore": tokens_before,
                "details": {"readFiles": [], "modifiedFiles": []},
                "usage": _usage(usage),
                "fromHook": False,
                "systemMessage": self._system,
            },
        )
        await self._write()
        return entry

    async def close(self) -> None:
        """Write what is still waiting and close the file; runs to its end even when cancelled."""
        with trio.CancelScope(shield=True):
            try:
                if self._descriptor is not None and self._waiting:
                    await self._write()
            finally:
                if self._descriptor is not None:
                    os.close(self._descriptor)

    def _message(self, message: Mapping[str, object]) -> str:
        return self._append("message", {"message": {**message, "timestamp": self._clock.now_ms()}})

    def _append(self, kind: str, content: Mapping[str, object]) -> str:
        entry = self._next_id()
        self._waiting.append(
            {
                "type": kind,
                "id": entry,
                "parentId": self._leaf,
                "timestamp": _iso(self._clock.now_ms()),
                **content,
            }
        )
        self._leaf = entry
        return entry

    async def _write(self) -> None:
        """Write all that waits, in one go: a hop to a thread costs more than a line."""
        await trio.to_thread.run_sync(self._write_waiting)

    def _write_waiting(self) -> None:
        lines, self._waiting = self._waiting, []
        text = "".join(
            json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=dict) + "\n"
            for line in lines
        )
        left = memoryview(text.encode("utf-8", "replace"))
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, _CREATE, 0o600)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise _unsaved(self._path, error) from error


@asynccontextmanager
async def open_session(
    path: Path, header: SessionHeader, *, clock: Clock, next_id: Callable[[], str]
) -> AsyncIterator[SessionFile]:
    """Prepare the session file at `path`, mode 0600, and close it when the context is left.

    Args:
        path: a file that does not exist yet, in a folder that does.
        header: the first lines.
        clock: for the entries' times.
        next_id: gives ids that are unique in the file, eight hexadecimal digits by custom.
    """
    session = SessionFile(path, header, clock, next_id)
    try:
        yield session
    finally:
        await session.close()


def begin_session(path: Path, id_: str, cwd: Path, clock: Clock) -> None:
    """Make a session file, mode 0600, in which nobody has spoken, for a Pi that goes on with it.

    Blocks.

    Args:
        path: a file that does not exist yet, in a folder that does.
        id_: of the session.
        cwd: where whoever goes on with it works.
        clock: for its time.

    Raises:
        ExternalError: the file cannot be created or written.
    """
    line = json.dumps(_first(id_, str(cwd), clock), ensure_ascii=False).encode("utf-8", "replace")
    try:
        with open(path, "xb", opener=lambda name, _: os.open(name, _CREATE, 0o600)) as file:
            file.write(line + b"\n")
    except OSError as error:
        raise _unsaved(path, error) from error


def _first(id_: str, cwd: str, clock: Clock) -> Mapping[str, object]:
    """Return the line that a session file begins with."""
    timestamp = _iso(clock.now_ms())
    return {"type": "session", "version": VERSION, "id": id_, "timestamp": timestamp, "cwd": cwd}


def _unsaved(path: Path, error: OSError) -> ExternalError:
    return ExternalError(f"the conversation cannot be saved: {path}: {reason_of(error)}")


def _text(text: str) -> list[object]:
    return [{"type": "text", "text": text}]


def _thinking(thought: Thought) -> dict[str, object]:
    block: dict[str, object] = {"type": "thinking", "thinking": thought.text}
    if thought.signature:
        block["thinkingSignature"] = thought.signature
    if thought.is_redacted:
        block["redacted"] = True
    return block


def _usage(usage: Usage) -> dict[str, object]:
    """Return usage in Pi's form; Pi knows no unknown price, so that one shows as nothing spent."""
    cost = usage.cost_usd or 0.0
    return {
        "input": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "output": usage.output_tokens,
        "cacheRead": usage.cache_read_tokens,
        "cacheWrite": usage.cache_write_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }


def _iso(now_ms: int) -> str:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
