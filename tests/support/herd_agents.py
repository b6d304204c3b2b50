"""Played agents: a runtime that keeps the promises of the herd's ports; the test is the model.

    async with open_runtime(tmp_path / "sessions") as runtime:
        runtime.script("scout").play(
            Turn("let me ask", calls=(Call("ask_owner", {"question": "a or b?"}),)),
            Turn("b it is", takes_s=30),
        )

`Turn`, `Call` and the conversation are in `tests.support.herd_talk`. Conversations are saved as Pi
session files, so an agent that is gone, or died at a crash point (`tests.support.deaths`), goes on
with what its file holds (`restart`). Use the fixture `herd_clock`: it jumps over waiting, but never
while a thread works.
"""

import itertools
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agents.herdsman.errors import HerdError, not_found
from agents.herdsman.identity import Handle, Identity, SessionId
from agents.herdsman.record import ProcessStamp, Proof, State
from agents.herdsman.runtime import (
    IDENTITY,
    Attendant,
    Conversation,
    ForegroundProcess,
    Inventory,
    Launch,
    LiveAgent,
    Preparation,
    Slot,
    Started,
)
from engine.core.errors import ExternalError
from tests.support.deaths import Died
from tests.support.herd_talk import PlayedConversation, Script, SessionLog


@dataclass(slots=True)
class PlayedAgent:
    """An agent that runs, or ran."""

    identity: Identity
    conversation: PlayedConversation
    attendant: Attendant
    started: Started
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    is_gone: trio.Event = field(default_factory=trio.Event)


class PlayedRuntime:
    """Runs played agents; see `open_runtime`.

    Attributes:
        agents: all that were started, the last one last.
        refusal: why nothing can be prepared.
        start_fault: why nothing comes up.
        start_takes_s: passes before an agent is up.
        handle_prefix: what the names of agents' places begin with.
        inventory_fault: why nobody can tell what is there.
        unanswering: handles of agents that are there and do not say who they are.
    """

    def __init__(self, folder: Path, nursery: trio.Nursery) -> None:
        self.agents: list[PlayedAgent] = []
        self.refusal: HerdError | None = None
        self.start_fault: HerdError | None = None
        self.start_takes_s: float = 0
        self.handle_prefix = "slot-"
        self.inventory_fault: str | None = None
        self.unanswering: set[Handle] = set()
        self._folder = folder
        self._numbers = itertools.count(1)
        self._nursery = nursery
        self._scripts: defaultdict[str, Script] = defaultdict(Script)

    def script(self, label: str) -> Script:
        """Return what the model of agents with this label answers."""
        return self._scripts[label]

    def agent(self, label: str) -> PlayedAgent:
        """Return the last agent that was started with a label."""
        return next(a for a in reversed(self.agents) if a.identity.of.label == label)

    async def prepare(self, launch: Launch) -> Preparation:
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise self.refusal
        return _PlayedPreparation(self, launch)

    async def start(self, launch: Launch) -> Started:
        """Start an agent; the prepared one does this."""
        await trio.sleep(self.start_takes_s)
        if self.start_fault is not None:
            raise self.start_fault
        handle = Handle(f"{self.handle_prefix}{next(self._numbers)}")
        birth, of = launch.birth, launch.birth.at(handle)
        session = birth.session.session if birth.session else SessionId(str(uuid.uuid4()))
        sessions = self._folder / f"--{birth.cwd.strip('/').replace('/', '-')}--"
        log = SessionLog(birth.session.file if birth.session else sessions / f"{session}.jsonl")
        if birth.session is None:
            await trio.to_thread.run_sync(log.begin, session, birth.cwd)
            named = {"session": session, "definition": birth.definition.name}
            data = {**named, "label": birth.label}
            await trio.to_thread.run_sync(log.add, "custom", {"customType": IDENTITY, "data": data})
        identity = Identity(of, session, str(log.path), birth.cwd)
        started = Started(handle, session, log.path, HERE)
        self._begin(identity, started, log, launch.attendant)
        return started

    def restart(self, agent: PlayedAgent, attendant: Attendant) -> PlayedAgent:
        """Let an agent that is gone go on in its session, as the same generation."""
        assert agent.is_gone.is_set()
        log = SessionLog(agent.conversation.session_file)
        return self._begin(agent.identity, agent.started, log, attendant)

    def revive(self, state: State, attendant: Attendant) -> PlayedAgent:
        """Let an agent that another process ran go on in its session, as the same generation."""
        log = SessionLog(Path(state.session_file))
        started = Started(state.handle, state.session, log.path, state.proof)
        return self._begin(state.identity, started, log, attendant)

    async def kill(self, agent: PlayedAgent) -> None:
        """Have an agent vanish."""
        agent.scope.cancel()
        await agent.is_gone.wait()

    async def inventory(self, states: Sequence[State]) -> Inventory:
        await trio.lowlevel.checkpoint()
        if self.inventory_fault is not None:
            raise ExternalError(self.inventory_fault)
        agents, slots = [], []
        for agent in self._here():
            handle = agent.identity.of.handle
            is_known = handle not in self.unanswering
            slots.append(Slot(handle, agent.identity.session if is_known else None))
            if is_known:
                agents.append(_live(agent))
        return Inventory(tuple(agents), tuple(slots))

    async def stop(self, identity: Identity) -> None:
        await self.kill(self._exact(identity))

    async def capture(self, identity: Identity) -> Sequence[str]:
        return await self._exact(identity).conversation.recent_output()

    async def processes(self, identity: Identity) -> Sequence[ForegroundProcess]:
        await trio.lowlevel.checkpoint()
        return ()

    def conversation(self, identity: Identity) -> Conversation | None:
        return next((a.conversation for a in self._here() if a.identity == identity), None)

    def _here(self) -> list[PlayedAgent]:
        return [agent for agent in self.agents if not agent.is_gone.is_set()]

    def _exact(self, identity: Identity) -> PlayedAgent:
        agent = next((a for a in self._here() if a.identity == identity), None)
        if agent is None:
            raise not_found(f"there is no agent in {identity.of.handle} that is exactly this one")
        return agent

    def _begin(
        self, identity: Identity, started: Started, log: SessionLog, attendant: Attendant
    ) -> PlayedAgent:
        conversation = PlayedConversation(identity.session, log, self.script(identity.of.label))
        agent = PlayedAgent(identity, conversation, attendant, started)
        self.agents.append(agent)
        self._nursery.start_soon(self._live, agent)
        return agent

    async def _live(self, agent: PlayedAgent) -> None:
        try:
            with agent.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(agent.conversation.run, agent.attendant)
                    await agent.attendant.serve(agent.conversation, agent.started)
                    nursery.cancel_scope.cancel()
        except* Died:
            pass
        finally:
            agent.is_gone.set()


@dataclass(frozen=True, slots=True)
class _PlayedPreparation:
    runtime: PlayedRuntime
    launch: Launch

    async def start(self) -> Started:
        return await self.runtime.start(self.launch)


# What is said of where a played agent runs; nobody looks for such a process.
HERE = Proof("in-process", ProcessStamp(1, 1, "played"))


def _live(agent: PlayedAgent) -> LiveAgent:
    of, seen = agent.identity.of, agent.conversation
    return LiveAgent(
        of.workspace,
        of.handle,
        seen.session,
        str(seen.session_file),
        seen.lifecycle,
        cwd=agent.identity.cwd,
    )


@asynccontextmanager
async def open_runtime(folder: Path) -> AsyncIterator[PlayedRuntime]:
    """Run played agents inside the block; their session files are below `folder`."""
    async with trio.open_nursery() as nursery:
        yield PlayedRuntime(folder, nursery)
        nursery.cancel_scope.cancel()
