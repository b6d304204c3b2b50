"""Reads what a Pi that is a managed agent says, and passes on to each what concerns it."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

import trio

from agents.backends.pi_fields import PiProtocolError
from agents.backends.pi_secrets import ReadingPlace
from agents.backends.pi_stream import PiStream
from agents.herdsman.identity import SessionId
from agents.herdsman.pi_answers import PiAnswers
from agents.herdsman.pi_commands import PiCommands
from agents.herdsman.pi_heard import (
    Answered,
    Asked,
    CallBegan,
    CallEnded,
    CompactionBegan,
    CompactionEnded,
    DialogOpened,
    Entered,
    ExtensionFailed,
    GotOn,
    Heard,
    Measured,
    Replied,
    RunBegan,
    Settled,
    decode_heard,
)
from agents.herdsman.pi_life import PiLife
from agents.herdsman.pi_outbox import Outbox
from agents.herdsman.pi_talk import PiParts, PiTalk
from agents.herdsman.recent_output import RecentOutput
from agents.herdsman.record import ProcessStamp
from agents.herdsman.runtime import Attendant
from agents.models.port import ToolCall
from agents.models.trouble import strike_out, tidy_message
from agents.tidy import summarize_call
from engine.core.errors import ExternalError
from engine.system.nursery import open_flat_nursery

# What an extension did that could not put a message in.
_SENDING: Final = "send_message"
_CLOSED: Final = "the agent was told to end"
# Questions that are answered with what is to enter the conversation.
_HANDS_OUT: Final = ("take", "turn", "rest")
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(frozen=True, slots=True)
class PiLead:
    """How the conversation with a child is led.

    Attributes:
        session: that the child was told to lead.
        session_file: where that is saved; it is there.
        model: provider and id, with a slash between them, of the one that it must use.
        child: the program.
        place: where its own tools read.
        recent: what a terminal would have shown.
        secrets: texts that are struck out of what it says.
        wait_end: returns how the child ended that says nothing any more, as a sentence.
    """

    session: SessionId
    session_file: Path
    model: str
    child: ProcessStamp
    place: ReadingPlace
    recent: RecentOutput
    secrets: tuple[str, ...]
    wait_end: Callable[[], Awaitable[str]]

    def struck(self, text: str) -> str:
        """Return a text without secrets."""
        return strike_out(text, self.secrets)

    def tidied(self, text: str) -> str:
        """Return a text without secrets on one short line."""
        return tidy_message(text, self.secrets)


@asynccontextmanager
async def open_talk(
    lead: PiLead, stream: trio.SocketStream, attendant: Attendant
) -> AsyncIterator[PiTalk]:
    """Lead the conversation with a child inside the block, which begins when it is ready.

    Raises:
        ExternalError: it is not what it was to be, or has ended.
    """
    records: PiStream[Heard] = PiStream(stream, decode_heard)
    commands, outbox = PiCommands(records), Outbox()
    answers = PiAnswers(attendant, outbox, lead.place)
    life = PiLife(outbox, lead.tidied)
    parts = PiParts(commands, outbox, life, answers, lead.recent)
    talk = PiTalk(lead.session, lead.session_file, lead.child, parts)
    reader = _Reader(lead, talk, parts, attendant, records)
    async with open_flat_nursery() as nursery:
        nursery.start_soon(reader.run)
        await talk.begin(lead.model)
        yield talk
        nursery.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one child from its first record to its last."""

    lead: PiLead
    talk: PiTalk
    parts: PiParts
    attendant: Attendant
    stream: PiStream[Heard]

    async def run(self) -> None:
        """Return when the child says nothing more; nobody waits for it any longer then."""
        why = _CLOSED
        try:
            await self._read()
            why = await self.lead.wait_end()
        except PiProtocolError as error:
            why = f"Pi broke its protocol: {self.lead.tidied(str(error))}"
        finally:
            self.parts.commands.hang_up(why)
            self.parts.outbox.fail(why)

    async def _read(self) -> None:
        async with open_flat_nursery() as nursery:
            nursery.start_soon(self.parts.commands.write)
            nursery.start_soon(self.parts.life.tell_rests, self.attendant)
            nursery.start_soon(self.talk.keep_going)
            while (heard := await self.stream.receive()) is not None:
                if isinstance(heard, Asked):
                    nursery.start_soon(self._answer, heard)
                else:
                    self._take(heard)
            nursery.cancel_scope.cancel()

    async def _answer(self, asked: Asked) -> None:
        is_ending = self.talk.is_interrupting
        if await self._can_save(asked):
            answer = await self.parts.answers.answer(asked.question, is_ending=is_ending)
        else:
            answer = {}
        reply = {
            "type": "extension_ui_response",
            "id": asked.id,
            "value": json.dumps(answer, default=dict),
        }
        with suppress(ExternalError):
            self.parts.commands.tell(reply)

    async def _can_save(self, asked: Asked) -> bool:
        """Return whether the child can save what it asks for; else it is given nothing yet."""
        if asked.question.get("ask") not in _HANDS_OUT or self.parts.outbox.is_empty:
            return True
        try:
            await self.talk.end_line()
        except ExternalError as error:
            _log.warning("an agent is told nothing yet: %s", error)
            return False
        return True

    def _take(self, heard: Heard) -> None:
        parts = self.parts
        match heard:
            case Replied():
                parts.commands.replied(heard)
            case RunBegan() | Measured() | CompactionBegan() | CompactionEnded():
                parts.life.hear(heard)
            case DialogOpened() | Settled():
                parts.life.hear(heard)
            case GotOn(text=text):
                parts.recent.piece(text)
                self.attendant.active()
            case Answered():
                self._hear_answer(heard)
            case CallBegan() | CallEnded():
                self._hear_call(heard)
            case Entered():
                parts.outbox.entered(heard)
            case ExtensionFailed():
                self._hear_failure(heard)
            case Asked():
                pass  # answered by a task of its own
            case _:
                assert_never(heard)

    def _hear_answer(self, answer: Answered) -> None:
        self.parts.recent.end_line()
        self.parts.answers.hear_answer(answer)
        self.parts.life.hear(answer)
        self.attendant.active()
        # What came of one that the provider broke off does not count.
        is_whole = answer.fault is None or answer.is_aborted
        text = self.lead.struck(answer.text) if is_whole else ""
        self.attendant.answered(text, was_aborted=answer.is_aborted)

    def _hear_call(self, heard: CallBegan | CallEnded) -> None:
        match heard:
            case CallBegan(call=call, tool=tool, arguments=arguments):
                self.parts.answers.hear_call(heard)
                summary = summarize_call(ToolCall(call, tool, arguments))
                self.parts.recent.block(f"> {tool} {summary}".rstrip())
            case CallEnded(output=output):
                self.parts.answers.hear_end(heard)
                self.parts.recent.block(output)
            case _:
                assert_never(heard)
        self.attendant.active()

    def _hear_failure(self, failed: ExtensionFailed) -> None:
        fault = self.lead.tidied(failed.fault)
        self.parts.recent.block(f"an extension failed: {fault}")
        if failed.what == _SENDING and self.parts.outbox.messages:
            told = f"Pi has not taken a message in: {fault}"
            self.parts.outbox.fail_taken(told)
            self.parts.life.fail(told)
