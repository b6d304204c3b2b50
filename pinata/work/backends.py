"""Opens what leads an agent: its loop in this process, or a Pi of its own."""

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agents.backends.attempt import AttemptSpec
from agents.backends.in_process import InProcessAgent
from agents.backends.pi_conversation import PiMeans
from agents.backends.pi_process import PiAgent, PiAgentSpec
from agents.loop import AgentMeans, AgentOutcome
from agents.session import SessionHeader, begin_session, open_session
from engine.ports import Reporter
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft
from pinata.work.models import ChosenModel, Opener
from pinata.work.user_pi import PiWay
from pinata.work.workshop import Workshop, new_entry_id


class Agent(Protocol):
    """What every backend offers: one conversation at a time, each with a brief of its own."""

    async def run(self, brief: str, tools: Sequence[str] | None = None) -> AgentOutcome:
        """Lead a conversation to its end and return how it ended.

        Args:
            brief: the first message.
            tools: what it may call, beside `submit_result`; by default what its definition lists.

        Raises:
            ExternalError: the conversation, or the delivery of a message, cannot be saved.
        """
        ...


@dataclass(frozen=True, slots=True)
class Opening:
    """What an agent is opened with.

    Attributes:
        transcript: where its conversation is saved; nothing is there yet.
        values: what a script may refer to.
    """

    workshop: Workshop
    draft: Draft
    reporter: Reporter
    attempt: AttemptSpec
    transcript: Path
    values: Mapping[str, str]


@asynccontextmanager
async def open_agent(opening: Opening) -> AsyncIterator[Agent]:
    """Have an agent ready inside the block, run by the backend that its model was chosen for.

    Raises:
        ExternalError: its conversation cannot be saved.
    """
    chosen = opening.workshop.run.models[opening.draft.task.id]
    if isinstance(chosen.way, PiWay):
        yield await _pi(opening, chosen, chosen.way)
    else:
        async with _in_process(opening, chosen, chosen.way) as agent:
            yield agent


@asynccontextmanager
async def _in_process(
    opening: Opening, chosen: ChosenModel, opener: Opener
) -> AsyncIterator[Agent]:
    draft, context = opening.draft, opening.workshop.run.context
    model = opener(draft.attempt, opening.values)
    header = SessionHeader(str(uuid.uuid4()), str(opening.attempt.context.root), chosen.choice)
    async with open_session(
        opening.transcript, header, clock=context.clock, next_id=new_entry_id
    ) as session:
        note = opening.reporter.note
        means = AgentMeans(model, context.traffic, session, draft.budget, draft.steers, note)
        yield InProcessAgent(opening.attempt, means)


async def _pi(opening: Opening, chosen: ChosenModel, way: PiWay) -> Agent:
    attempt, clock = opening.attempt, opening.workshop.run.context.clock
    path, root = opening.transcript, attempt.context.root
    await in_thread(
        lambda: begin_session(path, str(uuid.uuid4()), root, clock), "cannot begin a conversation"
    )
    attempt = replace(attempt, context=replace(attempt.context, env=way.environment))
    draft, traffic = opening.draft, opening.workshop.run.context.traffic
    return PiAgent(
        PiAgentSpec(attempt, way.program, chosen.choice, path, frozenset(way.missing)),
        PiMeans(draft.budget, draft.steers, opening.reporter.note, way.route, traffic),
    )
