"""The conversation of a managed agent that is a Pi, for as long as the child lives.

What is to enter it is announced to our extension in the child by a marker, which that takes as
input and trades for the text. So no text can be mistaken for a command, and a text and its id are
saved in one entry.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from agents.backends.pi_fields import Fields, decode_question
from agents.herdsman.identity import SessionId
from agents.herdsman.marker import MARKER
from agents.herdsman.pi_answers import PiAnswers
from agents.herdsman.pi_commands import PiCommands
from agents.herdsman.pi_history import PiHistory
from agents.herdsman.pi_life import PiLife
from agents.herdsman.pi_outbox import Outbox, Parcel
from agents.herdsman.recent_output import RecentOutput
from agents.herdsman.record import ProcessStamp
from agents.herdsman.runtime import Entry, Lifecycle, Message
from agents.models.characters import whole_characters
from engine.core.errors import ExternalError
from engine.core.quote import quote_value

# Longer than the first start of a Pi takes on a busy machine; a hung one is told by it.
READY_S: Final = 60.0
# A Pi answers in milliseconds also while it works; one that does not in this time may be anything.
ANSWER_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class PiParts:
    """What a conversation shares with whoever reads the child's records."""

    commands: PiCommands
    outbox: Outbox
    life: PiLife
    answers: PiAnswers
    recent: RecentOutput


class PiTalk:
    """A `Conversation` with a child that is being read; see `agents.herdsman.pi_agent`."""

    def __init__(
        self, session: SessionId, session_file: Path, child: ProcessStamp, parts: PiParts
    ) -> None:
        """Begin with a child that is not ready yet.

        Args:
            session: that the child was told to lead.
            session_file: where that is saved; it is there.
            child: the program.
            parts: shared with the reader.
        """
        self._session = session
        self._session_file = session_file
        self._child = child
        self._commands = parts.commands
        self._outbox = parts.outbox
        self._life = parts.life
        self._answers = parts.answers
        self._recent = parts.recent
        self._history = PiHistory(session_file)
        self._reading = trio.Lock()
        # Held by whoever puts something in, so that an interrupt knows what the child has.
        self._turn = trio.Lock()
        self.is_interrupting = False

    @property
    def session(self) -> SessionId:
        """See `Conversation`."""
        return self._session

    @property
    def session_file(self) -> Path:
        """See `Conversation`."""
        return self._session_file

    @property
    def lifecycle(self) -> Lifecycle:
        """See `Conversation`."""
        return Lifecycle.UNKNOWN if self._commands.has_ended else self._life.lifecycle

    @property
    def child(self) -> ProcessStamp:
        """The program that is the agent."""
        return self._child

    async def begin(self, model: str) -> None:
        """Return when the child is ready, and is what it was to be.

        Args:
            model: provider and id, with a slash between them, of the one that it must use.

        Raises:
            ExternalError: it is not, or has ended.
        """
        told: Fields | None = None
        with trio.move_on_after(READY_S):
            told = (await self._commands.send("get_state")).data
        if told is None:
            raise ExternalError(f"Pi was not ready within {READY_S:g} s")
        used = told.inner("model")
        found = f"{used.some_text('provider')}/{used.some_text('id')}"
        if found != model:
            raise ExternalError(
                f"Pi should use the model {model}, and has taken {quote_value(found)}"
            )
        if not await trio.to_thread.run_sync(self._is_ours, told):
            raise ExternalError(f"Pi should lead the session {self.session}, and leads another")
        await self.entries()

    async def say(self, message: Message, *, waits: bool) -> None:
        """See `Conversation`."""
        parcel = self._parcel(message.kind, message.details, message.text)
        await self._put_in(parcel)
        if waits:
            await self._wait_saved(parcel)

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        """See `Conversation`."""
        parcel = self._parcel(kind, details, None)
        await self._put_in(parcel)
        # The child has said so before it answered, or will not.
        if not parcel.is_over:
            self._outbox.close(parcel, f"Pi has not saved an entry {kind}")
        await self._wait_saved(parcel)

    async def entries(self) -> Sequence[Entry]:
        """See `Conversation`."""
        async with self._reading:
            return await trio.to_thread.run_sync(self._history.entries)

    async def end_line(self) -> None:
        """Let what the child saves next begin a line of its own.

        Raises:
            ExternalError: it would not.
        """
        async with self._reading:
            await trio.to_thread.run_sync(self._history.end_line)

    async def interrupt(self) -> None:
        """See `Conversation`; a tool that does not heed that it is aborted is waited for."""
        async with self._turn:
            self.is_interrupting = True
            self._outbox.drop_messages(only_waiting=True)
            try:
                await self._commands.send("clear_queue")
                for id_ in self._life.dialogs:
                    reply = {"type": "extension_ui_response", "id": id_, "cancelled": True}
                    self._commands.tell(reply)
                self._life.close_dialogs()
                await self._commands.send("abort")
            finally:
                self.is_interrupting = False
            self._outbox.drop_messages()
            self._life.release()

    async def recent_output(self) -> Sequence[str]:
        """See `Conversation`."""
        await trio.lowlevel.checkpoint()
        return self._recent.lines()

    async def is_answering(self) -> bool:
        """Return whether the child tells now, in time, that it leads this conversation."""
        with trio.move_on_after(ANSWER_S), suppress(ExternalError):
            told = (await self._commands.send("get_state")).data
            return await trio.to_thread.run_sync(self._is_ours, told)
        return False

    async def wait_ended(self) -> str:
        """Return why the child takes nothing any more, once it does not."""
        return await self._commands.wait_ended()

    async def keep_going(self) -> None:
        """Put in again what a run left lying that ended another way than it was to; for ever.

        Somebody else's extension may abort a run; what waits in the child then stays there.
        """
        while True:
            await self._life.wait_held()
            async with self._turn:
                try:
                    await self._go_on()
                except ExternalError as error:
                    self._outbox.fail(str(error))
            self._life.release()

    async def _go_on(self) -> None:
        state = (await self._commands.send("get_state")).data
        if not self._outbox.messages or state.is_set("isStreaming"):
            return
        await self._commands.send("clear_queue")
        self._outbox.put_back()
        while self._outbox.is_waiting and not await self._announce(self._outbox.messages[0]):
            await self._life.wait_shortened()

    def _parcel(self, kind: str, details: Mapping[str, Any], text: str | None) -> Parcel:
        # As they come back, so that they can be compared: tuples as lists, whole characters.
        told = decode_question(json.dumps(details, default=dict))
        whole = None if text is None else whole_characters(text)
        return Parcel(str(uuid.uuid4()), kind, told, whole, self._history.known)

    async def _put_in(self, parcel: Parcel) -> None:
        """Return when the child has taken a parcel, or works and is going to ask for it.

        Whoever gives up before that does not find it in the conversation later.
        """
        is_in = False
        while not is_in:
            await self._life.wait_shortened()
            async with self._turn:
                self._commands.check()
                self._outbox.put(parcel)
                if parcel.text is not None and self._life.is_running:
                    return
                try:
                    is_in = await self._announce(parcel)
                finally:
                    self._outbox.withdraw(parcel)
                    self._life.release()

    async def _announce(self, parcel: Parcel) -> bool:
        """Return whether the child has taken a parcel; false when it is to be tried again.

        Raises:
            ExternalError: it has not, and will not.
        """
        before = self._life.shortenings
        reply = await self._commands.send("prompt", message=f"{MARKER}{parcel.id}")
        if parcel.is_taken and reply.fault is None:
            return True
        # While somebody shortens the conversation by hand, Pi takes nothing in.
        if not parcel.is_taken and (before % 2 or self._life.shortenings != before):
            return False
        fault = reply.fault or "its extension did not ask for it"
        raise ExternalError(f"Pi has not taken a message in: {fault}")

    async def _wait_saved(self, parcel: Parcel) -> None:
        await parcel.wait_over()
        if parcel.is_dropped:
            return
        # It is told of before it is written; whoever answers after that has written it.
        await self._commands.send("get_state")
        async with self._reading:
            is_saved = await trio.to_thread.run_sync(
                self._history.holds, parcel.kind, parcel.details, parcel.since
            )
        if not is_saved:
            raise ExternalError(f"Pi has not saved {parcel.kind} in {self.session_file}")

    def _is_ours(self, told: Fields) -> bool:
        """Return whether the child says that it leads this conversation; blocks."""
        if told.some_text("sessionId") != self._session:
            return False
        try:
            return Path(told.some_text("sessionFile")).samefile(self._session_file)
        except OSError:
            return False
