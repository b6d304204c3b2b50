"""An agent's conversation in its session file: read back, gone on with, never torn.

The file is there before the agent is. Nobody else writes to it while this is open.
"""

import os
import stat
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from agents import session_form as form
from agents.filetools.tool import ToolAnswer
from agents.herdsman.herd_entry import herd_entry
from agents.herdsman.identity import SessionId
from agents.herdsman.runtime import Entry, Message
from agents.history import History, tool_answer
from agents.models.port import (
    AssistantMessage,
    Message as ModelMessage,
    StopReason,
    ToolCall,
    ToolDeclaration,
    Usage,
    UserMessage,
)
from agents.session_branch import Branch, Lead, Line, summary_text
from agents.session_log import SessionLog
from agents.session_messages import NO_ANSWER, read_messages
from engine.core.errors import CorruptionError, ExternalError, reason_of
from engine.core.spec import ModelChoice
from engine.system.clock import Clock

A = TypeVar("A")
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
_READ: Final = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Leading:
    """What a conversation is led with from now on.

    Attributes:
        system: the system prompt.
        tools: all that the model is shown.
    """

    system: str
    tools: tuple[ToolDeclaration, ...]
    choice: ModelChoice


class SavedTalk:
    """What was said, in memory and in the session file; any task may call any method.

    What a method adds is in both or, when it raises, in neither. No method is broken off half way
    by a cancellation. All that changes something raise `ExternalError` when it cannot be saved.
    """

    def __init__(
        self,
        path: Path,
        lines: Sequence[Line],
        leading: Leading,
        *,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        """Take a file up where it ends; `open_saved_talk` says what the arguments are."""
        branch = Branch.of(lines)
        choice = leading.choice
        self.leading = leading
        self.history = History()
        for entry, message in read_messages(branch.shown(), choice.provider, choice.id):
            self.history.keep(message, entry)
        self._path = path
        self._clock = clock
        self._log = SessionLog(path, _APPEND, clock, new_id, leaf=branch.end)
        self._entries = _entries(lines, branch)
        self._lead_before: Lead | None = branch.lead()
        self._system: Mapping[str, object] = {}
        self._is_open = True
        self._lock = trio.Lock()

    @property
    def messages(self) -> Sequence[ModelMessage]:
        """What was said, as the model sees it."""
        return self.history.messages

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has."""
        return self.history.tokens(self.leading.system, self.leading.tools)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The herd's entries, on all branches, the oldest first."""
        return tuple(self._entries)

    async def tell(self, message: Message) -> None:
        """Add a message of the herd; the file holds it for good when this returns."""
        what = {"customType": message.kind, "content": message.text, "display": True}
        details = dict(message.details)

        def add() -> tuple[str, tuple[tuple[ModelMessage, str], ...]]:
            self._add_lead()
            closed = self._add_closing(NO_ANSWER)
            return self._log.add("custom_message", {**what, "details": details}), closed

        entry, closed = await self._write(add, flush=True)
        self._lead_before = None
        self._keep(closed)
        self.history.keep(UserMessage(message.text), entry)
        self._entries.append(Entry(message.kind, details))

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """Add an entry that no model reads; the file holds it for good when this returns."""
        data = dict(details)
        content = {"customType": kind, "data": data}
        await self._write(lambda: self._log.add("custom", content), flush=True)
        self._entries.append(Entry(kind, data))

    async def hear(self, message: AssistantMessage, stop: StopReason, usage: Usage) -> None:
        """Add an answer of the model."""
        answer = form.answer_message(message, self.leading.choice, stop, usage)
        entry = await self._write(lambda: self._log.add_message(answer))
        self.history.keep_answer(message, entry, usage)

    async def mishear(
        self, message: AssistantMessage, stop: StopReason, why: str, usage: Usage
    ) -> None:
        """Keep an answer that broke off for people to read; no model sees it again."""
        answer = form.answer_message(message, self.leading.choice, stop, usage, why)

        def add() -> None:
            entry = self._log.add_message(answer)
            self._log.add("context_edit", {"targetId": entry, "replacement": None})

        await self._write(add)

    async def answer(
        self, call: ToolCall, answer: ToolAnswer, details: Mapping[str, Any] | None = None
    ) -> None:
        """Add the answer to a call, and what it tells programs."""
        message = tool_answer(call, answer)
        saved = form.tool_message(message, details)
        entry = await self._write(lambda: self._log.add_message(saved))
        self.history.keep(message, entry)

    async def close_calls(self, why: str) -> None:
        """Answer the calls that nothing has answered."""
        if not self.history.unanswered():
            return
        self._keep(await self._write(lambda: self._add_closing(why)))

    async def compact(self, cut: int, summary: str, usage: Usage) -> None:
        """Put a summary in the place of all before the place `cut`."""
        content = form.compaction(
            summary, self.history.entry_at(cut), self.tokens, usage, self._system
        )
        entry = await self._write(lambda: self._log.add("compaction", content))
        self.history.replace(0, cut, UserMessage(summary_text(summary)), entry)

    async def close(self) -> None:
        """Take nothing more and close the file; runs to its end even when cancelled."""
        async with self._lock_whole():
            self._is_open = False
            await self._log.close()

    async def _write(self, add: Callable[[], A], *, flush: bool = False) -> A:
        """Save what `add` adds to the log and return what it returned.

        Whoever waits for this goes on before anybody else can add more.
        """
        async with self._lock_whole():
            if not self._is_open:
                raise ExternalError(f"the agent is gone: {self._path} takes nothing more")
            added = add()
            await self._log.write(flush=flush)
        return added

    @asynccontextmanager
    async def _lock_whole(self) -> AsyncIterator[None]:
        with trio.CancelScope(shield=True):
            async with self._lock:
                yield

    def _add_lead(self) -> None:
        """Add what the conversation is led with from now on, as far as the file does not say so."""
        before = self._lead_before
        if before is None:
            return
        system, tools, choice = self.leading.system, self.leading.tools, self.leading.choice
        if (before.provider, before.model) != (choice.provider, choice.id):
            content = {"provider": choice.provider, "modelId": choice.id}
            self._log.add("model_change", content)
        if before.thinking is not choice.thinking:
            content = {"thinkingLevel": choice.thinking.value}
            self._log.add("thinking_level_change", content)
        self._system = form.system_message(system, tools, self._clock.now_ms())
        sections = {"preamble": system}
        names = {tool.name for tool in tools}
        # Whoever replays the file is to end with this prompt and these tools, and with no others.
        gone = {name: None for name in before.sections if name not in sections}
        removed = [{"name": name} for name in before.tools if name not in names]
        changes: dict[str, object] = {"sections": {**gone, **sections}}
        if removed:
            changes["toolsRemoved"] = removed
        self._log.add("message", {"message": {**self._system, **changes}})

    def _add_closing(self, why: str) -> tuple[tuple[ModelMessage, str], ...]:
        closed = []
        for call in self.history.unanswered():
            message = tool_answer(call, ToolAnswer(why, is_error=True))
            closed.append((message, self._log.add_message(form.tool_message(message))))
        return tuple(closed)

    def _keep(self, closed: Sequence[tuple[ModelMessage, str]]) -> None:
        for message, entry in closed:
            self.history.keep(message, entry)


@asynccontextmanager
async def open_saved_talk(
    path: Path, session: SessionId, leading: Leading, clock: Clock
) -> AsyncIterator[SavedTalk]:
    """Go on with the session at `path` inside the block.

    Args:
        path: of a file that has a first line at least; a torn last one is cut off.
        session: the id that the file must have.
        leading: what the conversation is led with; saved with the first message.
        clock: for the entries' times.

    Raises:
        ExternalError: the file cannot be read.
        CorruptionError: it is no session file, or another session's.
    """
    talk = await trio.to_thread.run_sync(_read, path, session, leading, clock)
    try:
        yield talk
    finally:
        await talk.close()


def _read(path: Path, session: SessionId, leading: Leading, clock: Clock) -> SavedTalk:
    """Read a session of any length; blocks."""
    lines = _read_lines(path)
    header = lines[0] if lines else {}
    if header.get("type") != "session" or header.get("version") != form.VERSION:
        raise CorruptionError(f"{path} is no session file of version {form.VERSION}")
    if header.get("id") != session:
        raise CorruptionError(f"{path} is the session {header.get('id')}, and not {session}")
    taken = {str(line.get("id")) for line in lines}

    def new_id() -> str:
        return next(each for each in iter(lambda: uuid.uuid4().hex[:8], "") if each not in taken)

    return SavedTalk(path, lines, leading, clock=clock, new_id=new_id)


def _read_lines(path: Path) -> list[Line]:
    """Return the lines of a file that are objects, and mend its end; blocks."""
    try:
        descriptor = os.open(path, _READ)
        with os.fdopen(descriptor, "r+b") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CorruptionError(f"{path} is no regular file")
            data = file.read()
            whole, _, rest = data.rpartition(b"\n")
            if rest and form.decode_line(rest) is None:
                file.truncate(len(data) - len(rest))
            elif rest:
                file.write(b"\n")
                whole = data
    except OSError as error:
        raise ExternalError(
            f"the conversation cannot be read: {path}: {reason_of(error)}"
        ) from error
    found = map(form.decode_line, whole.split(b"\n"))
    return [line for line in found if line is not None]


def _entries(lines: Sequence[Line], branch: Branch) -> list[Entry]:
    """Return the herd's entries among lines."""
    on_branch = branch.ids
    found = (herd_entry(line, on_branch=str(line.get("id")) in on_branch) for line in lines)
    return [entry for entry in found if entry is not None]
