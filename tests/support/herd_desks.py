"""A session that delegates to played agents, with real mailboxes and session files.

    async with open_desk(tmp_path) as desk:  # again at the same path: after a restart
        desk.define("scout", "model: some/model")
        answer = await delegate(desk.controller(), definition="scout", ...)

Agents have the herd's own half, unless `desk.attendant` makes another one, such as a `Puppet`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import trio

from agents.definition import Source
from agents.herdsman.birth import Birth
from agents.herdsman.caller import Caller
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.endings import Endings
from agents.herdsman.identity import Correlation, GenerationId, Label, RequestId, SessionId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.member import Member
from agents.herdsman.premises import Premises
from agents.herdsman.record import (
    Acknowledgement,
    OnePending,
    RejectionCode,
    State,
)
from agents.herdsman.runtime import Attendant, Conversation, Launch, Preparation, Started
from agents.herdsman.scan import scan
from agents.herdsman.settlement import Undelivered
from agents.roster import Layer, Roster, load_roster
from engine.core.spec import ModelChoice, Thinking
from tests.support.clock import LoopClock
from tests.support.deaths import Died
from tests.support.herd_agents import PlayedRuntime
from tests.support.herd_owners import StillOwner
from tests.support.herd_records import LEAD
from tests.support.herd_stage import PlayedAttendant

MODEL = ModelChoice("some", "model", Thinking.LOW)


class KeepingRuntime(PlayedRuntime):
    """A runtime that keeps what it was asked to launch.

    Attributes:
        launches: all that were prepared, whatever became of them.
    """

    def __init__(self, folder: Path, nursery: trio.Nursery) -> None:
        super().__init__(folder, nursery)
        self.launches: list[Launch] = []

    async def prepare(self, launch: Launch) -> Preparation:
        self.launches.append(launch)
        return await super().prepare(launch)


@dataclass
class Desk:
    """What calls of one or more sessions work with.

    Attributes:
        folder: what the sessions stand in.
        home: the user's; it holds the Pi agent directory.
        attendant: makes the agent's half for a generation; None makes the real one.
        roster_fault: why the definitions cannot be read.
    """

    premises: Premises
    folder: Path
    home: Path
    runtime: KeepingRuntime
    owner: StillOwner = field(default_factory=StillOwner)
    attendant: Callable[[Birth], Attendant] | None = None
    roster_fault: Exception | None = None
    endings: Endings = field(default_factory=Endings)

    @property
    def agent_dir(self) -> Path:
        return self.home / "agent"

    @property
    def sessions(self) -> list[Path]:
        """The session files that there are."""
        return sorted(self.agent_dir.rglob("*.jsonl"))

    def define(self, name: str, front: str = "", text: str = "Work.", at: str = "home") -> None:
        """Put a definition where the user, or with `at="project"` the project, has them."""
        folder = self._definitions(at)
        folder.mkdir(parents=True, exist_ok=True)
        stated = f"---\ndescription: {name}\n{front}\n---\n{text}\n"
        (folder / f"{name}.md").write_text(stated, "utf-8")

    def forget(self, name: str) -> None:
        """Remove a definition of the user's."""
        (self._definitions("home") / f"{name}.md").unlink()

    def controller(self, of: SessionId = LEAD, **caller: Any) -> Controller:
        """Return what the calls of a session are made with."""
        stated: dict[str, Any] = {
            "workspace": str(self.folder),
            "cwd": str(self.folder),
            "is_lead": True,
            "model": MODEL,
        }
        return Controller(
            premises=self.premises,
            runtime=self.runtime,
            owner=replace(self.owner, session=of),
            caller=Caller(of, **stated | caller),
            roster=self._read_roster,
            attendant=self.attendant or self.member,
            agent_dir=self.agent_dir,
            home=self.home,
            endings=self.endings,
        )

    def member(self, birth: Birth) -> Attendant:
        """Return the herd's own half of an agent."""
        config = partial(read_config, self.premises)
        return Member(self.premises, birth, config=config, undelivered=_nothing)

    def mailbox(self, label: str) -> Mailbox:
        return Mailbox.of(self.premises, str(self.folder), Label(label))

    async def state(self, label: str) -> State | None:
        return await self.mailbox(label).read_state()

    async def labels(self) -> list[str]:
        """Return the labels of all generations that there are records of."""
        found = await scan(self.premises)
        assert not found.unreadable
        return sorted(one.state.of.label for one in found.contents)

    async def end(self, label: str) -> None:
        """End an agent and remove its records, as if its result had been delivered."""
        agent = self.runtime.agent(label)
        if not agent.is_gone.is_set():
            await self.runtime.kill(agent)
        async with self.mailbox(label).hold():
            await self.mailbox(label).remove()

    async def settle(self) -> None:
        """Return once nobody has anything to do; the clock jumps."""
        await trio.sleep(1)

    async def check_untouched(self) -> None:
        """Check that no call has left anything."""
        assert await self.labels() == []
        assert self.sessions == []
        assert all(agent.is_gone.is_set() for agent in self.runtime.agents)

    def _definitions(self, at: str) -> Path:
        return self.folder / ".pi" / "agents" if at == "project" else self.agent_dir / "agents"

    async def _read_roster(self) -> Roster:
        if self.roster_fault is not None:
            raise self.roster_fault
        layers = [
            Layer(Source.PROJECT, self._definitions("project")),
            Layer(Source.USER, self._definitions("home")),
        ]
        return await trio.to_thread.run_sync(load_roster, layers)


@asynccontextmanager
async def open_desk(path: Path) -> AsyncIterator[Desk]:
    """Have a desk inside the block, with a definition `scout`; its files are below `path`."""
    folder, home = path / "tree", path / "home"
    sessions = home / "agent" / "sessions"
    for one in (folder, sessions):
        one.mkdir(parents=True, exist_ok=True)
    async with trio.open_nursery() as nursery:
        runtime = KeepingRuntime(sessions, nursery)
        premises = Premises(home / "agent" / "pinata", LoopClock(), "a test")
        desk = Desk(premises, folder, home, runtime)
        desk.define("scout")
        yield desk
        nursery.cancel_scope.cancel()


@dataclass
class Puppet(PlayedAttendant):
    """An agent's half that does as a test says.

    Attributes:
        desk, birth: whose half it is.
        dies: it ends, and the agent with it, before it is ready.
        is_mute: it never writes that it is there.
        session, generation: what it writes of itself instead of the truth.
        refuses: what it answers a task with; None takes it.
        takes: opened when it may answer its task.
    """

    desk: Desk = field(kw_only=True)
    birth: Birth = field(kw_only=True)
    dies: bool = False
    is_mute: bool = False
    session: SessionId | None = None
    generation: GenerationId | None = None
    refuses: RejectionCode | None = None
    takes: trio.Event = field(default_factory=trio.Event)
    taken: list[RequestId] = field(default_factory=list)

    async def serve(self, conversation: Conversation, started: Started) -> None:
        self.started = started
        self.served.set()
        if self.dies:
            await trio.lowlevel.checkpoint()
            raise Died
        if not self.is_mute:
            await self._work(started)
        await trio.sleep_forever()

    async def _work(self, started: Started) -> None:
        birth, mailbox = self.birth, self.desk.mailbox(self.birth.label)
        generation = self.generation or birth.generation
        of = Correlation(generation, birth.owner, birth.workspace, birth.label, started.handle)
        state = State(
            of=of,
            session=self.session or started.session,
            session_file=str(started.session_file),
            cwd=birth.cwd,
            definition=birth.definition.name,
            proof=started.proof,
            updated_ms=1,
        )
        async with mailbox.hold():
            await mailbox.write_state(state, creates=True)
        listener = self.desk.premises.signals.listen(str(mailbox.folder))
        while not isinstance(pending := await _pending(mailbox), OnePending):
            await listener.wait()
        await self.takes.wait()
        request = pending.request.request
        async with mailbox.hold():
            if await mailbox.read_request(request) is None:
                return
            said = Acknowledgement(request, self.refuses is None, 1, self.refuses)
            active = request if said.accepted else None
            await mailbox.write_state(replace(state, acknowledgement=said, active=active))
            if said.accepted:
                self.taken.append(request)


async def _pending(mailbox: Mailbox) -> object:
    contents = await mailbox.read()
    return None if contents is None else contents.pending


async def _nothing(_: SessionId) -> Undelivered:
    await trio.lowlevel.checkpoint()
    return Undelivered()
