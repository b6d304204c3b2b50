"""Writes an agent's conversation as a Pi session file, so that Pi can open and continue it.

Source: Pi's session format, version 3. One JSON object a line, each with the id of the entry before
it; the last entry is where a reader continues. Only what was said is in it, never a credential.
"""

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from agents import session_form as form
from agents.models.port import (
    AssistantMessage,
    StopReason,
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)
from agents.session_log import SessionLog, unsaved
from engine.core.spec import ModelChoice
from engine.system.clock import Clock

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
        self._model = header.model
        self._clock = clock
        self._log = SessionLog(path, _CREATE, clock, next_id, leaf=None)
        self._log.begin(form.header_line(header.id, header.cwd, clock.now_ms()))
        choice = self._model
        self._log.add("model_change", {"provider": choice.provider, "modelId": choice.id})
        self._log.add("thinking_level_change", {"thinkingLevel": choice.thinking.value})
        self._root = self._log.leaf
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
        self._log.leaf = self._root
        self._system = form.system_message(system, tools, self._clock.now_ms())
        self._log.add("message", {"message": self._system})
        return await self.add_user(first)

    async def add_user(self, message: UserMessage) -> str:
        """Add what the engine said."""
        entry = self._log.add_message(form.user_message(message))
        await self._log.write()
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
        answer = form.answer_message(message, self._model, stop_reason, usage, error)
        entry = self._log.add_message(answer)
        if error is not None:
            self._log.add("context_edit", {"targetId": entry, "replacement": None})
        await self._log.write()
        return entry

    async def add_tool(self, message: ToolMessage) -> str:
        """Add what a tool answered."""
        entry = self._log.add_message(form.tool_message(message))
        await self._log.write()
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
        content = form.compaction(summary, first_kept, tokens_before, usage, self._system)
        entry = self._log.add("compaction", content)
        await self._log.write()
        return entry

    async def close(self) -> None:
        """Write what is still waiting and close the file; runs to its end even when cancelled."""
        with trio.CancelScope(shield=True):
            await self._log.close()


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
    first = form.header_line(id_, str(cwd), clock.now_ms())
    line = json.dumps(first, ensure_ascii=False).encode("utf-8", "replace")
    try:
        with open(path, "xb", opener=lambda name, _: os.open(name, _CREATE, 0o600)) as file:
            file.write(line + b"\n")
    except OSError as error:
        raise unsaved(path, error) from error
