"""The agents' own halves of the herd, as a host makes them; those that delegate own agents too."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from agents.herdsman.birth import Birth
from agents.herdsman.caller import Caller
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.conversation_owner import ConversationOwner
from agents.herdsman.identity import SessionId
from agents.herdsman.keeper import keep
from agents.herdsman.member import Member
from agents.herdsman.premises import Premises
from agents.herdsman.runtime import (
    Attendant,
    CompactionReason,
    Conversation,
    Ended,
    HerdTool,
    Runtime,
    Started,
)
from agents.herdsman.settlement import Undelivered
from agents.herdsman.undelivered import find_undelivered
from agents.roster import Roster
from engine.core.spec import ModelChoice, Thinking
from engine.system.nursery import open_flat_nursery

# Makes the tools by which an agent delegates: from what tells its controller, once the agent is
# there, and from the names of the definitions that it may use.
AgentTools = Callable[[Callable[[], Controller], Sequence[str]], Sequence[HerdTool]]


@dataclass(frozen=True, slots=True)
class Attendants:
    """Makes the attendants of the agents of a host.

    Attributes:
        preferred: the model that the session works with; None where that is not known.
        roster: reads the definitions that hold now.
        controllers: of the agents that delegate, by their sessions, for as long as they are there.
    """

    premises: Premises
    runtime: Runtime
    tools: AgentTools
    home: Path | None
    agent_dir: Path | None
    preferred: Callable[[], ModelChoice | None]
    roster: Callable[[], Awaitable[Roster]]
    controllers: dict[SessionId, Controller] = field(default_factory=dict)

    def attendant(self, birth: Birth) -> Attendant:
        """Return the half of an agent that is about to be started."""
        if not birth.is_delegating:
            return self._member(birth, (), _no_children)
        allowed = tuple(birth.definition.agents or ())
        agent = _Delegating(self, birth, allowed)
        tools = self.tools(agent.controller, allowed)
        agent.member = self._member(birth, tools, agent.undelivered)
        return agent

    def _member(
        self,
        birth: Birth,
        tools: Sequence[HerdTool],
        undelivered: Callable[[SessionId], Awaitable[Undelivered]],
    ) -> Member:
        config = partial(read_config, self.premises)
        return Member(self.premises, birth, tools=tools, config=config, undelivered=undelivered)


async def _no_children(_: SessionId) -> Undelivered:
    await trio.lowlevel.checkpoint()
    return Undelivered()


class _Delegating:
    """The half of an agent that delegates: the agent's own, and its owner's side beside it."""

    def __init__(self, attendants: Attendants, birth: Birth, allowed: Sequence[str]) -> None:
        self.member: Member | None = None
        self._attendants = attendants
        self._birth = birth
        self._allowed = frozenset(allowed)
        self._controller: Controller | None = None
        self._owner: ConversationOwner | None = None

    def controller(self) -> Controller:
        """Return the agent as the owner of others; it must be there."""
        assert self._controller is not None
        return self._controller

    async def undelivered(self, session: SessionId) -> Undelivered:
        """Return what its own agents have not delivered."""
        owner = self.controller().owner
        return await find_undelivered(self._attendants.premises, session, await owner.entries())

    @property
    def _own(self) -> Member:
        assert self.member is not None
        return self.member

    @property
    def tools(self) -> Sequence[HerdTool]:
        """See `Attendant`."""
        return self._own.tools

    async def serve(self, conversation: Conversation, started: Started) -> None:
        """See `Attendant`."""
        controllers = self._attendants.controllers
        self._controller = controllers[started.session] = self._owning(conversation, started)
        try:
            async with open_flat_nursery() as nursery:
                nursery.start_soon(keep, self._controller)
                await self._own.serve(conversation, started)
                nursery.cancel_scope.cancel()
        finally:
            del controllers[started.session]

    def _owning(self, conversation: Conversation, started: Started) -> Controller:
        birth, attendants = self._birth, self._attendants
        self._owner = ConversationOwner(conversation)
        caller = Caller(
            session=started.session,
            workspace=birth.workspace,
            cwd=birth.cwd,
            is_lead=False,
            allowed=self._allowed,
            model=self._model(),
        )
        return Controller(
            premises=attendants.premises,
            runtime=attendants.runtime,
            owner=self._owner,
            caller=caller,
            roster=attendants.roster,
            attendant=attendants.attendant,
            agent_dir=attendants.agent_dir,
            home=attendants.home,
        )

    def _model(self) -> ModelChoice | None:
        """Return what the agent's own agents work with where their definitions name nothing."""
        definition, session = self._birth.definition, self._birth.session
        if definition.model is not None:
            return ModelChoice(*definition.model, definition.thinking or Thinking.OFF)
        saved = None if session is None else session.model
        return saved or self._attendants.preferred()

    def active(self) -> None:
        """See `Attendant`."""
        self._own.active()
        self._tell_changed()

    def answered(self, text: str, *, was_aborted: bool) -> None:
        """See `Attendant`."""
        self._own.answered(text, was_aborted=was_aborted)

    async def came_to_rest(self, ended: Ended) -> None:
        """See `Attendant`."""
        await self._own.came_to_rest(ended)
        self._tell_changed()

    def _tell_changed(self) -> None:
        if self._owner is not None:
            self._owner.change()

    async def may_compact(self, reason: CompactionReason) -> bool:
        """See `Attendant`."""
        return await self._own.may_compact(reason)
