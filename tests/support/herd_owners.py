"""A session that owns agents, and agents that are only records and what a runtime says of them.

    stage = Stage.at(tmp_path)
    scout = await stage.add("scout", active=TASK)

The mailboxes are real. What an agent would answer is written into its mailbox by the test, or by
`stage.answering`. `stage.runtime` says what is there; a test changes that as it likes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import trio

from agents.herdsman.birth import Birth
from agents.herdsman.caller import Caller
from agents.herdsman.controller import Controller
from agents.herdsman.endings import Endings
from agents.herdsman.errors import HerdError, not_found
from agents.herdsman.identity import Handle, Identity, Label, RequestId, SessionId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.premises import Premises
from agents.herdsman.record import Acknowledgement, RejectionCode, Request, Result, State
from agents.herdsman.runtime import (
    Attendant,
    Conversation,
    Entry,
    ForegroundProcess,
    Inventory,
    Launch,
    Lifecycle,
    LiveAgent,
    Message,
    Preparation,
    Slot,
)
from agents.roster import Roster
from engine.core.errors import ExternalError
from tests.support.clock import FakeClock
from tests.support.herd_records import LEAD, NOW_MS, agent_of, session, state_of

TASK = RequestId("0198c0de-0000-7000-8000-00000000000a")


async def nothing_happens(identity: Identity) -> None:
    await trio.lowlevel.checkpoint()


@dataclass
class StillRuntime:
    """Says of agents what it was told of them, and ends those that it should.

    Attributes:
        agents: those that are there, by handle.
        fault: why it cannot be told what is there.
        stopped: the labels of those that were ended, in order.
        outlives_stop: labels of agents that are seen after their end.
        stop_fault: why nothing can be ended.
        output: what every terminal shows.
        programs: what every agent runs; an error tells why that is not known.
        while_stopping, while_capturing: happens before such a call returns.
    """

    agents: dict[Handle, LiveAgent] = field(default_factory=dict)
    fault: str | None = None
    stopped: list[str] = field(default_factory=list)
    outlives_stop: set[str] = field(default_factory=set)
    stop_fault: HerdError | None = None
    output: Sequence[str] = ()
    programs: Sequence[ForegroundProcess] | ExternalError = ()
    while_stopping: Callable[[Identity], Awaitable[None]] = nothing_happens
    while_capturing: Callable[[Identity], Awaitable[None]] = nothing_happens

    async def prepare(self, launch: Launch) -> Preparation:
        raise AssertionError("nothing is started here")

    async def inventory(self, states: Sequence[State]) -> Inventory:
        await trio.lowlevel.checkpoint()
        if self.fault is not None:
            raise ExternalError(self.fault)
        slots = (Slot(agent.handle, agent.session) for agent in self.agents.values())
        return Inventory(tuple(self.agents.values()), tuple(slots))

    async def stop(self, identity: Identity) -> None:
        self._check(identity)
        if self.stop_fault is not None:
            raise self.stop_fault
        await self.while_stopping(identity)
        self.stopped.append(identity.of.label)
        if identity.of.label not in self.outlives_stop:
            del self.agents[identity.of.handle]

    async def capture(self, identity: Identity) -> Sequence[str]:
        self._check(identity)
        await self.while_capturing(identity)
        return self.output

    async def processes(self, identity: Identity) -> Sequence[ForegroundProcess]:
        await trio.lowlevel.checkpoint()
        if isinstance(self.programs, ExternalError):
            raise self.programs
        return self.programs

    def conversation(self, identity: Identity) -> Conversation | None:
        return None

    def _check(self, identity: Identity) -> None:
        agent = self.agents.get(identity.of.handle)
        if agent is None or agent.session != identity.session:
            raise not_found("there is no such agent")


@dataclass
class StillOwner:
    """A session that owns agents, of which only the history matters.

    Attributes:
        history: what `entries` returns.
        is_away: nobody speaks for it.
    """

    session: SessionId = LEAD
    is_idle: bool = True
    history: list[Entry] = field(default_factory=list)
    is_away: bool = False

    async def wait_changed(self) -> None:
        await trio.sleep_forever()

    async def entries(self) -> Sequence[Entry]:
        await trio.lowlevel.checkpoint()
        if self.is_away:
            raise OwnerAwayError
        return self.history

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        raise AssertionError("nothing is told here")

    async def tell(self, key: str, message: Message, *, only_if_idle: bool) -> bool:
        raise AssertionError("nothing is told here")


@dataclass
class Stage:
    """All that calls of an owner work with.

    Attributes:
        folder: what the agents and their owner stand in.
        roster: what `agent_list` shows; an error tells why that cannot be read.
    """

    premises: Premises
    folder: Path
    clock: FakeClock
    runtime: StillRuntime = field(default_factory=StillRuntime)
    owner: StillOwner = field(default_factory=StillOwner)
    roster: Roster | Exception = field(default_factory=lambda: Roster({}))
    endings: Endings = field(default_factory=Endings)

    @classmethod
    def at(cls, path: Path) -> "Stage":
        """Return a stage whose files are below `path`."""
        folder, clock = path / "tree", FakeClock(NOW_MS)
        folder.mkdir()
        return cls(Premises(path / "data", clock, "a test"), folder.resolve(), clock)

    @property
    def workspace(self) -> str:
        return str(self.folder)

    def controller(self, of: SessionId = LEAD, *, is_lead: bool = True) -> Controller:
        """Return what the calls of a session are made with."""
        return Controller(
            premises=self.premises,
            runtime=self.runtime,
            owner=replace(self.owner, session=of),
            caller=Caller(of, self.workspace, self.workspace, is_lead),
            roster=self._read_roster,
            attendant=_no_attendant,
            endings=self.endings,
        )

    def mailbox(self, label: str) -> Mailbox:
        return Mailbox.of(self.premises, self.workspace, Label(label))

    def session_file(self, label: str) -> Path:
        """Return where an agent's conversation is saved; nothing is there at first."""
        return self.folder / f"{label}.jsonl"

    async def add(
        self,
        label: str,
        *,
        owner: SessionId = LEAD,
        lifecycle: Lifecycle | None = Lifecycle.WORKING,
        **more: Any,
    ) -> State:
        """Add an agent; without a lifecycle it is lost."""
        more = {"session_file": str(self.session_file(label)), "active": TASK, **more}
        state = state_of(label, owner=owner, workspace=self.workspace, **more)
        await self.mailbox(label).write_state(state, creates=True)
        self.see(state, lifecycle)
        return state

    def see(self, state: State, lifecycle: Lifecycle | None = Lifecycle.WORKING) -> None:
        """Have the runtime see an agent, or see it no more."""
        self.runtime.agents.pop(state.handle, None)
        if lifecycle is not None:
            self.runtime.agents[state.handle] = agent_of(state, lifecycle)

    async def add_parent(self, label: str, *children: str) -> State:
        """Add an agent and some that work for it."""
        parent = await self.add(label)
        for child in children:
            await self.add(child, owner=session(label))
        return parent

    async def change(self, label: str, **changes: Any) -> State:
        """Change an agent's state, as the agent does."""
        mailbox = self.mailbox(label)
        state = await mailbox.read_state()
        assert state is not None
        state = replace(state, **changes)
        await mailbox.write_state(state)
        return state

    async def finish(self, label: str) -> Result:
        """Have an agent produce its result, as it does: the result first, and then the state."""
        state = await self.mailbox(label).read_state()
        assert state is not None
        assert state.active is not None
        result = Result(state.of, state.active, "completed", NOW_MS, "done")
        await self.mailbox(label).write_result(result)
        return result

    async def handed(self, label: str) -> Request:
        """Return the request that an agent was left, as soon as there is one."""
        listener = self.premises.signals.listen(str(self.mailbox(label).folder))
        while (request := await self._request(label)) is None:
            await listener.wait()
        return request

    async def _request(self, label: str) -> Request | None:
        contents = await self.mailbox(label).read()
        assert contents is not None
        return getattr(contents.pending, "request", None)

    async def acknowledge(
        self, label: str, request: Request, code: RejectionCode | None = None, text: str = ""
    ) -> None:
        """Have an agent answer a request."""
        said = Acknowledgement(request.request, code is None, NOW_MS, code, text or None)
        await self.change(label, acknowledgement=said)

    @asynccontextmanager
    async def answering(
        self, label: str, code: RejectionCode | None = None, text: str = ""
    ) -> AsyncIterator[list[Request]]:
        """Have an agent answer what it is left inside the block; yield what that was."""
        answered: list[Request] = []

        async def answer() -> None:
            while True:
                request = await self.handed(label)
                answered.append(request)
                await self.acknowledge(label, request, code, text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            yield answered
            nursery.cancel_scope.cancel()

    async def _read_roster(self) -> Roster:
        await trio.lowlevel.checkpoint()
        if isinstance(self.roster, Exception):
            raise self.roster
        return self.roster


def _no_attendant(birth: Birth) -> Attendant:
    raise AssertionError("nothing is started here")
