"""An agent with its own half of the herd, played, and an owner who leaves requests for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agents.herd_definition import HerdDefinition
from agents.herdsman.birth import Birth
from agents.herdsman.config import HerdConfig
from agents.herdsman.errors import broken
from agents.herdsman.identity import AskId, GenerationId, Label, RequestId, SessionId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.member import Member
from agents.herdsman.premises import Premises
from agents.herdsman.record import Acknowledgement, Binding, Request, RequestKind, State
from agents.herdsman.runtime import FAULT, REQUEST, Launch
from agents.herdsman.settlement import Undelivered
from tests.support.clock import LoopClock
from tests.support.deaths import unharmed
from tests.support.herd_agents import PlayedAgent, PlayedRuntime, open_runtime
from tests.support.herd_records import LEAD, uid
from tests.support.herd_talk import PlayedConversation, Script

_LOOK_S = 0.2
_PATIENCE_S = 60
_DAY_S = 24 * 3600


class Pen:
    """One agent, with its mailbox.

    Attributes:
        config: what the user has set.
        undelivered: the agent's own agents, where it has any.
        patience_s: how long what is waited for can take.
        trouble: why nothing can be told of the agent's own agents, or of what the user has set.
    """

    def __init__(self, folder: Path, runtime: PlayedRuntime, *, is_delegating: bool) -> None:
        self.premises = Premises(folder / "data", LoopClock(), "a test")
        self.runtime = runtime
        self.config = HerdConfig()
        self.undelivered = Undelivered()
        self.patience_s: float = _PATIENCE_S
        self.trouble: str | None = None
        self.birth = Birth(
            generation=GenerationId(uid("generation")),
            owner=LEAD,
            workspace=str(folder),
            label=Label("scout"),
            cwd=str(folder),
            definition=HerdDefinition("scout", "scouts", "You scout.\n", ()),
            is_delegating=is_delegating,
        )
        self.mailbox = Mailbox.of(self.premises, self.birth.workspace, self.birth.label)

    @property
    def script(self) -> Script:
        return self.runtime.script(self.birth.label)

    @property
    def agent(self) -> PlayedAgent:
        return self.runtime.agent(self.birth.label)

    @property
    def talk(self) -> PlayedConversation:
        return self.agent.conversation

    def member(self) -> Member:
        """Return a half for the agent."""

        async def config() -> HerdConfig:
            await self._look()
            return self.config

        async def undelivered(session: SessionId) -> Undelivered:
            await self._look()
            return self.undelivered

        return Member(
            self.premises,
            self.birth,
            config=config,
            undelivered=undelivered,
        )

    async def _look(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.trouble is not None:
            raise broken(self.trouble)

    async def start(self) -> PlayedAgent:
        """Start the agent."""
        launch = Launch(self.birth, self.birth.definition.persona, None, self.member())
        with unharmed():
            await (await self.runtime.prepare(launch)).start()
        return self.agent

    async def restart(self) -> PlayedAgent:
        """Let the agent go on in its session, as the same generation."""
        await self.agent.is_gone.wait()
        return self.runtime.restart(self.agent, self.member())

    def request(
        self,
        name: str,
        kind: RequestKind,
        text: str,
        *,
        ask: AskId | None = None,
        bindings: tuple[Binding, ...] = (),
    ) -> Request:
        """Return a request; its id follows from its name."""
        of = self.agent.identity.of
        now_ms = self.premises.clock.now_ms()
        return Request(of, RequestId(uid(name)), kind, text, now_ms, ask, bindings)

    async def leave(self, request: Request) -> None:
        """Leave a request, whatever else is there."""
        with unharmed():
            async with self.mailbox.hold():
                await self.mailbox.write_request(request)
            self.premises.signals.ring(str(self.mailbox.folder))

    async def tell(self, request: Request) -> Acknowledgement:
        """Leave a request, and return its answer."""
        await self.leave(request)

        async def is_answered() -> bool:
            return (await self.state()).acknowledgement is not None and (
                await self.said()
            ).request == request.request

        await self.until(is_answered)
        return await self.said()

    async def give(self, text: str = "look around", name: str = "task") -> Acknowledgement:
        """Give the agent its task, once it is there."""
        await self.wait_ready()
        return await self.tell(self.request(name, RequestKind.TASK, text))

    async def state(self) -> State:
        """Return the state that is saved."""
        state = await self.mailbox.read_state()
        assert state is not None
        return state

    async def said(self) -> Acknowledgement:
        """Return the agent's last answer."""
        said = (await self.state()).acknowledgement
        assert said is not None
        return said

    async def wait_completed(self) -> State:
        """Wait until the result is written."""
        return await self.wait_state(lambda state: state.completed is not None)

    async def wait_asking(self) -> AskId:
        """Wait until the agent waits with a question."""
        state = await self.wait_state(lambda state: state.pending_ask is not None)
        assert state.pending_ask is not None
        return state.pending_ask

    async def wait_state(self, holds: Callable[[State], bool]) -> State:
        """Wait until a state is saved for which something holds."""

        async def does_hold() -> bool:
            state = await self.mailbox.read_state()
            return state is not None and holds(state)

        await self.until(does_hold)
        return await self.state()

    async def wait_heard(self, count: int) -> list[str]:
        """Wait until the model has read so many requests; return them."""

        async def has_read() -> bool:
            await trio.lowlevel.checkpoint()
            return len(self.talk.heard(REQUEST)) >= count

        await self.until(has_read)
        return self.talk.heard(REQUEST)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Return once something holds; by the mock clock, waiting takes no time."""
        with trio.fail_after(self.patience_s):
            while not await holds():  # noqa: ASYNC110 - files do not ring
                await trio.sleep(_LOOK_S)

    async def wait_ready(self) -> None:
        """Wait until the agent has a state."""
        await self.until(self.mailbox.exists)

    async def wait_gone(self, request: Request) -> None:
        """Wait until a request is not in the mailbox any more."""

        async def is_gone() -> bool:
            await trio.lowlevel.checkpoint()
            return f"request-{request.request}.json" not in self.requests()

        await self.until(is_gone)

    async def remove(self) -> None:
        """Remove the mailbox, as the owner does who closes the agent."""
        async with self.mailbox.hold():
            await self.mailbox.remove()
        self.premises.signals.ring(str(self.mailbox.folder))

    async def pass_time(self, seconds: float) -> None:
        """Let so much time pass, with all that happens in it."""
        await trio.sleep(seconds)

    def results(self) -> list[str]:
        """Return the names of the result files."""
        return sorted(path.name for path in self.mailbox.folder.glob("result-*"))

    def requests(self) -> list[str]:
        """Return the names of the request files."""
        return sorted(path.name for path in self.mailbox.folder.glob("request-*"))

    async def result(self, name: str = "task") -> str | None:
        """Return the text of a result, None of one that failed."""
        result = await self.mailbox.read_result(RequestId(uid(name)))
        assert result is not None
        return result.text

    async def faults(self) -> list[str]:
        """Return what the agent's session says went wrong."""
        entries = await self.talk.entries()
        return [entry.details["message"] for entry in entries if entry.kind == FAULT]

    def files(self) -> dict[str, str]:
        """Return the mailbox as it lies on the disk."""
        found = {}
        for path in sorted(self.mailbox.folder.iterdir()):
            found[path.name] = path.read_text("utf-8")
        return found


@asynccontextmanager
async def open_pen(folder: Path, *, is_delegating: bool = False) -> AsyncIterator[Pen]:
    """Play an agent with its own half inside the block, which takes a day at the most."""
    with trio.fail_after(_DAY_S):
        async with open_runtime(folder / "sessions") as runtime:
            yield Pen(folder, runtime, is_delegating=is_delegating)
