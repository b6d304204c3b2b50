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
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)
from engine.core.errors import ExternalError
from engine.core.fingerprint import Json
from engine.core.spec import ModelChoice
from engine.system.clock import Clock

VERSION = 3


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """What a session file says about itself before anybody speaks."""

    id: str
    cwd: str
    model: ModelChoice


class SessionFile:
    """An open session file. Entries appear in the order of the calls, each as one whole line.

    A call that is cancelled has written its entry or nothing. Nothing is flushed to the disk's
    platter: a conversation is for reading, and nothing is decided from it.
    """

    def __init__(
        self, descriptor: int, header: SessionHeader, clock: Clock, next_id: Callable[[], str]
    ) -> None:
        self._descriptor = descriptor
        self._header = header
        self._clock = clock
        self._next_id = next_id
        self._leaf: str | None = None
        self._root: str | None = None

    async def _begin(self) -> None:
        header = self._header
        opening: dict[str, Json] = {
            "type": "session",
            "version": VERSION,
            "id": header.id,
            "timestamp": _iso(self._clock.now_ms()),
            "cwd": header.cwd,
        }
        await trio.to_thread.run_sync(self._write_line, opening)
        await self._append(
            "model_change", {"provider": header.model.provider, "modelId": header.model.id}
        )
        await self._append("thinking_level_change", {"thinkingLevel": header.model.thinking.value})
        self._root = self._leaf

    async def open_conversation(self, system: str, tools: Sequence[ToolDeclaration]) -> None:
        """Begin a conversation of its own, beside any earlier one in this file."""
        self._leaf = self._root
        await self._message(
            {
                "role": "system",
                "content": "",
                "sections": {"preamble": system},
                "toolsAdded": [
                    {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": _json(tool.parameters),
                    }
                    for tool in tools
                ],
            }
        )

    async def add_user(self, message: UserMessage) -> None:
        """Add what the engine said."""
        await self._message({"role": "user", "content": _text(message.text)})

    async def add_answer(
        self,
        message: AssistantMessage,
        stop_reason: StopReason,
        usage: Usage,
        error: str | None = None,
    ) -> None:
        """Add what the model said.

        An answer that broke off, with `error`, stays readable but is hidden from whoever continues
        the conversation.
        """
        content: list[Json] = []
        if message.thinking:
            content.append({"type": "thinking", "thinking": message.thinking})
        if message.text:
            content += _text(message.text)
        content += [
            {
                "type": "toolCall",
                "id": call.id,
                "name": call.name,
                "arguments": _json(call.arguments),
            }
            for call in message.calls
        ]
        choice = self._header.model
        failure: dict[str, Json] = {} if error is None else {"errorMessage": error}
        entry = await self._message(
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
            await self._append("context_edit", {"targetId": entry, "replacement": None})

    async def add_tool(self, message: ToolMessage) -> None:
        """Add what a tool answered."""
        await self._message(
            {
                "role": "toolResult",
                "toolCallId": message.call,
                "toolName": message.tool,
                "content": _text(message.text),
                "isError": message.is_error,
            }
        )

    async def _message(self, message: Mapping[str, Json]) -> str:
        return await self._append(
            "message", {"message": {**message, "timestamp": self._clock.now_ms()}}
        )

    async def _append(self, kind: str, content: Mapping[str, Json]) -> str:
        entry = self._next_id()
        line: dict[str, Json] = {
            "type": kind,
            "id": entry,
            "parentId": self._leaf,
            "timestamp": _iso(self._clock.now_ms()),
            **content,
        }
        await trio.to_thread.run_sync(self._write_line, line)
        self._leaf = entry
        return entry

    def _write_line(self, entry: Mapping[str, Json]) -> None:
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        left = memoryview(text.encode("utf-8", "replace"))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise ExternalError(f"the conversation cannot be saved: {error.strerror}") from error


@asynccontextmanager
async def open_session(
    path: Path, header: SessionHeader, *, clock: Clock, next_id: Callable[[], str]
) -> AsyncIterator[SessionFile]:
    """Create the session file at `path`, mode 0600, and close it when the context is left.

    Args:
        path: a file that does not exist yet, in a folder that does.
        header: the first lines.
        clock: for the entries' times.
        next_id: gives ids that are unique in the file, eight hexadecimal digits by custom.

    Raises:
        ExternalError: it cannot be created or written, or something stands there already.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    try:
        descriptor = await trio.to_thread.run_sync(os.open, path, flags, 0o600)
    except OSError as error:
        raise ExternalError(f"{path}: cannot be created: {error.strerror}") from error
    try:
        session = SessionFile(descriptor, header, clock, next_id)
        await session._begin()  # noqa: SLF001 - nobody else may begin a file
        yield session
    finally:
        os.close(descriptor)


def _text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def _json(value: Mapping[str, object]) -> Json:
    """Return what the loop has already made sure of: that `value` is JSON."""
    plain: Json = json.loads(json.dumps(value))
    return plain


def _usage(usage: Usage) -> dict[str, Json]:
    """Return usage in Pi's form; Pi knows no unknown price, so that one shows as nothing spent."""
    cost = usage.cost_usd or 0.0
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }


def _iso(now_ms: int) -> str:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
