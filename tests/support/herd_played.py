"""A stage for played conversations, so that what tests rely on is what real ones do."""

import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from agents.herdsman.identity import Handle, Label, SessionId
from agents.herdsman.record import ContextUsage, ProcessStamp, Proof
from agents.herdsman.runtime import Started
from agents.herdsman.session_file import begin_managed_session
from agents.models import script as scripts
from agents.retry import DISCONNECTED_TRIES
from agents.session_branch import Branch
from tests.support.herd_stage import PlayedAttendant
from tests.support.herd_talk import Call, PlayedConversation, Script, SessionLog, Turn

PROOF = Proof("in-process", ProcessStamp(1, 1, "boot"))
SESSION = SessionId("22222222-2222-4222-8222-222222222222")


class _RecordedScript(Script):
    """A script that remembers what there was to read whenever an answer was asked for."""

    def __init__(self, log: SessionLog, turns: Sequence[Turn]) -> None:
        super().__init__()
        self.asked: list[list[dict[str, Any]]] = []
        self._log = log
        self._news = trio.Event()
        self._heard = trio.Event()
        self.play(*turns)

    async def next(self) -> Turn:
        lines = await trio.to_thread.run_sync(self._log.lines)
        self.asked.append(lines)
        self._heard.set()
        return await super().next()

    async def wait_asked(self, count: int) -> None:
        while len(self.asked) < count:
            self._heard = trio.Event()
            await self._heard.wait()


@dataclass
class PlayedScene:
    """A played conversation, and what it was asked."""

    conversation: PlayedConversation
    script: _RecordedScript

    def shown(self, request: int) -> tuple[str, ...]:
        return self._texts(request, "user")

    def answered_calls(self, request: int) -> tuple[str, ...]:
        return self._texts(request, "toolResult")

    async def wait_asked(self, count: int) -> None:
        await self.script.wait_asked(count)

    def _texts(self, request: int, role: str) -> tuple[str, ...]:
        shown = Branch.of(self.script.asked[request]).shown()
        return tuple(
            _text(each.message["content"]) for each in shown if each.message["role"] == role
        )


@dataclass(frozen=True)
class PlayedStage:
    """Plays conversations without a model."""

    @asynccontextmanager
    async def open(
        self, folder: Path, script: str, attendant: PlayedAttendant
    ) -> AsyncIterator[PlayedScene]:
        path = folder / "sessions" / f"{SESSION}.jsonl"
        if not path.exists():
            await trio.to_thread.run_sync(
                lambda: begin_managed_session(
                    path, SESSION, cwd="/repo", definition="scout", label=Label("one"), now_ms=1
                )
            )
        log = SessionLog(path)
        recorded = _RecordedScript(log, _turns(script))
        conversation = PlayedConversation(SESSION, log, recorded)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(conversation.run, attendant)
            started = Started(Handle("slot-1"), SESSION, path, PROOF)
            nursery.start_soon(attendant.serve, conversation, started)
            await attendant.served.wait()
            yield PlayedScene(conversation, recorded)
            conversation.fault = "the agent is gone"
            nursery.cancel_scope.cancel()


def _turns(text: str) -> list[Turn]:
    script = scripts.decode_script(textwrap.dedent(text).encode(), "test.yaml")
    turns, failures = [], 0
    for each in script.turns_of("any", 1):
        failures = failures + 1 if each.error is not None else 0
        turns.append(
            Turn(
                each.text,
                tuple(Call(call.tool, call.arguments) for call in each.calls),
                fault=None if each.error is None else each.error.value,
                is_retried=0 < failures < DISCONNECTED_TRIES,
                hangs=each.hang,
                usage=ContextUsage(each.usage.input_tokens + each.usage.output_tokens),
            )
        )
    return turns


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return "".join(piece["text"] for piece in content)
