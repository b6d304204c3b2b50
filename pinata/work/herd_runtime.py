"""Runs the agents of a session's herd in its host: each in a task of its own, whatever its backend.

An agent is there for exactly as long as its task. So the registry of this process is the whole
truth about its own agents; those of other processes are judged by whether what their records name
still runs.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, assert_never

import trio

from agents.herdsman.errors import Category, HerdError, Trouble, broken, not_found
from agents.herdsman.identity import GenerationId, Handle, Identity
from agents.herdsman.launches import recorded_launch
from agents.herdsman.premises import Premises
from agents.herdsman.record import ProcessStamp, Proof, State
from agents.herdsman.runtime import (
    Conversation,
    ForegroundProcess,
    Inventory,
    Launch,
    LiveAgent,
    Preparation,
    Slot,
    Started,
)
from engine.core.errors import PinataError
from engine.core.spec import Backend
from engine.system.nursery import open_flat_nursery
from pinata.work.herd_processes import find_foreground
from pinata.work.herd_strangers import slots_of

# What an agent that was told to end may take until nothing of it is left.
STOP_S: Final = 5.0
_HANDLE_BYTES = 6
_log = logging.getLogger(f"pinata.{__name__}")


class LedConversation(Conversation, Protocol):
    """A conversation that an agent leads, and what its backend knows of that."""

    async def is_answering(self) -> bool:
        """Return whether the agent tells now, in time, that it leads this conversation."""
        ...

    async def wait_ended(self) -> str:
        """Return how the agent ended by itself, once it has; one that was told to never does."""
        ...

    @property
    def child(self) -> ProcessStamp | None:
        """The program that is the agent, where it is one of its own."""
        ...


class Way(Protocol):
    """How one agent is run: its backend, its model and its tools were found."""

    @property
    def backend(self) -> Backend:
        """What runs it."""
        ...

    def open(self, mark: str) -> AbstractAsyncContextManager[LedConversation]:
        """Have the agent at rest and ready inside the block; nothing of it is left afterwards.

        Args:
            mark: what its processes carry, with a slash and more after it.
        """
        ...


class FindWay(Protocol):
    """Finds how an agent can be run."""

    async def __call__(self, launch: Launch) -> Way:
        """Return a way.

        Raises:
            HerdError: INVALID_REQUEST: something that it needs is not there.
        """
        ...


@dataclass(slots=True)
class _Agent:
    """An agent that runs, or is about to.

    Attributes:
        identity: None until it is up.
    """

    launch: Launch
    handle: Handle
    mark: str = ""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    is_gone: trio.Event = field(default_factory=trio.Event)
    identity: Identity | None = None
    conversation: LedConversation | None = None
    failure: str = ""


class HerdRuntime:
    """The agents of this process; a `Runtime`.

    Attributes:
        premises: of their herd.
    """

    def __init__(
        self, premises: Premises, find_way: FindWay, host: ProcessStamp, nursery: trio.Nursery
    ) -> None:
        """Begin without agents.

        Args:
            premises: of the herd.
            find_way: finds how an agent can be run.
            host: this process.
            nursery: in which agents run; it outlives all that use this.
        """
        self.premises = premises
        self._find_way = find_way
        self._host = host
        self._nursery = nursery
        self._agents: dict[GenerationId, _Agent] = {}

    @property
    def generations(self) -> frozenset[GenerationId]:
        """All agents that are up, or about to be."""
        return frozenset(self._agents)

    async def prepare(self, launch: Launch) -> Preparation:
        """See `Runtime`."""
        return _Prepared(launch, await self._find_way(launch), self._start)

    async def inventory(self, states: Sequence[State]) -> Inventory:
        """See `Runtime`."""
        strangers = [one for one in states if one.of.generation not in self._agents]
        slots = await trio.to_thread.run_sync(slots_of, strangers, self._host)
        up = [(each.identity, each.conversation) for each in self._agents.values()]
        answers: dict[Handle, LiveAgent] = {}

        async def ask(identity: Identity, conversation: LedConversation) -> None:
            if await conversation.is_answering():
                answers[identity.of.handle] = LiveAgent(
                    workspace=identity.of.workspace,
                    handle=identity.of.handle,
                    session=conversation.session,
                    session_file=str(conversation.session_file),
                    lifecycle=conversation.lifecycle,
                    cwd=identity.cwd,
                )

        async with open_flat_nursery() as nursery:
            for identity, conversation in up:
                if identity is not None and conversation is not None:
                    nursery.start_soon(ask, identity, conversation)
        own = [
            Slot(each.handle, None if each.identity is None else each.identity.session)
            for each in self._agents.values()
        ]
        return Inventory(tuple(answers.values()), (*own, *slots))

    async def stop(self, identity: Identity) -> None:
        """See `Runtime`."""
        agent = self._find(identity)
        agent.scope.cancel()
        with trio.move_on_after(STOP_S, shield=True):
            await agent.is_gone.wait()
            return
        raise broken(f"the agent {identity.of.label} is still there after {STOP_S:g} s")

    async def capture(self, identity: Identity) -> Sequence[str]:
        """See `Runtime`."""
        conversation = self._find(identity).conversation
        assert conversation is not None
        return await conversation.recent_output()

    async def processes(self, identity: Identity) -> Sequence[ForegroundProcess]:
        """See `Runtime`."""
        agent = self._find(identity)
        return await trio.to_thread.run_sync(find_foreground, f"{agent.mark}/")

    def conversation(self, identity: Identity) -> LedConversation | None:
        """See `Runtime`."""
        agent = self._agents.get(identity.of.generation)
        return None if agent is None or agent.identity != identity else agent.conversation

    def _find(self, identity: Identity) -> _Agent:
        agent = self._agents.get(identity.of.generation)
        if agent is None or agent.identity != identity:
            raise not_found(f"the agent {identity.of.label} is not run by this session's host")
        return agent

    async def _start(self, launch: Launch, way: Way) -> Started:
        handle = Handle(f"{way.backend.value}-{secrets.token_hex(_HANDLE_BYTES)}")
        agent = _Agent(launch, handle)
        self._agents[launch.birth.generation] = agent
        try:
            started: Started = await self._nursery.start(self._carry, agent, way)
        except PinataError as error:
            raise _not_ready(launch, str(error)) from error
        except trio.Cancelled:
            agent.scope.cancel()
            with trio.CancelScope(shield=True):
                await agent.is_gone.wait()
            raise
        return started

    async def _carry(self, agent: _Agent, way: Way, task_status: trio.TaskStatus[Started]) -> None:
        """Run an agent to its end; what befalls it after its start ends nothing else."""
        has_started = False

        def started(what: Started) -> None:
            nonlocal has_started
            has_started = True
            task_status.started(what)

        try:
            with agent.scope:
                await self._lead(agent, way, started)
        except Exception:
            if not has_started:
                raise
            _log.exception("the agent %s broke off", agent.launch.birth.label)
        finally:
            del self._agents[agent.launch.birth.generation]
            agent.is_gone.set()
            self.premises.signals.ring(agent.launch.birth.owner)

    async def _lead(self, agent: _Agent, way: Way, started: Callable[[Started], None]) -> None:
        launch = agent.launch
        async with (
            recorded_launch(self.premises, launch.birth.generation, self._host) as agent.mark,
            way.open(agent.mark) as conversation,
        ):
            proof = Proof(_stored(way.backend), self._host, conversation.child, agent.mark)
            what = Started(agent.handle, conversation.session, conversation.session_file, proof)
            of = launch.birth.at(agent.handle)
            agent.identity = Identity(
                of, conversation.session, str(conversation.session_file), launch.birth.cwd
            )
            agent.conversation = conversation
            async with open_flat_nursery() as nursery:
                nursery.start_soon(self._watch_end, agent, conversation, nursery.cancel_scope)
                started(what)
                await launch.attendant.serve(conversation, what)
                # Nobody can tell it anything, hear of it or close it any more.
                nursery.cancel_scope.cancel()

    async def _watch_end(
        self, agent: _Agent, conversation: LedConversation, scope: trio.CancelScope
    ) -> None:
        agent.failure = await conversation.wait_ended()
        _log.warning("the agent %s is gone: %s", agent.launch.birth.label, agent.failure)
        scope.cancel()


@dataclass(frozen=True, slots=True)
class _Prepared:
    """An agent that can be started; a `Preparation`."""

    launch: Launch
    way: Way
    begin: "_Begin"

    async def start(self) -> Started:
        """See `Preparation`."""
        return await self.begin(self.launch, self.way)


class _Begin(Protocol):
    async def __call__(self, launch: Launch, way: Way) -> Started: ...


def _stored(backend: Backend) -> Literal["in-process", "process", "herdr-pi"]:
    match backend:
        case Backend.IN_PROCESS:
            return "in-process"
        case Backend.PROCESS:
            return "process"
        case Backend.HERDR_PI:
            return "herdr-pi"
        case _:
            assert_never(backend)


def _not_ready(launch: Launch, why: str) -> HerdError:
    return HerdError(
        Trouble(
            Category.PANE_NOT_READY,
            f"the agent {launch.birth.label} did not come up: {why}",
            rollback_occurred=True,
            ids={"agent": launch.birth.label},
        )
    )
