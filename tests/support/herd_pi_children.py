"""Managed agents whose Pi is played by a test, well or badly, at the other end of a stream."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from agents.backends.pi_secrets import ReadingPlace
from agents.herdsman.identity import Label, SessionId
from agents.herdsman.marker import MARKER
from agents.herdsman.pi_reader import PiLead, open_talk
from agents.herdsman.pi_talk import PiTalk
from agents.herdsman.recent_output import RecentOutput
from agents.herdsman.record import ProcessStamp
from agents.herdsman.session_file import begin_managed_session
from agents.models.trouble import strike_out
from engine.system.nursery import open_flat_nursery
from tests.support.herd_stage import PlayedAttendant
from tests.support.pi_children import MODEL, PLANTED, Child

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
CHILD = ProcessStamp(1, 1, "boot")


class ManagedChild(Child):
    """One end of the stream, in the hands of a test."""

    def __init__(self, stream: trio.SocketStream, session_file: Path) -> None:
        super().__init__(stream)
        self.session_file = session_file
        self.state = {
            "model": {"provider": "loop", "id": "m1"},
            "sessionId": SESSION,
            "sessionFile": str(session_file),
            "isStreaming": False,
        }

    async def expect(self, type_: str, **fields: object) -> dict[str, Any]:
        """Hear a command of this type, and say that it was carried out."""
        command = await self.hear()
        assert command["type"] == type_
        data = self.state if type_ == "get_state" else {}
        await self.reply(command, **{"data": data, **fields})
        return command

    async def ask(self, ask: str, **fields: object) -> dict[str, Any]:
        """Ask what our extension asks, and return the answer; nothing else is heard meanwhile."""
        await self.ask_only(ask, **fields)
        command = await self.hear()
        assert (command["type"], command["id"]) == ("extension_ui_response", "q")
        answer: dict[str, Any] = json.loads(command["value"])
        return answer

    async def ask_only(self, ask: str, **fields: object) -> None:
        """Ask what our extension asks."""
        question = json.dumps({"ask": ask, **fields})
        await self.say(
            "extension_ui_request", id="q", method="input", title="pinata:ask", placeholder=question
        )

    async def take(self) -> dict[str, Any]:
        """Hear a marker, trade it in, and say that it was handled; return what came for it."""
        command = await self.hear()
        assert command["type"] == "prompt"
        answer = await self.ask("take", id=command["message"].removeprefix(MARKER))
        await self.reply(command, data={"disposition": "handled"})
        return answer

    async def enter(self, message: Mapping[str, Any], *, saves: bool = True) -> None:
        """Have a message that was taken enter the conversation."""
        kind, details = message["kind"], message["details"]
        said = {"role": "custom", "customType": kind, "details": details}
        await self.say("message_end", message=said)
        if saves:
            self.save("custom_message", customType=kind, details=details, content=message["text"])

    def save(self, type_: str, **fields: object) -> None:
        """Add an entry to the session's file."""
        with self.session_file.open("a") as file:
            line = {"type": type_, "id": f"entry-{file.tell()}", "parentId": None, **fields}
            file.write(json.dumps(line) + "\n")

    async def run(self, text: str = "done") -> None:
        """Work on what has entered, and come to rest."""
        await self.say("agent_start")
        await self.say("turn_start")
        await self.answered(content=[{"type": "text", "text": text}])
        await self.say("agent_settled", aborted=False)


Play = Callable[[ManagedChild], Awaitable[None]]


@dataclass
class Lodge:
    """Where a played child meets the engine, and what came of it."""

    folder: Path
    attendant: PlayedAttendant = field(default_factory=PlayedAttendant)
    model: str = MODEL
    how_it_ended: str = "it ended"
    secret_files: tuple[Path, ...] = ()

    @property
    def session_file(self) -> Path:
        """Where the conversation is saved."""
        return self.folder / "session.jsonl"

    @asynccontextmanager
    async def led(self, play: Play) -> AsyncIterator[PiTalk]:
        """Lead a conversation with a child that does what `play` says, and then hangs up."""
        await trio.to_thread.run_sync(self._begin_session)
        ours, theirs = trio.socket.socketpair()

        async def perform() -> None:
            # The engine hangs up when the test has seen enough.
            with suppress(trio.BrokenResourceError):
                async with trio.SocketStream(theirs) as stream:
                    await play(ManagedChild(stream, self.session_file))

        async with open_flat_nursery() as nursery:
            nursery.start_soon(perform)
            with ours:
                async with open_talk(self._lead, trio.SocketStream(ours), self.attendant) as talk:
                    yield talk
            nursery.cancel_scope.cancel()

    @property
    def _lead(self) -> PiLead:
        async def wait_end() -> str:
            await trio.lowlevel.checkpoint()
            return self.how_it_ended

        return PiLead(
            SESSION,
            self.session_file,
            self.model,
            CHILD,
            ReadingPlace(self.folder, str(self.folder), self.secret_files),
            RecentOutput(lambda line: strike_out(line, [PLANTED])),
            (PLANTED,),
            wait_end,
        )

    def _begin_session(self) -> None:
        begin_managed_session(
            self.session_file,
            SESSION,
            cwd=str(self.folder),
            definition="scout",
            label=Label("scout"),
            now_ms=0,
        )


async def silent(child: ManagedChild) -> None:
    """Get ready, and say nothing more."""
    await child.expect("get_state")
    await trio.sleep_forever()
