"""An agent's own half that serves a conversation, and its owner, who meets it in its mailbox."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import trio

from agents.herd_definition import HerdDefinition
from agents.herdsman.birth import Birth
from agents.herdsman.config import HerdConfig
from agents.herdsman.identity import (
    AskId,
    Correlation,
    GenerationId,
    Label,
    RequestId,
    SessionId,
)
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.member import Member
from agents.herdsman.premises import Premises
from agents.herdsman.record import Request, RequestKind, Result, State
from agents.herdsman.runtime import Conversation, HerdTool, Started
from agents.herdsman.settlement import Undelivered
from agents.herdsman.signals import ANYTHING
from tests.support.clock import LoopClock
from tests.support.herd_records import LEAD, uid

T = TypeVar("T", bound=Conversation)


@dataclass
class Owner(Generic[T]):
    """Leaves requests for the agent, and reads its mailbox."""

    mailbox: Mailbox
    of: Correlation
    conversation: T

    async def request(self, kind: RequestKind, text: str, ask: AskId | None = None) -> RequestId:
        """Leave a request and wait until it is accepted."""
        request, premises = RequestId(uid(text)), self.mailbox.premises
        now_ms = premises.clock.now_ms()
        async with self.mailbox.hold():
            await self.mailbox.write_request(Request(self.of, request, kind, text, now_ms, ask, ()))
        premises.signals.ring(str(self.mailbox.folder))
        state = await self.wait(
            lambda state: (
                state.acknowledgement is not None and state.acknowledgement.request == request
            )
        )
        assert state.acknowledgement is not None
        assert state.acknowledgement.accepted, state.acknowledgement
        return request

    async def wait(self, holds: Callable[[State], bool]) -> State:
        """Wait until something holds of the state."""
        listener = self.mailbox.premises.signals.listen(ANYTHING)
        with trio.fail_after(60):
            while True:
                state = await self.mailbox.read_state()
                if state is not None and holds(state):
                    return state
                await listener.wait()

    async def result(self, task: RequestId) -> Result:
        """Wait for the result of a task."""
        await self.wait(lambda state: state.completed == task)
        result = await self.mailbox.read_result(task)
        assert result is not None
        return result


@dataclass(frozen=True)
class Half:
    """An agent's own half that serves nothing yet."""

    premises: Premises
    birth: Birth
    member: Member


def half_at(
    folder: Path, label: Label, definition: HerdDefinition, *, tools: Sequence[HerdTool] = ()
) -> Half:
    """Return the half of an agent that works in `folder` and owns no agents."""

    async def config() -> HerdConfig:
        await trio.lowlevel.checkpoint()
        return HerdConfig()

    async def undelivered(session: SessionId) -> Undelivered:
        await trio.lowlevel.checkpoint()
        return Undelivered()

    premises = Premises(folder / "data", LoopClock(), "a test")
    birth = Birth(
        generation=GenerationId(uid("generation")),
        owner=LEAD,
        workspace=str(folder),
        label=label,
        cwd=str(folder),
        definition=definition,
        is_delegating=False,
    )
    member = Member(premises, birth, tools=tools, config=config, undelivered=undelivered)
    return Half(premises, birth, member)


@asynccontextmanager
async def served(half: Half, conversation: T, started: Started) -> AsyncIterator[Owner[T]]:
    """Have the half at work inside the block; yields the owner once there is a state."""
    birth = half.birth
    of = birth.at(started.handle)
    mailbox = Mailbox.of(half.premises, birth.workspace, birth.label)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(half.member.serve, conversation, started)
        owner = Owner(mailbox, of, conversation)
        await owner.wait(lambda _: True)
        yield owner
        nursery.cancel_scope.cancel()
